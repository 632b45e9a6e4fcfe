"""Answers from contexts: modes, citations, marks, and output formats of a context."""
