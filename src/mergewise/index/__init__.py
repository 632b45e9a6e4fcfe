"""The way from documents to rows: reading, splitting, embedding and writing, in one process or several."""
