"""Embedders given as objects: remembered by name, refused if they do not fit, and checked for valid vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mergewise as mw
from mergewise.models.embedders import GivenEmbedder, QuestionVectors, given_embedder
from mergewise.models.onnx import minilm
from mergewise.protocols import PartEmbedder
from tests.support import HashEmbedder

CATS = mw.Document("cats", "# Cats\n\nCats eat fish. They drink milk.\n")
DOGS = mw.Document("dogs", "# Dogs\n\nDogs bark at night.\n")


class Lists:
    """A user's embedder, which returns lists of whole numbers of any length."""

    spec = "lists"
    dimension = 3

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return [[len(text), text.count("a") + 1, 2] for text in texts]

    embed_queries = embed_documents


def test_an_object_embeds_and_is_remembered_by_its_spec(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    index = mw.open(tmp_path / "index", embedder=embedder)
    assert index.add(CATS, DOGS).added == 2
    assert (index.manifest.embedder, index.manifest.dimension) == ("hash", 64)
    assert any("fish" in text for text in embedder.asked)
    assert "fish" in index.context("What do cats eat?", budget=60).text
    assert "What do cats eat?" in embedder.asked
    assert index.check() == []
    again = mw.open(tmp_path / "index", embedder=HashEmbedder())
    assert again.add(CATS, DOGS).unchanged == 2
    assert again.context("cats", budget=60).text == index.context("cats", budget=60).text


def test_missing_embedder_object_is_reported(tmp_path: Path) -> None:
    mw.open(tmp_path / "index", embedder=HashEmbedder()).add(CATS)
    index = mw.open(tmp_path / "index")
    assert len(index) == 1 and index.document("cats").text == CATS.text and index.remove(["nothing"]) == 0
    for use in (lambda: index.context("cats"), lambda: index.ask("cats"), lambda: index.add(DOGS)):
        with pytest.raises(mw.UsageError, match=r"your own embedder 'hash'.*embedder=\.\.\."):
            use()


def test_another_spec_or_dimension_is_refused(tmp_path: Path) -> None:
    mw.open(tmp_path / "index", embedder=HashEmbedder())
    with pytest.raises(mw.errors.EmbedderMismatch, match=r"'hash', not 'minilm'.*use the embedder that"):
        mw.open(tmp_path / "index", embedder="minilm")
    with pytest.raises(mw.errors.EmbedderMismatch, match="'hash', not 'lists'"):
        mw.open(tmp_path / "index", embedder=Lists())
    shorter = HashEmbedder()
    shorter.dimension = 32
    with pytest.raises(mw.errors.EmbedderMismatch, match=r"wrong dimension of 'hash': 32 \(expected 64"):
        mw.open(tmp_path / "index", embedder=shorter)
    mw.open(tmp_path / "plain", embedder="none")
    with pytest.raises(mw.errors.EmbedderMismatch, match="use --embedder none"):
        mw.open(tmp_path / "plain", embedder=HashEmbedder())


def test_invalid_embedder_is_refused_before_writing(tmp_path: Path) -> None:
    for given, said in (
        (object(), "missing `spec`"),
        (type("E", (), {"spec": " ", "dimension": 3})(), "missing `spec`"),
        (type("E", (), {"spec": "e", "dimension": 0})(), "invalid `dimension` of the embedder E: 0"),
        (type("E", (), {"spec": "e", "dimension": True})(), "`dimension`"),
        (type("E", (), {"spec": "e", "dimension": 3, "embed_documents": print})(), "missing method `embed_queries`"),
    ):
        with pytest.raises(mw.UsageError, match=said):
            mw.open(tmp_path / "index", embedder=given)  # type: ignore[arg-type]
    assert not (tmp_path / "index").exists()


def test_vectors_become_unit_rows_of_float32(tmp_path: Path) -> None:
    rows = given_embedder(Lists()).embed_documents(["a", "banana"])
    assert rows.dtype == np.float32 and np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.allclose(rows[1] * np.linalg.norm([6, 4, 2]), [6, 4, 2])
    index = mw.open(tmp_path, embedder=Lists())
    index.add(CATS)
    assert index.context("cats", budget=50).passages


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ([[1.0, 2.0]], r"\(1, 2\) \(expected \(1, 3\)\)"),
        ([[1.0, 2.0, 3.0]] * 2, r"shape .*: \(2, 3\)"),
        ([[1.0, float("nan"), 0.0]], "not finite"),
        (["text"], "invalid vectors"),
        ([[1.0], [1.0, 2.0]], "invalid vectors"),
    ],
)
def test_invalid_vectors_are_refused(vectors: object, said: str) -> None:
    given = type("E", (Lists,), {"embed_queries": lambda self, texts: vectors})()
    with pytest.raises(mw.ModelError, match=said):
        GivenEmbedder(given).embed_queries(["one"])


def test_embedder_object_may_give_part_vectors(tmp_path: Path) -> None:
    given = given_embedder(minilm())
    assert isinstance(given, PartEmbedder) and not isinstance(given_embedder(Lists()), PartEmbedder)
    whole, (parts,) = given.embed_parts(["Cats eat fish. They sleep."], [[(0, 14), (15, 26)]])
    assert whole.shape == (1, 384) and parts.shape == (2, 384)
    assert given.embed_parts(["Cats"], [[]])[1][0].shape == (0, 384)
    mw.open(tmp_path, embedder=minilm()).add(CATS)
    # its spec names a built-in embedder, so that no object is needed later
    assert "fish" in mw.open(tmp_path).context("What do cats eat?", budget=60).text


def test_question_vectors_are_reused() -> None:
    embedder = HashEmbedder()
    known = QuestionVectors(embedder, ["a", "b", "a"])
    assert embedder.asked == ["a", "b"]
    assert np.array_equal(known.embed_queries(["b", "a"]), HashEmbedder().embed_queries(["b", "a"]))
    assert embedder.asked == ["a", "b"]
    assert known.embed_queries(["c"]).shape == known.embed_documents(["c"]).shape == (1, 64)
    assert embedder.asked == ["a", "b", "c", "c"]
    assert QuestionVectors(embedder, []).embed_queries([]).shape == (0, 64)
