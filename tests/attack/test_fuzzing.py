"""Targets of `tests.fuzzing`: random changes of their seeds, and in the long form coverage-guided fuzzing."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attack.support import LONG, ROOT
from tests.fuzzing.targets import targets

TARGETS = targets()
MINUTES = 2


@st.composite
def changed(draw: st.DrawFn, seed: bytes) -> bytes:
    """Draw a seed with parts removed, repeated or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(seed)))
        end = draw(st.integers(start, min(len(seed), start + 40)))
        other = draw(st.one_of(st.just(b""), st.just(seed[start:end] * 3), st.binary(max_size=12), SIGNS))
        seed = seed[:start] + other + seed[end:]
    return seed


SIGNS = st.text(alphabet="ab \n\t#=-*_`[]()<>&;:|.!/\"'01{}\\~+^\0é中", max_size=12).map(str.encode)


@pytest.mark.parametrize("name", TARGETS)
def test_invariants_hold_on_changed_seeds(name: str) -> None:
    target = TARGETS[name]

    @given(st.one_of(st.binary(max_size=60), *(changed(seed) for seed in target.seeds)))
    @settings(max_examples=200 if LONG else 15, deadline=None, derandomize=True)
    def try_out(data: bytes) -> None:
        target.run(data)

    try_out()


@pytest.mark.skipif(not LONG, reason="the long form: MERGEWISE_ATTACK=1")
@pytest.mark.skipif(find_spec("atheris") is None, reason="needs the package atheris: make attack installs it")
def test_invariants_hold_under_coverage_guided_fuzzing() -> None:
    command = [sys.executable, "-m", "tests.fuzzing", "--minutes", str(MINUTES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
