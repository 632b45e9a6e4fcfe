"""The audit reports every broken invariant of an index, with the document to index again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support import SMALL, HashEmbedder, memory_store, rows_of

from mergewise.designs import VIEWS
from mergewise.protocols import FloatArray
from mergewise.store.audit import audit, document_problems, with_settings
from mergewise.types import Document, DocumentRows, Rows

DOCUMENTS = [Document(name, f"# {name}\n\nText of {name}. More of {name} here.\n\n## B\n\nEnd.", name) for name in "ab"]
KEPT = {"leaf": VIEWS["leaf"].dump(SMALL)}
SETTINGS = with_settings(VIEWS, KEPT)
(WHOLE,) = rows_of(DOCUMENTS[:1], HashEmbedder())


def with_leaves(change: Callable[[Rows], Rows]) -> DocumentRows:
    return replace(WHOLE, tables={**WHOLE.tables, "leaf": change(WHOLE.tables["leaf"])})


def problems(rows: DocumentRows, dimension: int = HashEmbedder.dimension) -> list[str]:
    found = document_problems(rows, SETTINGS, dimension)
    assert all(problem.doc_id == "a" for problem in found)
    return [problem.what for problem in found]


def test_freshly_built_rows_have_no_problems() -> None:
    assert problems(WHOLE) == []
    (without_vectors,) = rows_of(DOCUMENTS[:1])
    assert problems(without_vectors, 0) == []


def test_a_gap_between_ids_is_reported() -> None:
    assert len(WHOLE["leaf"]) > 1
    renumbered = with_leaves(lambda rows: replace(rows, records=(*rows.records[:-1], replace(rows.records[-1], id=99))))
    assert "ids of the table 'leaf' are not consecutive" in problems(renumbered)


def fewer(vectors: FloatArray) -> FloatArray:
    return vectors[1:]


def narrower(vectors: FloatArray) -> FloatArray:
    return vectors[:, 1:]


@pytest.mark.parametrize("change", [fewer, narrower])
def test_vectors_of_the_wrong_shape_are_reported(change: Callable[[FloatArray], FloatArray]) -> None:
    spoilt = with_leaves(lambda rows: replace(rows, columns={**rows.columns, "vector": change(rows.columns["vector"])}))
    assert problems(spoilt) == ["vectors of 'leaf' are missing or of the wrong dimension"]


def test_missing_vectors_are_reported_if_the_index_has_an_embedder() -> None:
    (bare,) = rows_of(DOCUMENTS[:1])
    assert problems(bare) == ["vectors of 'leaf' are missing or of the wrong dimension"]


class Broken:
    """A store's reader with one changed answer."""

    def __init__(self, **answers: Any) -> None:
        self._reader = memory_store(DOCUMENTS, HashEmbedder())
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        honest = getattr(self._reader, name)
        if name not in self._answers:
            return honest
        return lambda *given, **options: self._answers[name](honest(*given, **options))


def audited(**answers: Any) -> list[tuple[str, str | None]]:
    broken: Any = Broken(**answers)
    return [(problem.what, problem.doc_id) for problem in audit(broken, VIEWS, HashEmbedder.dimension)]


def test_a_whole_index_has_no_problems() -> None:
    assert audited() == []


def test_a_duplicate_document_is_reported() -> None:
    def twice(ids: list[str]) -> list[str]:
        return [*ids, ids[0]]

    assert audited(ids=twice) == [("is in the index more than once", "a")]


def test_rows_without_a_document_are_counted() -> None:
    def more(counts: dict[str, int]) -> dict[str, int]:
        return {**counts, "leaf": counts["leaf"] + 2}

    assert audited(row_counts=more) == [("2 rows of the table 'leaf' have no document", None)]


def test_rows_that_differ_when_read_by_id_are_reported() -> None:
    def changed(rows: dict[int, Any]) -> dict[int, Any]:
        return {i: replace(row, tokens=row.tokens + 1) if i == 0 else row for i, row in rows.items()}

    found = audited(rows=changed)
    assert ("rows of the table 'leaf' read by id differ from the stored rows", "a") in found
    assert all(doc_id == "a" for _, doc_id in found)


@pytest.mark.parametrize("kind", ["another", "none"])
def test_vectors_that_differ_when_read_by_id_are_reported(kind: str) -> None:
    def changed(vectors: dict[int, FloatArray]) -> dict[int, FloatArray]:
        last = max(vectors)
        if kind == "none":
            return {i: vector for i, vector in vectors.items() if i != last}
        return {**vectors, last: np.zeros_like(vectors[last])}

    assert audited(vectors=changed) == [("rows of the table 'leaf' read by id differ from the stored rows", "b")]
