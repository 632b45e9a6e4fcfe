"""Documents of other frameworks, told by their fields: here by objects of these shapes, in `tests/integrations` by their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace as Foreign

import pytest

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.inputs import document_of, inputs_of

TEXT = "Owls eat mice."
METADATA = {"source": "owls.pdf", "page": 3, "title": "Owls", "tags": ["a"], "year": 1902, "nothing": None}


def langchain(text: str = TEXT, **more: object) -> Foreign:
    return Foreign(**{"page_content": text, "metadata": METADATA, "id": None, **more})


@pytest.mark.parametrize(
    "foreign",
    [
        langchain(id="a"),
        Foreign(content=TEXT, meta=METADATA, id="a"),
        Foreign(text=TEXT, metadata=METADATA, node_id="a"),
    ],
)
def test_each_framework_calls_the_parts_of_a_document_otherwise(foreign: object) -> None:
    document = document_of(foreign)
    assert document is not None
    assert (document.id, document.text, document.title) == ("a", TEXT, "Owls")
    assert document.metadata["year"] == 1902


@pytest.mark.parametrize("other", ["text", Path("a"), mw.Document("a", TEXT), langchain(page_content=3), 5, None, [1]])
def test_what_is_no_document_of_theirs(other: object) -> None:
    assert document_of(other) is None


def test_pieces_without_an_id_are_called_by_their_file_and_stay_apart() -> None:
    first, second = document_of(langchain()), document_of(langchain("Mice eat corn."))
    assert first is not None and second is not None and first.id != second.id
    assert first.id.startswith("owls.pdf#3#") and first == document_of(langchain())
    nameless = document_of(langchain(metadata={}))
    assert nameless is not None and nameless.id.startswith("text#")


def test_they_are_indexed_beside_our_own_and_what_fits_no_index_is_left_out(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    report = index.add([langchain(), mw.Document("b", "Bats fly.")], langchain("Mice eat corn.", id="c"))
    assert (report.added, report.failed) == (3, ())
    kept = index.document("c")
    assert kept.metadata == {"source": "owls.pdf", "page": 3, "year": 1902}
    assert index.add(langchain()).added == 0


def test_what_is_no_source_is_refused_however_deep_it_stands() -> None:
    with pytest.raises(UsageError, match="cannot be indexed"):
        inputs_of([[langchain(), [mw.Document("b", TEXT), 5]]])  # type: ignore[list-item]
