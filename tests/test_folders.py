"""Synchronising folders with an index: names, removals, moves, duplicates, and ids."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mergewise as mw
from mergewise.designs import VIEWS
from mergewise.index import pipeline
from mergewise.index.moves import rename_document
from mergewise.index.plan import plan, plan_sync
from mergewise.index.work import IndexingProgress
from mergewise.inputs import Input, inputs_of, split_digest
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.readers import read_file
from mergewise.readers.sandbox import Limits, SandboxedReader
from mergewise.types import DocumentChange, Duplicate, Origin
from tests.kills import kill_while_working
from tests.support import SMALL, HashEmbedder, add_inputs, new_store

EMBEDDER = HashEmbedder()
KILLS = int(os.environ.get("MERGEWISE_KILLS", "2"))

CATS = "# Cats\n\n## Food\n\nCats eat fish. They drink milk.\n\n## Sleep\n\nCats sleep sixteen hours a day.\n"
DOGS = "# Dogs\n\nDogs bark at night. Dogs eat meat.\n"
BIRDS = "Birds lay eggs in spring. Some birds cannot fly.\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "cats.md").write_text(CATS)
    (folder / "sub" / "dogs.md").write_text(DOGS)
    (folder / "birds.txt").write_text(BIRDS)
    return folder


@pytest.fixture
def index(tmp_path: Path, docs: Path) -> mw.Index:
    made = mw.open(tmp_path / "index", embedder="none")
    made.add(docs)
    return made


def ids(index: mw.Index) -> set[str]:
    return {info.id for info in index.documents()}


ALL = {"docs/cats.md", "docs/sub/dogs.md", "docs/birds.txt"}


# -- names


def test_file_name_does_not_depend_on_the_given_path(
    index: mw.Index, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ids(index) == ALL
    (tmp_path / "link").symlink_to(docs)
    places: dict[Path, list[str | Path]] = {
        tmp_path: ["docs", str(docs), "link"], docs: ["."], docs / "sub": ["../../docs/", "dogs.md"],
        tmp_path / "link": ["."], tmp_path.parent: [docs / "cats.md"],
    }  # fmt: skip
    for directory, given in ((directory, one) for directory, every in places.items() for one in every):
        monkeypatch.chdir(directory)
        report = index.add(given)
        assert report.added == report.replaced == 0 and report.unchanged, (directory, given)
    assert ids(index) == ALL


def test_a_file_elsewhere_is_named_by_its_absolute_path(index: mw.Index, tmp_path: Path) -> None:
    with_files = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    with_files.mkdir()
    (with_files / "far.md").write_text("Far away.\n")
    index.add(with_files)
    assert ids(index) == ALL | {(with_files / "far.md").as_posix()}


def test_a_link_to_a_file_keeps_its_own_name(index: mw.Index, docs: Path, tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("A file that a link leads to.\n")
    (docs / "link.md").symlink_to(tmp_path / "real.md")
    index.sync(docs, follow_links=True)
    assert ids(index) == {*ALL, "docs/link.md"}
    (docs / "link.md").unlink()
    assert index.sync(docs).removed == 1


def test_document_has_an_origin(index: mw.Index, docs: Path) -> None:
    index.add(mw.Document(id="own", text="Mine."))
    origins = {info.id: info.origin for info in index.documents()}
    status = (docs / "cats.md").stat()
    assert origins["docs/cats.md"] == Origin("docs/cats.md", status.st_size, int(status.st_mtime))
    assert origins["own"] is None
    assert index.document("docs/cats.md").metadata == {}
    with pytest.raises(mw.UsageError, match=r"unknown key .source.*\(keys: id, title\)"):
        index.context("cats", where="source = 'docs/cats.md'")


# -- ids


def test_id_of_a_document_without_a_file_is_not_reused(docs: Path, tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", embedder=EMBEDDER) as index:
        index.add(mw.Document("docs/birds.txt", "A document of the caller's own."))
        assert index.add(docs / "birds.txt").added == 1
        assert index.document("docs/birds.txt").text == "A document of the caller's own."
        assert index.document("file:docs/birds.txt").text == BIRDS
        assert index.add(docs / "birds.txt").unchanged == 1


# -- roots


@pytest.fixture
def far(tmp_path: Path) -> list[Path]:
    """Two folders with files of the same names."""
    folders = [tmp_path / "far/manual", tmp_path / "far/handbook"]
    for folder in folders:
        (folder / "sub").mkdir(parents=True)
        (folder / "cats.md").write_text(CATS)
        (folder / "sub/tale.md").write_text(f"# Tale\n\nA tale of the {folder.name}.\n")
    return folders


def test_names_are_relative_to_the_root(far: list[Path], tmp_path: Path) -> None:
    manual, _ = far
    with mw.open(tmp_path / "index", root=manual, embedder=EMBEDDER) as index:
        assert index.sync(manual).added == 2 and ids(index) == {"cats.md", "sub/tale.md"}
        assert index.files(["sub/tale.md"]) == {"sub/tale.md": manual / "sub/tale.md"}
        assert index.find(str(manual / "sub"))[str(manual / "sub")] == ["sub/tale.md"]
    moved = manual.rename(tmp_path / "elsewhere")
    with mw.open(tmp_path / "index", root=moved, embedder=EMBEDDER) as index:
        assert index.sync(moved) == mw.AddReport(unchanged=2) and ids(index) == {"cats.md", "sub/tale.md"}
        (moved / "cats.md").unlink()
        assert index.add(moved).gone == ("cats.md",)


def test_documents_with_names_of_another_root_move_without_embedding(far: list[Path], tmp_path: Path) -> None:
    manual, handbook = far
    mw.open(tmp_path / "index", embedder=EMBEDDER, root=tmp_path / "none").sync(manual)
    alone, both = (
        {"cats.md", "sub/tale.md"},
        {f"{one.name}/{file}" for one in far for file in ("cats.md", "sub/tale.md")},
    )
    steps: list[tuple[Any, list[Path], set[str], int]] = [
        (manual, [manual], alone, 0),
        ({"manual": manual, "handbook": handbook}, far, both, 2),
        (handbook, [handbook], alone, 0),
    ]
    for root, folders, expected, added in steps:
        embedder = HashEmbedder()
        with mw.open(tmp_path / "index", root=root, embedder=embedder) as index:
            report = index.sync(*folders)
            assert (report.moved, report.added) == (2, added)
            assert ids(index) == expected and (embedder.asked == []) == (not added)
            assert index.sync(*folders) == mw.AddReport(unchanged=len(expected)) and index.check() == []
            assert index.document(min(expected)).title == "Cats"


def test_a_file_that_is_named_twice_is_indexed_once(far: list[Path], tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", embedder=EMBEDDER, root=far[0]) as index:
        index.sync(far[0])
    with mw.open(tmp_path / "index", embedder=EMBEDDER, root=tmp_path / "none") as index:
        assert index.add(far[0]).added == 2
    with mw.open(tmp_path / "index", embedder=EMBEDDER, root=far[0]) as index:
        assert index.sync(far[0]).removed == 2 and ids(index) == {"cats.md", "sub/tale.md"}


def test_an_unreadable_file_with_the_name_of_another_root_stays(
    far: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mw.open(tmp_path / "index", embedder=EMBEDDER, root=tmp_path / "none").sync(far[0])
    digest = Input.digest
    monkeypatch.setattr(Input, "digest", lambda given: "" if given.name == "cats.md" else digest(given))
    with mw.open(tmp_path / "index", embedder=EMBEDDER, root=far[0]) as index:
        report = index.sync(far[0], dry_run=True)
        assert (report.removed, report.moved, [one.source for one in report.failed]) == (0, 1, ["cats.md"])


# -- removals


def test_sync_mirrors_the_folder(index: mw.Index, docs: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "note.md").write_text("A note from another folder.\n")
    (docs / "named.cfg").write_text("a file of unknown suffix, which was named itself\n")
    index.add(tmp_path / "other", docs / "named.cfg", mw.Document(id="docs/own", text="The caller's own."))
    (tmp_path / "other" / "note.md").unlink()
    (docs / "cats.md").unlink()
    (docs / "sub" / "dogs.md").write_text(DOGS + "\nDogs dig.\n")
    (docs / "new.md").write_text("Something new.\n")
    (docs / "named.cfg").write_text("and was edited since\n")

    wanted = {
        DocumentChange("removed", "docs/cats.md"),
        DocumentChange("replaced", "docs/sub/dogs.md"),
        DocumentChange("replaced", "docs/named.cfg"),
        DocumentChange("added", "docs/new.md"),
    }
    manifest = index.manifest
    for dry_run in (True, False):
        assert index.manifest == manifest
        report = index.sync(docs, dry_run=dry_run)
        assert (report.added, report.replaced, report.unchanged, report.removed) == (1, 2, 1, 1)
        assert set(report.changes) == wanted
    in_folder = {"docs/sub/dogs.md", "docs/birds.txt", "docs/new.md", "docs/named.cfg"}
    assert ids(index) == {*in_folder, "docs/own", "other/note.md"}
    assert index.document("docs/named.cfg").text == "and was edited since\n"
    assert index.check() == []
    assert index.sync(docs) == mw.AddReport(unchanged=4, left_out=((".cfg", 1),))


def test_a_change_with_removals_is_one_step(index: mw.Index, docs: Path) -> None:
    (docs / "cats.md").unlink()
    (docs / "new.md").write_text("Something new.\n")
    seen: list[set[str]] = []
    write = index.store.write
    index.store.write = lambda *a, **k: (write(*a, **k), seen.append(ids(index)))[0]  # type: ignore[method-assign, func-returns-value]
    index.sync(docs)
    assert seen == [{"docs/sub/dogs.md", "docs/birds.txt", "docs/new.md"}]


def test_sync_of_a_subfolder_changes_only_it(index: mw.Index, docs: Path) -> None:
    (docs / "cats.md").unlink()
    (docs / "sub" / "dogs.md").rename(docs / "sub" / "hounds.md")
    assert index.sync(docs / "sub").moved == 1
    assert ids(index) == {"docs/cats.md", "docs/sub/hounds.md", "docs/birds.txt"}


def test_sync_of_the_folder_above_the_index(index: mw.Index, docs: Path, tmp_path: Path) -> None:
    (docs / "cats.md").unlink()
    assert index.sync(tmp_path.parent / tmp_path.name, dry_run=True).removed == 1
    twice = index.sync(docs, tmp_path, dry_run=True)
    assert (twice.removed, twice.unchanged) == (1, 2)
    (tmp_path.parent / "unrelated").mkdir(exist_ok=True)
    assert index.sync(tmp_path.parent / "unrelated", dry_run=True).removed == 0


@pytest.mark.parametrize("state", ["gone", "empty", "file"])
def test_missing_folder_removes_nothing(index: mw.Index, docs: Path, state: str) -> None:
    shutil.rmtree(docs)
    if state == "empty":
        docs.mkdir()
        (docs / "lost+found").mkdir()
    if state == "file":
        docs.write_text("x")
    for dry_run in (True, False):
        with pytest.raises(mw.UsageError, match="3 documents from it: nothing was removed") as error:
            index.sync(docs, dry_run=dry_run)
        assert "mergewise remove" in error.value.hint
    assert ids(index) == ALL


def test_unknown_folder(index: mw.Index, tmp_path: Path) -> None:
    with pytest.raises(mw.UsageError, match="does not exist"):
        index.sync(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert index.sync(tmp_path / "empty") == mw.AddReport()


def test_unreadable_documents_stay_and_are_reported(
    index: mw.Index, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "cats.md").write_text("  \n")
    (docs / "sub" / "dogs.md").rename(docs / "sub" / ".hidden.md")
    real = os.lstat

    def lstat(path: Path) -> os.stat_result:
        if Path(path).name == "dogs.md":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("mergewise.index.plan.os.lstat", lstat)
    report = index.sync(docs)
    assert {Path(failure.source).name for failure in report.failed} == {"cats.md", "dogs.md"}
    assert report.removed == 0 and ids(index) == ALL
    assert index.document("docs/cats.md").text == CATS
    dry = index.sync(docs, dry_run=True)
    assert {failure.source for failure in dry.failed} == {"docs/sub/dogs.md"}


# -- moves


class Refusing:
    """An embedder that must not be called."""

    spec, dimension = EMBEDDER.spec, EMBEDDER.dimension

    def embed_documents(self, texts: object) -> np.ndarray:
        raise AssertionError("embedded again")

    embed_queries = embed_documents


@pytest.mark.parametrize("kind", ["lance", "memory"])
def test_a_file_that_moved_keeps_its_rows(kind: str, docs: Path, tmp_path: Path) -> None:
    settings = {"leaf": SMALL, "slice": VIEWS["slice"].settings()}
    store = new_store(kind, tmp_path / "index", VIEWS, EMBEDDER, settings)
    report = add_inputs(inputs_of([docs], tmp_path), store, VIEWS, Models(count_tokens, EMBEDDER))
    assert report.added == 3
    before = rebased(store, "docs/cats.md", "docs/deep/er/cats.md")
    (docs / "deep" / "er").mkdir(parents=True)
    (docs / "cats.md").rename(docs / "deep" / "er" / "cats.md")
    (docs / "sub" / "dogs.md").rename(docs / "sub" / "hounds.md")
    planned = plan_sync([docs], inputs_of([docs], tmp_path), store.reader(), tmp_path)
    assert len(planned.moves) == 2 and not planned.tasks and not planned.gone
    done = pipeline.carry_out(planned, store, VIEWS, Models(count_tokens, Refusing()), IndexingProgress())
    assert (done.moved, done.added, done.removed, done.failed) == (2, 0, 0, ())
    assert {change.was for change in done.changes} == {"docs/cats.md", "docs/sub/dogs.md"}
    assert rebased(store, "docs/deep/er/cats.md", "docs/deep/er/cats.md") == before
    names = {"docs/deep/er/cats.md", "docs/sub/hounds.md", "docs/birds.txt"}
    assert {known.id for known in store.reader().known_documents()} == names
    assert store.check() == []


def test_a_title_that_is_the_name_of_the_file_changes_with_it(index: mw.Index, docs: Path) -> None:
    (docs / "birds.txt").rename(docs / "fowl.txt")
    assert index.sync(docs).moved == 1
    assert index.document("docs/fowl.txt").title == "fowl"
    (leaf,) = index.store.reader().document_rows(["docs/fowl.txt"])[0]["leaf"]
    assert leaf.title == "fowl" and index.check() == []


def test_two_files_that_swap_names_are_two_edits(index: mw.Index, docs: Path) -> None:
    (docs / "cats.md").write_text(DOGS)
    (docs / "sub" / "dogs.md").write_text(CATS)
    report = index.sync(docs)
    assert (report.replaced, report.moved, report.removed) == (2, 0, 0)
    assert index.document("docs/cats.md").text == DOGS


def test_unreadable_moved_file_keeps_the_old_document(index: mw.Index, docs: Path) -> None:
    (docs / "birds.txt").rename(docs / "fowl.txt")
    planned = plan_sync([docs], inputs_of([docs], docs.parent), index.store.reader(), docs.parent)
    (docs / "fowl.txt").unlink()
    done = pipeline.carry_out(planned, index.store, VIEWS, Models(count_tokens), IndexingProgress())
    assert [failure.source for failure in done.failed] == ["docs/fowl.txt"]
    assert (done.moved, done.removed) == (0, 0) and ids(index) == ALL


# -- duplicates


def test_duplicates_are_reported_and_shown_once(index: mw.Index, docs: Path) -> None:
    (docs / "copy of cats.md").write_text(CATS)
    (docs / "sub" / "birds.txt").write_text(BIRDS)
    (docs / "fowl.txt").write_text(BIRDS)
    report = index.add(docs)
    birds = dict.fromkeys(("docs/fowl.txt", "docs/sub/birds.txt"), "docs/birds.txt")
    first = {"docs/copy of cats.md": "docs/cats.md", **birds}
    assert {copy.id: copy.same_as for copy in report.duplicates} == first
    assert set(index.duplicates()) == set(report.duplicates)
    assert index.add(docs).duplicates == ()
    for strategy in ("weave", "topk", "auto-merge", "sentence"):
        shown = index.context("What do cats eat, and do birds lay eggs?", strategy=strategy, budget=400).text
        assert shown.count("Cats eat fish.") == shown.count("Birds lay eggs") == 1, strategy
    only = index.context("What do cats eat?", where="id like '%copy%'", budget=100)
    assert {span.doc_id for passage in only.passages for span in passage.spans} == {"docs/copy of cats.md"}

    index.remove(["docs/cats.md"])
    assert "Cats eat fish." in index.context("What do cats eat?", budget=100).text
    assert {copy.id for copy in index.duplicates()} == {"docs/fowl.txt", "docs/sub/birds.txt"}
    assert index.check() == []


def test_equal_texts_with_real_titles_are_not_duplicates(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    index.add(mw.Document(id="p", title="Paris", text="Closed on Monday."))
    report = index.add(
        mw.Document(id="b", title="Berlin", text="Closed on Monday."),
        mw.Document(id="p2", title="Paris", text="Closed on Monday.", metadata={"year": 2020}),
    )
    assert report.duplicates == (Duplicate("p2", "p"),)
    assert "Berlin" in index.context("When is Berlin closed?", budget=60).text
    assert index.context("Closed on Monday", where="year = 2020", budget=60).passages[0].spans[0].doc_id == "p2"


# -- finding by folder and pattern


def test_find(index: mw.Index, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index.add(mw.Document(id="notes/1", text="One."), mw.Document(id="[x]*", text="Odd."))
    monkeypatch.chdir(docs)
    wanted = {
        "docs/cats.md": {"docs/cats.md"},
        "cats.md": {"docs/cats.md"},
        "sub": {"docs/sub/dogs.md"},
        str(docs): ALL,
        "docs/": ALL,
        "docs": ALL,
        "notes": {"notes/1"},
        "*.md": {"docs/cats.md", "docs/sub/dogs.md"},
        "docs/*.txt": {"docs/birds.txt"},
        "[x]*": {"[x]*"},
        "cat": set(),
        "doc": set(),
    }
    assert {one: set(found) for one, found in index.find(*wanted).items()} == wanted


# -- unread files


def test_files_without_a_reader_are_counted(index: mw.Index, docs: Path, tmp_path: Path) -> None:
    for name in ("a.png", "b.PNG", "c.svg", "Makefile", ".hidden.png"):
        (docs / name).write_bytes(b"x")
    assert dict(index.add(docs).left_out) == {".png": 2, ".svg": 1, "": 1}
    assert dict(index.sync(docs, dry_run=True).left_out) == {".png": 2, ".svg": 1, "": 1}
    assert ".lance" not in dict(index.add(tmp_path).left_out)
    assert index.add(docs / "a.png").left_out == ()


# -- repair, progress


def test_repair_keeps_the_origin(index: mw.Index) -> None:
    pipeline.rebuild(index.store, VIEWS, Models(count_tokens), ["docs/cats.md"])
    (known,) = index.store.reader().known_documents(["docs/cats.md"])
    assert known.origin is not None and known.origin.source == "docs/cats.md"


# -- a changing folder


def rebased(store: object, doc_id: str, name: str) -> object:
    """Return the rows of a document with ids from 0, in a comparable form."""
    (rows,) = store.reader().document_rows([doc_id])  # type: ignore[attr-defined]
    made = rename_document(rows, name, Origin(name, 0, 0), VIEWS, store.settings)  # type: ignore[attr-defined]
    assert made is not None
    tables = {
        table: (of_table.records, {column: np.asarray(v).tolist() for column, v in of_table.columns.items()})
        for table, of_table in made.tables.items()
    }
    return made.document, made.digest, tables


SYNCHRONISE = """
import sys
import mergewise
from mergewise.index import pipeline

