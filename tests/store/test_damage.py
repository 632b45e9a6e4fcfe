"""Damaged files of an index: every call succeeds or raises CorruptIndex, `check` reports the damage, `repair` repairs it."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from tests.support import HashEmbedder

import mergewise
from mergewise.errors import CorruptIndex, StoreError, UsageError
from mergewise.protocols import Embedder
from mergewise.store.damage import reading
from mergewise.store.places import copy_index, folder
from mergewise.store.places.folder import Folder
from mergewise.types import Document

QUESTION = "Who built the lighthouse of Norr?"
WORDS = "lighthouse sea town Norr Ella Stone builder mason harbour tide wall bridge".split()
DAMAGES = ("bit", "bits", "cut", "empty", "gone")
STANDING = {"d0", "d1", "d3", "d4", "d5", "d6"}
SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(int(os.environ.get("MERGEWISE_DAMAGES", "1")))]


def document(number: int) -> Document:
    pick = random.Random(number)
    parts = (" ".join(pick.choice(WORDS) for _ in range(40)).capitalize() + "." for _ in range(3))
    text = "\n\n".join(f"# Part {i}\n\n{part}" for i, part in enumerate(parts))
    return Document(f"d{number}", text, f"Place {number}")


@pytest.fixture(scope="module", params=["none", "hash"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Embedder | None]:
    """An index with a history: two changes and a removal, with all views."""
    embedder = HashEmbedder() if request.param == "hash" else None
    directory = tmp_path_factory.mktemp("whole") / "index"
    index = mergewise.open(directory, embedder=embedder or "none", views=("leaf", "slice"))
    index.add([document(i) for i in range(4)])
    index.add([document(i) for i in range(4, 7)])
    index.remove(["d2"])
    assert index.check() == []
    index.close()
    return directory, embedder


def kind_of(path: Path, directory: Path) -> str:
    """Return the kind of a file without the random parts of its name: the table and its folder, or the mapped file's kind."""
    parts = path.relative_to(directory).parts
    if parts[0] == "mapped":
        return "mapped/" + parts[1].rpartition("-")[0]
    return "/".join(parts[:2]) + path.suffix if len(parts) > 1 else parts[0]


