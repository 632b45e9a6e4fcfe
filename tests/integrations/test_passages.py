"""Metadata and ids of passages. These tests need no framework."""

from __future__ import annotations

from dataclasses import replace

import pytest

import mergewise as mw
from mergewise.integrations.passages import _best, id_of, with_metadata
from mergewise.types import Context, Passage, Span
from tests.integrations.conftest import TEXTS


def context_of(*passages: Passage) -> Context:
    return Context("q", "weave", 100, "", 0, passages)


def passage(*names: str) -> Passage:
    return Passage("text", 0.5, tuple(Span(name, 2, 9) for name in names), True, "Title", ("One", "Two"))


def test_a_passage_has_the_metadata_of_its_document(index: mw.Index) -> None:
    ((_, metadata),) = with_metadata(context_of(passage("brix")), index)
    own = {"year": 1900 + list(TEXTS).index("brix"), "lang": "en", "source": "brix"}
    spans = [{"doc": "brix", "start": 2, "end": 9}]
    assert metadata == {**own, "title": "Title", "headings": ["One", "Two"], "spans": spans}


def test_a_passage_of_several_documents_has_the_metadata_of_none(index: mw.Index) -> None:
    ((_, metadata),) = with_metadata(context_of(passage("lamp", "brix")), index)
    assert set(metadata) == {"title", "headings", "spans"}
    assert [span["doc"] for span in metadata["spans"]] == ["lamp", "brix"]
    ((_, alone),) = with_metadata(context_of(replace(passage("lamp"), spans=())), index)
    assert set(alone) == {"title", "headings", "spans"} and alone["spans"] == []


def test_a_removed_document_keeps_its_source(index: mw.Index) -> None:
    (_, gone), (_, there) = with_metadata(context_of(passage("gone"), passage("lamp")), index)
    assert gone["source"] == "gone" and "year" not in gone
    assert (there["source"], there["lang"]) == ("lamp", "en")


def test_the_id_of_a_passage_has_all_its_spans() -> None:
    found = passage("brix", "lamp")
    assert id_of(found) == "brix:2-9,lamp:2-9"
    assert id_of(found, found.spans[1]) == "lamp:2-9"
    assert id_of(replace(found, verbatim=False)).startswith("brix:2-9,lamp:2-9#")


def test_the_best_passages_keep_their_order() -> None:
    scored = [replace(passage("brix"), score=score) for score in (0.1, 0.9, 0.5, 0.7)]
    assert [one.score for one in _best(scored, 2)] == [0.9, 0.7]
    assert _best(scored, None) == scored and list(_best(scored, 9)) == scored
    with pytest.raises(mw.UsageError, match="limit of passages"):
        _best(scored, 0)
