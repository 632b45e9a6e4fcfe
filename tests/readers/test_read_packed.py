"""Files packed with gzip are read by the suffix within: corpus.jsonl.gz as JSON lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mergewise
from mergewise import readers
from mergewise.cli.main import app
from mergewise.errors import ReadError
from mergewise.readers import read_file

LINES = b'{"id": "a", "title": "Arden", "text": "The mill of Arden has a wheel."}\n{"id": "b", "text": "Cats sleep."}\n'


def test_packed_json_lines_are_read_like_plain_ones(tmp_path: Path) -> None:
    plain, packed = tmp_path / "corpus.jsonl", tmp_path / "corpus.jsonl.gz"
    plain.write_bytes(LINES)
    # two members, as `cat a.gz b.gz` makes them
    packed.write_bytes(gzip.compress(LINES[:20]) + gzip.compress(LINES[20:]))
    first, second = read_file(plain, id="x").document, read_file(packed, id="x").document
    assert second == first and second.title == "corpus" and len(second.units) == 2


def test_index_reads_a_packed_corpus(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(LINES))
    done = CliRunner().invoke(
        app, ["index", str(tmp_path / "corpus.jsonl.gz"), "--index", str(tmp_path / "i"), "--embedder", "none"]
    )
    assert done.exit_code == 0, done.output
    with mergewise.open(tmp_path / "i", create=False) as index:
        assert "wheel" in index.context("Which wheel has the mill of Arden?", budget=60).text


def test_a_bomb_a_damaged_file_and_an_unknown_inner_suffix_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "MAX_BYTES", 1_000_000)
    for name, data, reason in (
        ("bomb.txt.gz", gzip.compress(bytes(1_000_001)), "larger than 1 MB, unpacked"),
        ("cut.txt.gz", gzip.compress(LINES)[:-9], "damaged or not supported"),
        ("plain.txt.gz", b"not packed", "damaged or not supported"),
        ("docs.tar.gz", gzip.compress(LINES), "a gzip archive"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ReadError, match=reason):
            read_file(tmp_path / name)