def spoil(path: Path, damage: str, pick: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(content[: pick.randrange(max(1, len(content)))])
    else:
        for _ in range(1 if damage == "bit" else 20):
            content[pick.randrange(len(content))] ^= 1 << pick.randrange(8)
        path.write_bytes(content)


@pytest.mark.parametrize("seed", SEEDS)
def test_damage_of_any_file_is_reported_as_damage(
    whole: tuple[Path, Embedder | None], tmp_path: Path, seed: int
) -> None:
    directory, embedder = whole
    kinds: dict[str, list[Path]] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name != ".lock" and path.stat().st_size:
            kinds.setdefault(kind_of(path, directory), []).append(path.relative_to(directory))
    assert {"manifest.json", "documents.lance/data.lance", "mapped/leaf-rows"} <= set(kinds)
    told = mended = 0
    for number, (kind, paths) in enumerate(kinds.items()):
        # nothing reads transactions; the first round tests a third of the other kinds, a different third with vectors
        if seed == 0 and ("_transactions" in kind or number % 3 != (embedder is None)):
            continue
        pick = random.Random(f"{kind} {seed}")
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(directory, copy)
        path, damage = pick.choice(paths), pick.choice(DAMAGES)
        spoil(copy / path, damage, pick)
        corrupt, left = use_and_repair(copy, embedder)
        told += corrupt
        mended += not left
        if "documents.lance" not in kind and kind != "manifest.json":
            assert not left, (path, damage, left)
    assert told and mended > (2 if seed == 0 else 10)


def use_and_repair(directory: Path, embedder: Embedder | None) -> tuple[bool, list[str]]:
    """Use and repair an index. Return whether a call raised CorruptIndex, and the problems after the repair."""
    corrupt = False
    try:
        index = mergewise.open(directory, embedder=embedder, create=False)
    except CorruptIndex as error:
        assert error.hint
        return True, [error.message]
    # the manifest is missing or has changed
    except (UsageError, StoreError) as error:
        return True, [error.message]
    calls = (
        lambda: index.context(QUESTION, where="title != 'x'"),
        lambda: index.context(QUESTION, strategy="macrag"),
        lambda: index.ask(QUESTION),
        lambda: [index.documents(), index.document("d1"), len(index), repr(index)],
    )
    for call in calls:
        try:
            call()
        except CorruptIndex as error:
            assert error.hint
            corrupt = True
    problems = index.check()
    assert not corrupt or problems, "check reports unreadable files"
    left = index.check(repair=True)
    if not left:
        assert index.context(QUESTION).passages and {d.id for d in index.documents()} == STANDING
    return corrupt, [problem.what for problem in left]


def tables(directory: Path, name: str) -> list[Path]:
    return sorted((directory / f"{name}.lance" / "data").iterdir())


def copied(whole: tuple[Path, Embedder | None], tmp_path: Path) -> tuple[Path, mergewise.Index]:
    directory, embedder = whole
    shutil.copytree(directory, tmp_path / "index")
    return tmp_path / "index", mergewise.open(tmp_path / "index", embedder=embedder, create=False)


def contents(index: mergewise.Index) -> tuple[object, ...]:
    """Return the contents of an index without the ids of its rows."""
    reader = index.store.reader()
    stored = reader.document_rows([f"d{i}" for i in range(7)])
    leaves = {row.document.id: [(leaf.start, leaf.end, leaf.text) for leaf in row["leaf"]] for row in stored}
    return reader.row_counts(), leaves, {row.document.id: row.document.text for row in stored}


@pytest.mark.parametrize("table", ["leaf", "section", "name", "chunk", "slice"])
def test_check_names_the_table_and_the_documents_and_repair_rebuilds_it(
    whole: tuple[Path, Embedder | None], tmp_path: Path, table: str
) -> None:
    directory, index = copied(whole, tmp_path)
    before = contents(index)
    for path in tables(directory, table):
        path.unlink()
    problems = index.check()
    assert any(f"table '{table}'" in problem.what and problem.doc_id is None for problem in problems)
    concerned = {problem.doc_id for problem in problems if f"table '{table}'" in problem.what} - {None}
    assert concerned and concerned <= STANDING
    assert index.check(repair=True) == []
    assert contents(index) == before
    assert index.context(QUESTION).passages and index.context(QUESTION, strategy="macrag").passages
    index.add(document(9))
    assert index.check() == []


def test_damaged_documents_give_a_hint(whole: tuple[Path, Embedder | None], tmp_path: Path) -> None:
    directory, index = copied(whole, tmp_path)
    for path in tables(directory, "documents"):
        path.unlink()
    for repair in (False, True):
        (said, *_) = index.check(repair=repair)
        assert "'documents'" in said.what and "index the documents again" in said.what


def change_documents(directory: Path, old: bytes, new: bytes) -> None:
    """Change bytes in a file of the table of documents."""
    found = [path for path in tables(directory, "documents") if old in path.read_bytes()]
    if not found:
        pytest.skip("the texts are stored compressed")
    found[0].write_bytes(found[0].read_bytes().replace(old, new, 1))


def test_a_text_that_changed_on_disk_is_reported_until_it_is_indexed_again(
    whole: tuple[Path, Embedder | None], tmp_path: Path
) -> None:
    directory, index = copied(whole, tmp_path)
    written = index.document("d1").text[:60].encode()
    change_documents(directory, written, written.replace(b"Part", b"Past"))
    for repair in (False, True):
        assert ("altered", "d1") in [(problem.kind, problem.doc_id) for problem in index.check(repair=repair)]
    # after the repair, the others can be read, but not this one
    assert index.document("d3").text == document(3).text
    with pytest.raises(CorruptIndex, match="'d1' has changed") as error:
        index.document("d1")
    assert "index it again" in error.value.hint
    # contexts have the rows that were made from the text as it was
    for passage in index.context(QUESTION, where="id = 'd1'").passages:
        assert all(text == document(1).text[span.start : span.end] for span, text in passage.parts())
    # the same text counts as changed
    assert index.add(document(1)).replaced == 1
    assert index.check() == [] and index.document("d1").text == document(1).text


def test_a_document_with_unreadable_fields_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.md").write_text(
            f"# Tower of {name}\n\nThe tower is old.\n\n## Stones of {name}\n\nThey fell.\n"
        )
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        index.add(tmp_path / "a.md", tmp_path / "b.md")
        (doc_id,) = (info.id for info in index.documents() if info.id.endswith("b.md"))
        change_documents(tmp_path / "index", b'"Stones of b", ', b'"Stones of b"_ ')
        for repair in (False, True):
            assert ("altered", doc_id) in [(problem.kind, problem.doc_id) for problem in index.check(repair=repair)]
        with pytest.raises(CorruptIndex, match="has changed"):
            index.document(doc_id)
        assert index.add(tmp_path / "b.md").replaced == 1 and index.check() == []


