"""A damaged or missing manifest is rebuilt from the tables of the index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.test_folders import run
from tests.support import HashEmbedder

import mergewise as mw
from mergewise.designs import VIEWS
from mergewise.errors import CorruptIndex, UsageError
from mergewise.store.manifest import NAME
from mergewise.store.restoring import MOVED, restore_manifest

DOCS = [mw.Document(f"d{i}", f"# Cats {i}\n\nCat {i} eats fish. It sleeps on mat {i}.", f"Cats {i}") for i in range(4)]


def content(index: mw.Index) -> object:
    rows = index.store.reader().document_rows([document.id for document in DOCS])
    texts = [(row.document, [leaf.text for leaf in row["leaf"]], len(row["slice"])) for row in rows]
    return texts, index.manifest.embedder, index.manifest.dimension, index.store.settings


def damage(manifest: Path, how: str) -> None:
    if how == "missing":
        manifest.unlink()
    elif how == "fields":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "views": 5}))
    else:
        manifest.write_bytes({"cut": manifest.read_bytes()[:40], "empty": b"", "bytes": b"\xff\xfe"}[how])


@pytest.mark.parametrize("how", ["missing", "fields", "cut", "empty", "bytes"])
@pytest.mark.parametrize("embedder", ["none", HashEmbedder()])
def test_a_damaged_manifest_is_rebuilt_with_its_views_and_settings(
    tmp_path: Path, how: str, embedder: str | HashEmbedder
) -> None:
    directory = tmp_path / "an index"
    index = mw.open(directory, embedder=embedder, settings={"slice": mw.SliceSettings(chunk=300)})
    index.add(DOCS)
    index.remove(["d1"])
    before = content(index)
    index.close()
    damage(directory / NAME, how)
    with pytest.raises(CorruptIndex) as raised:
        mw.open(directory, embedder=embedder)
    assert f"check --repair -i '{directory}'" in raised.value.hint
    assert restore_manifest(directory, VIEWS, 1) and not restore_manifest(directory, VIEWS, 1)
    assert (directory / MOVED).exists() == (how != "missing")
    index = mw.open(directory, embedder=embedder)
    assert index.check(repair=True) == [] and content(index) == before
    assert index.add(DOCS) == mw.AddReport(added=1, unchanged=3)
    assert index.context("Where does cat 2 sleep?").passages
    assert index.check() == []


def test_the_embedder_of_an_index_of_an_older_mergewise_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mergewise.store.lance_tables.with_record", lambda schema, record: schema)
    mw.open(tmp_path / "index", embedder=HashEmbedder(), views=("leaf", "slice")).add(DOCS)
    mw.open(tmp_path / "plain", embedder="none").add(DOCS)
    for name in ("index", "plain"):
        (tmp_path / name / NAME).write_text("{")
    with pytest.raises(UsageError, match="do not record the embedder"):
        restore_manifest(tmp_path / "index", VIEWS, 1)
    assert restore_manifest(tmp_path / "index", VIEWS, 1, HashEmbedder().spec)
    index = mw.open(tmp_path / "index", embedder=HashEmbedder())
    assert set(index.manifest.views) == {"leaf", "slice"} and index.check(repair=True) == []
    assert restore_manifest(tmp_path / "plain", VIEWS, 1)
    assert mw.open(tmp_path / "plain").check(repair=True) == []


def test_nothing_is_rebuilt_without_readable_documents(tmp_path: Path) -> None:
    mw.open(tmp_path / "index", embedder="none").add(DOCS)
    (tmp_path / "index" / NAME).write_text("{")
    for version in (tmp_path / "index" / "documents.lance" / "_versions").iterdir():
        version.write_bytes(b"")
    with pytest.raises(CorruptIndex, match="'documents'") as raised:
        restore_manifest(tmp_path / "index", VIEWS, 1)
    assert "index the documents again" in raised.value.hint
    assert not restore_manifest(tmp_path / "nowhere", VIEWS, 1)


def test_the_commands_name_the_repair_that_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cats.md").write_text("# Cats\n\nCats eat fish.\n")
    run("index", "cats.md", "--embedder", "none")
    Path("mergewise.index", NAME).write_text('{"form')
    with pytest.raises(CorruptIndex, match="is damaged"):
        run("ask", "What do cats eat?")
    done = run("check", "--repair")
    assert done.exit_code == 0 and "all invariants hold" in done.stdout and MOVED in done.stderr
    assert "fish" in run("ask", "What do cats eat?").stdout
    for path in Path("mergewise.index", "documents.lance", "data").iterdir():
        path.unlink()
    for words in (["check"], ["check", "--repair"]):
        done = run(*words)
        assert done.exit_code == 1 and "restore the index from a copy" in done.stderr
        assert "--repair" not in done.output
