"""`mergewise serve`: collections of documents behind HTTP, with jobs that survive kills, and a page."""
