"""Tests of a whole server: robustness and speed."""