pipeline.BATCH_DOCUMENTS = pipeline.MOVES_AT_ONCE = 4
index = mergewise.open(sys.argv[1])
print("ready", flush=True)
index.sync(sys.argv[2])
print("done", flush=True)
"""


def disturb(folder: Path, draw: random.Random, round: int) -> None:
    """Make a few moves, edits, deletions, new files and copies."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    draw.shuffle(files)
    for path in files[:6]:
        target = folder / f"moved{round}" / draw.choice("ab") / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    for path in files[6:12]:
        path.write_text(path.read_text() + f"\nAn addition of round {round}.\n")
    for path in files[12:16]:
        path.unlink()
    for path in files[16:18]:
        path.rename(path.with_name(f"renamed{round}-{path.name}"))
    for number in range(6):
        write(folder / f"new{round}" / f"{number}.txt", round, number)
    shutil.copy(files[20], folder / f"copy{round}.{files[20].suffix}")


def write(path: Path, round: int, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    body = " ".join(f"Sentence {i} of document {number} in round {round}." for i in range(12))
    path.write_text(f"# Document {number}\n\n{body}\n" if path.suffix == ".md" else f"{body}\n")


@pytest.mark.slow
def test_sync_follows_a_changing_folder_through_kills(tmp_path: Path) -> None:
    folder, path = tmp_path / "documents", tmp_path / "index"
    for number in range(60):
        write(folder / "abc"[number % 3] / f"{number}.{('md', 'txt')[number % 2]}", 0, number)
    index = mw.open(path, embedder="none")
    index.add(folder, mw.Document(id="own", text="The caller's own."))
    draw = random.Random(0)
    killed, full = 0, 1.0
    for round in range(1, 8 * KILLS):
        if killed == KILLS:
            break
        disturb(folder, draw, round)
        was_working = kill_while_working(SYNCHRONISE, path, folder, after=draw.uniform(0, full))
        full = full * 1.1 if was_working else max(0.1, full * 0.7)
        killed += was_working
        assert mw.open(path).check() == []
        report = index.sync(folder)
        assert not report.failed
        assert index.sync(folder, dry_run=True).changes == ()
        assert index.check() == []
    assert killed == KILLS

    fresh = mw.open(tmp_path / "fresh", embedder="none")
    fresh.add(folder)
    assert ids(index) == ids(fresh) | {"own"}
    for doc_id in ids(fresh):
        assert rebased(index.store, doc_id, doc_id) == rebased(fresh.store, doc_id, doc_id)
    copies, same = ({name for copy in one.duplicates() for name in (copy.id, copy.same_as)} for one in (index, fresh))
    assert copies == same


def test_plan_reads_the_index_in_batches(index: mw.Index, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.index.plan.ASKED_AT_ONCE", 1)
    (docs / "new.md").write_text("New.\n")
    planned = plan(inputs_of([docs], docs.parent), index.store.reader())
    assert [task.id for task in planned.tasks] == ["docs/new.md"] and planned.unchanged == 3


# -- documents of an older version of the readers


def test_unchanged_files_of_an_older_version_are_read_again_on_request(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mergewise.index.pipeline.BATCH_DOCUMENTS", 1)
    index = mw.open(tmp_path / "index", embedder="none")
    index.add(docs, mw.Document("own", "Mine."), mw.File(docs / "cats.md", id="named"))
    assert index.outdated_documents() == []
    monkeypatch.setattr("mergewise.defaults.READERS_VERSION", 100)
    assert set(index.outdated_documents()) == ALL
    (docs / "new.md").write_text("Owls eat mice.\n")
    assert index.add(docs).unchanged == 3 and set(index.outdated_documents()) == ALL
    assert {change.action for change in index.sync(docs, reread=True, dry_run=True).changes} == {"replaced"}

    # cancelled after the first document: the rest follows, and nothing is read twice
    with pytest.raises(mw.Cancelled):
        index.add(docs, reread=True, cancel=lambda: len(index.outdated_documents()) < 3)
    left = index.outdated_documents()
    assert 0 < len(left) < 3
    report = index.add(docs, mw.Document("own", "Mine."), reread=True)
    assert (report.replaced, report.unchanged) == (len(left), 5 - len(left))
    assert index.outdated_documents() == [] and index.add(docs, reread=True).replaced == 0
    assert index.add(mw.File(docs / "cats.md", id="named"), reread=True).replaced == 1
    assert index.check() == []


def test_documents_without_a_recorded_version_count_as_older(index: mw.Index, docs: Path) -> None:
    rows = index.store.reader().document_rows(["docs/cats.md"])
    older = [replace(row, digest=split_digest(row.digest)[0]) for row in rows]
    index.store.write(older)
    assert index.outdated_documents() == ["docs/cats.md"]
    assert index.sync(docs) == mw.AddReport(unchanged=3)
    # a moved document keeps its rows, and so its version
    (docs / "cats.md").rename(docs / "felines.md")
    assert index.sync(docs).moved == 1 and index.outdated_documents() == ["docs/felines.md"]
    assert index.sync(docs, reread=True).replaced == 1 and index.outdated_documents() == []


# -- deleted files, links out of the folder, patterns, metadata of a run


def test_documents_with_deleted_files_are_reported_and_stay(index: mw.Index, docs: Path, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("Owls eat mice.\n")
    index.add(tmp_path / "other.md", mw.Document(id="docs/own.md", text="Mine."))
    (tmp_path / "other.md").unlink()
    (docs / "cats.md").unlink()
    (docs / "sub" / "dogs.md").rename(docs / "sub" / "hounds.md")
    report = index.add(docs / "sub")
    assert (report.gone, report.added, report.removed) == (("docs/sub/dogs.md",), 1, 0)
    assert index.add(docs).gone == ("docs/cats.md", "docs/sub/dogs.md")
    assert index.add(docs / "birds.txt").gone == () and index.add(docs / "cats.md").gone == ()
    assert ids(index) >= ALL
    assert index.sync(docs).gone == ()
    assert index.add(docs).gone == ()
    assert ids(index) == {"docs/birds.txt", "docs/sub/hounds.md", "docs/own.md", "other.md"}


@pytest.fixture
def linked(docs: Path, tmp_path: Path) -> Path:
    """The folder with two links out of it, and with three other links."""
    (tmp_path / "out" / "in").mkdir(parents=True)
    (tmp_path / "out" / "far.md").write_text("Owls eat mice.\n")
    (tmp_path / "out" / "in" / "deep.md").write_text("Bats eat moths.\n")
    (docs / "folder").symlink_to(tmp_path / "out" / "in")
    (docs / "file.md").symlink_to(tmp_path / "out" / "far.md")
    # these links are not reported
    (docs / "sub" / "same.md").symlink_to(docs / "sub" / "dogs.md")
    (docs / "nowhere.md").symlink_to(tmp_path / "nowhere.md")
    (docs / "picture.png").symlink_to(tmp_path / "out" / "far.md")
    (docs / "sub" / "loop").symlink_to(docs)
    return docs


def test_links_out_of_a_folder_are_reported_and_left_out(index: mw.Index, linked: Path, tmp_path: Path) -> None:
    ways = {(Path(link.link), Path(link.target), link.followed) for link in index.add(linked).outward}
    real = Path(os.path.realpath(tmp_path)) / "out"
    assert ways == {(linked / "folder", real / "in", False), (linked / "file.md", real / "far.md", False)}
    assert ids(index) == ALL
    assert len(index.sync(linked, dry_run=True).outward) == 2
    assert index.sync(linked, exclude=["folder", "file.md"]).outward == ()
    # a link that is passed itself is followed without a report
    assert index.add(linked / "folder", linked / "file.md").outward == ()
    assert ids(index) == ALL | {"docs/file.md", "out/in/deep.md"}


def test_links_out_of_a_folder_are_followed_on_request(index: mw.Index, linked: Path) -> None:
    report = index.add(linked, follow_links=True)
    assert report.added == 2 and [link.followed for link in report.outward] == [True, True]
    assert ids(index) == ALL | {"docs/file.md", "docs/folder/deep.md"}
    assert index.add(linked, follow_links=True).gone == ()
    assert index.sync(linked, follow_links=True).removed == 0
    # without the option, the documents count as documents without files
    assert index.add(linked).gone == ("docs/file.md", "docs/folder/deep.md")
    assert index.sync(linked).removed == 2 and ids(index) == ALL


@pytest.mark.parametrize("reads", ["here", "sandbox"])
@pytest.mark.parametrize("replaced", ["cats.md", "sub"])
def test_a_file_that_becomes_a_link_out_after_the_search_is_not_read(
    docs: Path, tmp_path: Path, reads: str, replaced: str
) -> None:
    (tmp_path / "out" / "sub").mkdir(parents=True)
    (tmp_path / "out" / "cats.md").write_text("A secret.\n")
    (tmp_path / "out" / "sub" / "dogs.md").write_text("A secret.\n")
    with closing(SandboxedReader(Limits())) as sandboxed:
        reader = sandboxed.read if reads == "sandbox" else read_file
        given = {entry.name: entry for entry in inputs_of([docs], tmp_path, reader=reader)}
        (docs / replaced).rename(tmp_path / "before")
        (docs / replaced).symlink_to(tmp_path / "out" / replaced)
        wanted = "docs/sub/dogs.md" if replaced == "sub" else "docs/cats.md"
        assert given[wanted].digest() == ""
        with pytest.raises(mw.errors.ReadError, match="a link out of the folder"):
            given[wanted].read()
        assert "Birds" in given["docs/birds.txt"].read().document.text


def test_patterns_select_the_files_of_a_folder(index: mw.Index, docs: Path) -> None:
    (docs / "sub" / "draft.md").write_text("Owls eat mice.\n")
    (docs / "list.json").write_text('[{"text": "Bats eat moths."}]')
    added = index.add(docs, exclude=["sub/"])
    assert (added.added, added.unchanged, added.excluded, added.gone) == (0, 2, 1, ())
    assert index.add(docs, include=["*.json"]).added == 1
    planned = index.sync(docs, exclude=["sub/", "*.txt"], dry_run=True)
    removed = {DocumentChange("removed", name) for name in ("docs/birds.txt", "docs/sub/dogs.md")}
    assert set(planned.changes) == removed
    assert ids(index) == ALL | {"docs/list.json"}
    done = index.sync(docs, exclude=["sub/", "*.txt"])
    assert done.changes == planned.changes and (done.removed, done.excluded) == (2, 2)
    # a file that only the patterns included stays without them, since it still exists
    assert ids(index) == {"docs/cats.md", "docs/list.json"} and index.sync(docs).added == 3
    with pytest.raises(mw.UsageError, match="nothing was removed"):
        index.sync(docs, exclude=["*"])
    for wrong in ({"include": "*.md"}, {"exclude": ["!a"]}, {"exclude": [5]}):
        with pytest.raises(mw.UsageError):
            index.add(docs, **wrong)
    assert index.check() == []


def test_metadata_of_a_run_apply_without_embedding(tmp_path: Path, docs: Path) -> None:
    (docs / "owls.md").write_text("---\nlang: fr\nyear: 2019\n---\n\nOwls eat mice.\n")
    embedder = HashEmbedder()
    index = mw.open(tmp_path / "index", embedder=embedder)
    index.add(docs / "owls.md", docs / "cats.md")
    before, vectors = len(embedder.asked), index.store.reader().vectors([0, 1])
    report = index.add(docs, metadata={"team": "sales", "year": 2024, "draft": False})
    assert (report.added, report.replaced, report.unchanged, report.updated) == (2, 0, 0, 2)
    added = len(embedder.asked) - before
    for info in index.documents():
        own = {"language": "fr"} if info.id == "docs/owls.md" else {}
        assert info.metadata == {"team": "sales", "year": 2024, "draft": False, **own}
    again = index.add(docs, metadata={"team": "sales", "draft": False})
    assert (again.unchanged, again.updated) == (4, 0)
    moved = index.sync(docs, metadata={"team": "law"})
    assert (moved.unchanged, moved.updated) == (0, 4)
    assert {change.action for change in moved.changes} == {"updated"}
    assert len(embedder.asked) - before == added > 0
    np.testing.assert_equal(index.store.reader().vectors([0, 1]), vectors)
    assert index.find("*", where="team = 'law'")["*"] == [info.id for info in index.documents()]
    assert index.context("What do owls eat?", where="team = 'law' and year = 2024", budget=50).passages
    assert not index.context("What do owls eat?", where="team = 'sales'", budget=50).passages
    # without metadata of the run, unchanged documents keep theirs, and a changed document has its own
    (docs / "cats.md").write_text(CATS + "\nCats purr.\n")
    (docs / "birds.txt").rename(docs / "sub" / "birds.txt")
    last = index.sync(docs)
    assert (last.replaced, last.moved, last.unchanged) == (1, 1, 2)
    metadata = {info.id: info.metadata for info in index.documents()}
    assert metadata["docs/cats.md"] == {} and metadata["docs/sub/birds.txt"]["team"] == "law"
    (docs / "sub" / "birds.txt").rename(docs / "birds.txt")
    # a file that is passed itself also belongs to the folder
    (docs / "list.json").write_text('[{"text": "Bats eat moths."}]')
    index.add(docs / "list.json")
    (docs / "list.json").write_text('[{"text": "Bats eat gnats."}]')
    planned = index.sync(docs, metadata={"team": "art"}, dry_run=True)
    assert (planned.updated, planned.replaced, planned.moved) == (3, 1, 1)
    index.sync(docs, metadata={"team": "art"})
    assert {info.metadata["team"] for info in index.documents()} == {"art"} and index.check() == []


@pytest.mark.parametrize(
    ("metadata", "what"),
    [
        ({"title": "x"}, "invalid metadata key"),
        ({"a": [1]}, "a list"),
        ({"year": "soon"}, "holds whole numbers"),
        ([1], "expected a dictionary"),
    ],
)
def test_invalid_metadata_are_refused_before_reading(index: mw.Index, docs: Path, metadata: object, what: str) -> None:
    index.add(mw.Document(id="own", text="Mine.", metadata={"year": 2020}))
    (docs / "new.md").write_text("Owls eat mice.\n")
    for call in (index.add, index.sync):
        with pytest.raises(mw.UsageError, match=what):
            call(docs, metadata=metadata)
    assert len(index) == 4


def test_documents_are_removed_by_condition(index: mw.Index, docs: Path) -> None:
    index.add(*(mw.Document(id=f"n/{year}", text=f"Of {year}.", metadata={"year": year}) for year in range(2018, 2024)))
    assert index.find("n", "docs", where="year >= 2022") == {"n": ["n/2022", "n/2023"], "docs": []}
    assert index.remove(["n/2018", "n/2022"], where="year < 2020") == 1
    assert index.remove(where="year < 2021") == 2
    assert ids(index) == ALL | {"n/2021", "n/2022", "n/2023"}
    assert index.remove(where="year = 1") == 0 and index.remove([]) == 0
    for wrong in ({"where": "day > 3"}, {"where": "year >"}, {}, {"where": 5}):
        with pytest.raises(mw.UsageError):
            index.remove(**wrong)
    assert index.check() == []


@pytest.mark.parametrize(
    ("standing", "same", "other"),
    [
        ("", (0, 9), ()),
        (" untried beyond 0", (0,), (9,)),
        (" untried beyond 9", (0, 9), (10,)),
        (" untried beyond x", (), (9,)),
    ],
)
def test_files_with_untried_scans_change_with_a_higher_limit(
    tmp_path: Path, standing: str, same: tuple[int, ...], other: tuple[int, ...]
) -> None:
    """`same` and `other` are limits of pages to recognise."""
    file = tmp_path / "a.pdf"
    file.write_bytes(b"bytes")
    for ocr_pages in (*same, *other):
        given = Input("a", file, ocr_pages=ocr_pages)
        digest = given.digest()
        assert given.is_same(digest + standing, digest) == (ocr_pages in same)
        assert not given.is_same("other" + standing, digest)
