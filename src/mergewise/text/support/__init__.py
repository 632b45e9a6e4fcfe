"""The judge of support: whether texts hold what a sentence says. Answers and the values of markers are held to it."""
