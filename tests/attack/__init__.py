"""Attacks on mergewise: what must hold whatever stands in files, on disks, at endpoints and in documents.

`make attack` runs the long form (MERGEWISE_ATTACK=1, twenty minutes at most), `make test` the short one. docs/trust.md says what
was tried, what held and what was mended.
"""
