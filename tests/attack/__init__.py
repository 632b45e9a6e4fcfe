"""Attacks on mergewise: invariants that must hold with hostile files, disks, endpoints and documents.

`make attack` runs the long form (MERGEWISE_ATTACK=1, up to twenty minutes), `make test` the short one.
"""
