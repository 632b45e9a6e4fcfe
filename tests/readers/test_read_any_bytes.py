"""Any bytes give a document or a ReadError, the same each time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import examples
from tests.support import read

from mergewise.errors import ReadError
from mergewise.readers import SUFFIXES
from mergewise.types import Document

MAGIC = [b"", b"%PDF-1.4\n", b"PK\x03\x04", b"\xff\xfe"]
BEGINNINGS = [*MAGIC, b"<html><body>", b"<article><body><p>", b"# A\n\n", b"A\n=\n\n"]
BEGINNINGS += [
    b"---\na: &x [",
    b"+++\na = 1\n+++\n",
    b"PEP: 1\nTitle: x\n",
    b"a;b\n1;2\n",
    b'{"cells": [{"source": "',
    b'{"a": [',
]
BEGINNINGS += [b"Subject: x\n\n", b"From a\nSubject: x\n\n", b"class A:\n    def f(", b"int f(\n"]
MARKUP = st.text(alphabet="ab \n#=-*_`[]()<>&;:|.!/\"'0123{}\\~+^", max_size=200).map(str.encode)


@pytest.mark.parametrize("suffix", [*sorted(SUFFIXES), ".unknown"])
@given(beginning=st.sampled_from(BEGINNINGS), rest=st.one_of(st.binary(max_size=300), MARKUP))
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
def test_a_document_or_a_read_error(
    tmp_path: Path, checked: Callable[[Document], Document], suffix: str, beginning: bytes, rest: bytes
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(beginning + rest)
    try:
        document = checked(read(path))
    except ReadError as error:
        assert "\n" not in error.message
    else:
        assert read(path) == document
