"""One index as several whole ones: documents are dealt out by a hash of their ids, questions are asked of all and merged."""
