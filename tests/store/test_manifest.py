"""The manifest: runs of numbers, what is written is read, and indexes of the format before this one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import HashEmbedder

import mergewise
import mergewise.index.tree as index_tree
from mergewise.designs.macrag.slices import SliceSettings
from mergewise.store import documents as document_table
from mergewise.store.manifest import FORMAT, NAME, Manifest, ViewState, holds, read_manifest, without, write_manifest
from mergewise.types import Document

EMBEDDER = HashEmbedder()


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


def test_what_is_written_is_read(tmp_path: Path) -> None:
    views = {"leaf": ViewState({"leaf_tokens": 64}), "slice": ViewState({"vectors": ["slice"]}, ((0, 4), (6, 7)))}
    mapped = {"leaf": {"segments": [["f", 2]], "addresses": None, "end": 9}}
    manifest = Manifest("none", 0, views, {"leaf": 3}, mapped, next_id=9, next_number=7)
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert manifest.whole == ("leaf",)
    # questions ask for it again and again: it is worked out once, and is another one for another state
    standing = read_manifest(tmp_path)
    assert standing is not None and standing.snapshot is read_manifest(tmp_path).snapshot == manifest.snapshot  # type: ignore[union-attr]
    assert replace(standing, next_id=10).snapshot != standing.snapshot


DOCUMENTS = [Document(f"d{i}", f"The tower {i} of Brook fell. " * 12, f"Tower {i}") for i in range(5)]


def as_format_2(directory: Path, *, whole: bool) -> None:
    """Write the manifest as the version before did: it knew two views by name, and no mapped files."""
    raw = json.loads((directory / NAME).read_text())
    views = raw.pop("views")
    raw.pop("mapped")
    raw |= {"format": 2, "sizes": views["leaf"]["settings"], "slices": views["slice"]["settings"]}
    raw["views"] = ["leaf", "slice"] if whole else ["leaf"]
    (directory / NAME).write_text(json.dumps(raw))


def test_an_index_of_format_2_opens_and_goes_on(tmp_path: Path) -> None:
    settings = {"slice": SliceSettings(chunk=160, overlap=40)}
    index = mergewise.open(tmp_path, embedder="none", settings=settings)
    index.add(DOCUMENTS)
    question = "Which tower of Brook fell?"
    expected = {name: index.context(question, strategy=name).text for name in ("weave", "auto-merge", "macrag")}
    as_format_2(tmp_path, whole=True)
    old = mergewise.open(tmp_path)
    assert old.manifest.whole == ("leaf", "slice") and len(old) == 5 and old.check() == []
    assert old.manifest.format == 2
    assert {name: old.context(question, strategy=name).text for name in expected} == expected
    old.add(Document("new", "A new bridge.", "New"))
    assert json.loads((tmp_path / NAME).read_text())["format"] == FORMAT
    assert old.check() == [] and "bridge" in old.context("bridge", strategy="macrag", budget=50).text
    assert set(old.manifest.mapped) == {"leaf", "section", "chunk", "slice"}


def test_an_index_of_format_3_is_searched_as_before_and_gets_words_with_what_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knew no languages: German was cut and searched as if it were English."""
    german = "Der Fluss entspringt in den Bergen und mündet in den See, der für sein klares Wasser bekannt ist."
    question = "Wo sind die klaren Seen?"
    with monkeypatch.context() as patched:
        kept = [field for field in document_table.SCHEMA if field.name != "_language"]
        patched.setattr(document_table, "SCHEMA", pa.schema(kept))
        patched.setattr(document_table, "LATER", {})
        patched.setattr(index_tree, "words_of", lambda document, tree: None)
        index = mergewise.open(tmp_path, embedder="none")
        index.add([*DOCUMENTS, Document("alt", german)])
        raw = json.loads((tmp_path / NAME).read_text())
        (tmp_path / NAME).write_text(json.dumps({**raw, "format": 3}))
    old = mergewise.open(tmp_path)
    assert old.manifest.format == 3 and dict(old.store.reader().languages()) == {} and old.check() == []
    assert [info.language for info in old.documents()] == [""] * 6
    assert "See" in old.context("See").text and old.context(question, strategy="topk").passages == ()
    old.add(Document("neu", german.replace("Fluss", "Bach")))
    assert old.manifest.format == FORMAT and old.check() == []
    assert dict(old.store.reader().languages()) == {"de": 1}
    assert [passage.spans[0].doc_id for passage in old.context(question, strategy="topk").passages] == ["neu"]


def test_a_view_that_was_being_added_in_format_2_is_begun_anew(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path, embedder="none", settings={"slice": SliceSettings(chunk=160, overlap=40)})
    index.add(DOCUMENTS)
    counts = index.store.reader().row_counts()
    as_format_2(tmp_path, whole=False)
    assert mergewise.open(tmp_path).manifest.whole == ("leaf",)
    again = mergewise.open(tmp_path, views=("leaf", "slice"))
    assert again.manifest.whole == ("leaf", "slice")
    assert again.store.reader().row_counts() == counts and again.check() == []
