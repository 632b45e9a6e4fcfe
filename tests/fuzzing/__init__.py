"""Coverage-guided fuzzing: `targets` has functions of bytes with invariants, `python -m tests.fuzzing` runs them."""