@pytest.mark.parametrize("shards", [None, 2])
def test_a_damaged_old_version_stops_no_repair(
    tmp_path: Path, shards: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "is_read", lambda *_: True)
    with mergewise.open(tmp_path / "index", embedder="none", shards=shards) as index:
        for number in range(4):
            index.add(document(number))
        for versions in (tmp_path / "index").rglob("documents.lance/_versions"):
            # LanceDB counts names down
            max(versions.glob("*.manifest")).write_bytes(b"damaged")
        assert index.check() == [] and index.check(repair=True) == []
        assert index.add(document(4)).added == 1 and len(index) == 5


def test_a_damaged_index_is_not_copied(whole: tuple[Path, Embedder | None], tmp_path: Path) -> None:
    directory, index = copied(whole, tmp_path)
    file = directory / next(name for name in index.manifest.digests if name.startswith("mapped/section-rows"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptIndex, match=f"damaged file: mapped/{file.name}"):
        copy_index(index.store.place, Folder(tmp_path / "copy"), 1)
    assert not (tmp_path / "copy" / "manifest.json").exists()


def test_a_problem_of_the_machine_is_not_damage(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="make room") as error, reading(tmp_path):
        raise OSError(28, "No space left on device")
    assert not isinstance(error.value, CorruptIndex)


def test_a_panic_of_rust_is_damage_and_an_interrupt_is_not(tmp_path: Path) -> None:
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(CorruptIndex, match="out of bounds"), reading(tmp_path):
        raise panic("index out of bounds")
    with pytest.raises(KeyboardInterrupt), reading(tmp_path):
        raise KeyboardInterrupt


def test_a_wrong_condition_is_not_taken_for_damage(whole: tuple[Path, Embedder | None], tmp_path: Path) -> None:
    _, index = copied(whole, tmp_path)
    with pytest.raises(UsageError, match="invalid condition"):
        index.context(QUESTION, where="nothing = 1")


def test_caches_do_not_hide_damage_from_check(whole: tuple[Path, Embedder | None], tmp_path: Path) -> None:
    directory, embedder = whole
    for number, deleted in enumerate(sorted(directory.rglob("section.lance/_deletions/*"))):
        copy = shutil.copytree(directory, tmp_path / str(number))
        with mergewise.open(copy, embedder=embedder) as index:
            assert index.check() == [] and index.context(QUESTION).passages
            (copy / deleted.relative_to(directory)).write_bytes(b"")
            assert index.check() and index.check(repair=True) == []


def test_an_index_that_replaces_another_is_read_from_its_own_files(tmp_path: Path) -> None:
    texts = {"owls": "Owls eat mice at night.", "cats": "Cats sleep all day."}
    for title, text in texts.items():
        with mergewise.open(tmp_path / title, embedder="none") as index:
            index.add(mergewise.Document("d", text, title))
    place = tmp_path / "index"
    for title, text in texts.items():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tmp_path / title, place)
        with mergewise.open(place, embedder="none") as index:
            assert index.check() == [] and text in index.context(text).text
