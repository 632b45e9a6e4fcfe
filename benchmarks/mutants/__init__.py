"""Mutants: one small change at a time in a copy of the sources, and whether a test notices.

python -m benchmarks.mutants [--count N] [--seed N] [--workers N] [--minutes N] [--again]

`operators` makes the changes, `sample` draws them, `reached` knows which tests call which function, `trial` runs the
tests against one change in a process of its own, `report` counts. The sample depends on the seed and on the text of
the sources alone, and a change has a name without a line number, so that the list of survivors (`survivors.toml`)
outlives other edits.

Why not a package: mutmut 3 mutates functions through trampolines and draws no sample; cosmic-ray changes the working
tree and runs one command for all mutants; mutatest ended with Python 3.8. Here ten minutes for a whole run make the
choice of tests the main thing, and that is a hundred lines on top of `coverage`.
"""
