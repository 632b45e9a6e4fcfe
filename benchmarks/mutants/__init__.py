"""Mutation tests: make one small change in a copy of the sources, and check that a test fails.

python -m benchmarks.mutants [--count N] [--seed N] [--workers N] [--minutes N] [--again]

`operators` makes the changes, `sample` draws them, `reached` maps functions to the tests that call them, `trial` runs the
tests against one change in a separate process, and `report` counts. The sample depends only on the seed and on the text of
the sources. The name of a change has no line number, so the list of survivors (`survivors.toml`) stays valid after other edits.

We do not use a package: mutmut 3 mutates functions through trampolines and has no sampling; cosmic-ray changes the working
tree and runs one command for all mutants; mutatest ended with Python 3.8. Choosing the right tests matters most for a run of
limited time, and that takes a hundred lines on top of `coverage`.
"""
