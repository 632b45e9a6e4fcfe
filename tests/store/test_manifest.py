"""The manifest: runs of numbers, and writing and reading."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.support import whole_views

from mergewise.store.manifest import Manifest, ViewState, holds, read_manifest, without, write_manifest


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=4),
    st.sets(st.integers(0, 60)),
    st.integers(0, 60),
)
def test_runs_are_sets_of_numbers(gaps: list[tuple[int, int]], gone: set[int], number: int) -> None:
    runs, at = [], 0
    for gap, length in gaps:
        runs.append((at + gap, at + gap + length))
        at += gap + length
    numbers = {n for first, end in runs for n in range(first, end)}
    left = without(runs, gone)
    assert {n for first, end in left for n in range(first, end)} == numbers - gone
    assert all(first < end for first, end in left)
    assert holds(runs, number) == (number in numbers)


def test_a_manifest_survives_a_round_trip(tmp_path: Path) -> None:
    views = {"leaf": ViewState({"leaf_tokens": 64}), "slice": ViewState({"vectors": ["slice"]}, ((0, 4), (6, 7)))}
    mapped = {"leaf": {"segments": [["f", 2]], "addresses": None, "end": 9}}
    manifest = Manifest("none", 0, views, {"leaf": 3}, mapped, next_id=9, next_number=7)
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert whole_views(manifest) == ("leaf",)
    # queries read it again and again, so it is computed once per state
    standing = read_manifest(tmp_path)
    assert standing is not None and standing.snapshot is read_manifest(tmp_path).snapshot == manifest.snapshot  # type: ignore[union-attr]
    assert replace(standing, next_id=10).snapshot != standing.snapshot
