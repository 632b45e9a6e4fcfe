"""`mergewise serve`: an HTTP server for collections of documents, with a web page and jobs that survive crashes."""
