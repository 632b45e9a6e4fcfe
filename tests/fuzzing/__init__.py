"""Coverage-guided fuzzing: `targets` says what is given bytes and what must hold of it, `python -m tests.fuzzing` drives it."""
