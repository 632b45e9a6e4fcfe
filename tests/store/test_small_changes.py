"""Changes of a few documents read no other documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mergewise
from mergewise.store import lance_mapping, lance_rows, lance_tables
from mergewise.store.snapshot import Snapshot
from mergewise.types import Document

DOCUMENTS, FEW = 60, 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(DOCUMENTS):
        path = tmp_path / f"docs/{number % 10}/d{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# T{number}\n\nCats {number} sleep.")
    return tmp_path / "docs"


def test_a_small_change_reads_few_documents(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = mergewise.open(folder.parent / "index", embedder=None, root=folder.parent)
    index.add(folder)
    index.add(folder / "3", metadata={"team": "b"})
    read: list[tuple[str, int]] = []
    whole, scan = Snapshot.whole, lance_tables.scan_rows

    def counted_whole(self: Snapshot, table: str, *asked: Any) -> pa.Table:
        rows = whole(self, table, *asked)
        read.append((f"{table} {asked}", len(rows)))
        return rows

    def counted_scan(table: Any, columns: Sequence[str] | None, condition: str | None, **options: bool) -> pa.Table:
        rows = scan(table, columns, condition, **options)
        read.append((f"{table.name} {columns} {condition}", len(rows)))
        return rows

    monkeypatch.setattr(Snapshot, "whole", counted_whole)
    for module in (lance_mapping, lance_rows):
        monkeypatch.setattr(module, "scan_rows", counted_scan)
    file = folder / "4/d4.md"
    assert index.add(file, metadata={"team": "a"}).updated == 1
    assert index.add(file, metadata={"team": "a"}).unchanged == 1
    assert index.add(Document(id="x", text="Fish swim.")).added == 1
    assert index.describe(["x"], {"team": "c"}) == 1
    assert index.remove(index.find("x")["x"]) == 1
    (folder / "5/d5.md").unlink()
    assert index.add(folder / "5").gone == ("docs/5/d5.md",)
    assert index.sync(folder / "5").removed == 1
    assert index.remove(where="team = 'a'") == 1
    assert index.store.reader().sizes(["docs/6/d6.md"])[0] == 1
    # after a removal, the numbers of all documents are read, and nothing else of them
    many = [asked for asked, rows in read if rows > FEW]
    assert read and not {asked for asked in many if asked != "documents (['_number'],)"}


def test_a_folder_is_compared_with_documents_of_any_name(folder: Path) -> None:
    """Names below the first root, below a named root, and absolute ones are all found."""
    roots = {"one": folder / "1", "two": folder / "2"}
    with mergewise.open(folder.parent / "index", embedder=None, root=roots) as index:
        index.add(folder / "1", folder / "2", folder / "3")
        names = [known.id for known in index.store.reader().known_documents()]
        assert {name.split("/")[0] for name in names} == {"one", "two", ""}
        for number in (1, 2, 3):
            (folder / f"{number}/d{number}.md").unlink()
            assert len(index.add(folder / str(number)).gone) == 1
        assert len(index.add(folder).gone) == 3
