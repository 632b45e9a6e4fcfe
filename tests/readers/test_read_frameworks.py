"""Documents of other frameworks, recognised by their fields. Here objects imitate them; `tests/integrations` uses real ones."""

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
def test_documents_of_each_framework_are_recognised(foreign: object) -> None:
    document = document_of(foreign)
    assert document is not None
    assert (document.id, document.text, document.title) == ("a", TEXT, "Owls")
    assert document.metadata["year"] == 1902


@pytest.mark.parametrize("other", ["text", Path("a"), mw.Document("a", TEXT), langchain(page_content=3), 5, None, [1]])
def test_other_objects_are_not_recognised(other: object) -> None:
    assert document_of(other) is None


def test_pieces_without_id_get_distinct_ids_from_their_file() -> None:
    first, second = document_of(langchain()), document_of(langchain("Mice eat corn."))
    assert first is not None and second is not None and first.id != second.id
    assert first.id.startswith("owls.pdf#3#") and first == document_of(langchain())
    nameless = document_of(langchain(metadata={}))
    assert nameless is not None and nameless.id.startswith("text#")


def test_framework_documents_are_indexed_and_unusable_metadata_is_dropped(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    report = index.add([langchain(), mw.Document("b", "Bats fly.")], langchain("Mice eat corn.", id="c"))
    assert (report.added, report.failed) == (3, ())
    kept = index.document("c")
    assert kept.metadata == {"source": "owls.pdf", "page": 3, "year": 1902}
    assert index.add(langchain()).added == 0


def test_nested_invalid_source_is_refused() -> None:
    with pytest.raises(UsageError, match="invalid source"):
        inputs_of([[langchain(), [mw.Document("b", TEXT), 5]]])  # type: ignore[list-item]
