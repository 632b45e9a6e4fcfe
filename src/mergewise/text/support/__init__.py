"""The judge of support: checks that texts contain the content of a sentence, for answers and for the values of markers."""
