"""Files that are read under another name, such as uploads: blobs named by a hash, outside of folders."""

from __future__ import annotations

from pathlib import Path

import pytest

import mergewise as mw
from tests.support import HashEmbedder

CATS = b"# Cats\n\nCats eat fish.\n"
PAGE = (
    b"<html><head><title>Dogs</title></head><body><main><p>Dogs bark at night, and eat meat.</p></main></body></html>"
)


@pytest.fixture
def index(tmp_path: Path) -> mw.Index:
    return mw.open(tmp_path / "index", embedder=HashEmbedder())


def blob(tmp_path: Path, content: bytes, name: str = "blobs/0123abcd") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def written(index: mw.Index) -> dict[str, mw.DocumentInfo]:
    return {info.id: info for info in index.documents()}


def test_name_gives_format_id_and_title(tmp_path: Path, index: mw.Index) -> None:
    cats, page = blob(tmp_path, CATS, "blobs/aa"), blob(tmp_path, PAGE, "blobs/bb")
    report = index.add(
        mw.File(cats, name="pets/Cats.MD"),
        mw.File(page, name="Dogs.html", id="d1", metadata={"year": 2024}),
        mw.File(str(page), name="other.htm", title="Hounds"),
        mw.File(cats),
    )
    assert report.added == 4 and not report.failed
    infos = written(index)
    assert {doc_id: info.title for doc_id, info in infos.items()} == {
        "pets/Cats.MD": "Cats",
        "d1": "Dogs",
        "other.htm": "Hounds",
        "aa": "aa",
    }
    assert infos["d1"].metadata == {"year": 2024} and "<p>" not in index.document("d1").text
    assert [heading.title for heading in index.document("pets/Cats.MD").outline or ()] == ["Cats"]
    # the place of the bytes is not shown
    assert not any(info.origin for info in infos.values()) and index.files(infos) == {}
    assert index.find(str(tmp_path / "blobs"))[str(tmp_path / "blobs")] == []
    assert "blobs" not in repr(index.store.reader().document_rows(list(infos)))
    assert index.check() == []


def test_unchanged_files_are_skipped_and_metadata_embed_nothing(tmp_path: Path, index: mw.Index) -> None:
    path, copy = blob(tmp_path, CATS), blob(tmp_path, CATS, "elsewhere/x")
    embedder = index.embedder
    assert isinstance(embedder, HashEmbedder) or hasattr(embedder, "given")
    asked = embedder.given.asked  # type: ignore[union-attr]
    index.add(mw.File(path, name="cats.md", metadata={"team": "art"}))
    done = len(asked)
    same = index.add(mw.File(copy, name="cats.md", metadata={"team": "art"}), mw.File(path, name="cats.md"))
    assert (same.unchanged, same.added, same.replaced) == (1, 0, 0)
    assert index.add(mw.File(path, name="cats.md")).unchanged == 1
    described = index.add(mw.File(path, name="cats.md", metadata={"team": "law", "year": 3}), metadata={"year": 4})
    assert (described.updated, described.replaced) == (1, 0) and len(asked) == done
    assert written(index)["cats.md"].metadata == {"team": "law", "year": 4}
    assert index.describe(["cats.md", "nobody"], {"team": "art"}) == 1 and len(asked) == done
    assert written(index)["cats.md"].metadata == {"team": "art", "year": 4}
    # a change of the searched text reads the file again
    for changed in (
        mw.File(path, id="cats.md", name="cats.txt"),
        mw.File(path, name="cats.md", title="Felines"),
        mw.File(blob(tmp_path, CATS + b"Cats purr.\n", "blobs/new"), name="cats.md", title="Felines"),
    ):
        assert index.add(changed).replaced == 1, changed
        assert index.add(changed).unchanged == 1, changed
    assert written(index)["cats.md"].title == "Felines"


def test_metadata_of_many_files_are_written_in_one_change(tmp_path: Path, index: mw.Index) -> None:
    paths = [blob(tmp_path, f"Cat {i} eats fish.".encode(), f"blobs/{i}") for i in range(12)]
    index.add([mw.File(path, name=f"{path.name}.txt") for path in paths])
    report = index.add([mw.File(p, name=f"{p.name}.txt", metadata={"n": int(p.name), "even": True}) for p in paths])
    assert report.updated == 12
    assert {info.id: info.metadata["n"] for info in index.documents()} == {f"{i}.txt": i for i in range(12)}
    assert index.check() == [] and index.context("Which cat eats fish?", where="n = 7", budget=40).passages


def test_unreadable_file_fails_alone_by_its_name(tmp_path: Path, index: mw.Index) -> None:
    good = blob(tmp_path, CATS, "blobs/good")
    report = index.add(
        mw.File(good, name="good.md", metadata={"year": 2020}),
        mw.File(good, name="wrong.md", metadata={"year": "soon"}),
        mw.File(good, name="list.md", metadata={"year": [1]}),  # type: ignore[dict-item]
        mw.File(tmp_path / "nowhere", name="gone.md"),
        mw.File(blob(tmp_path, b"no pdf at all", "blobs/pdf"), name="scan.pdf"),
        limits=mw.Limits(seconds=60),
    )
    assert report.added == 1 and {failure.source for failure in report.failed} == {
        "wrong.md",
        "list.md",
        "gone.md",
        "scan.pdf",
    }
    assert not any(str(tmp_path) in failure.reason for failure in report.failed)
    for wrong in (mw.File(good, name=5), mw.File(5), mw.File(good, id=""), mw.File(good, metadata=["a"])):  # type: ignore[arg-type]
        with pytest.raises(mw.UsageError):
            index.add(wrong)
    with pytest.raises(mw.UsageError, match="invalid id"):
        index.describe([5], {"year": 1})  # type: ignore[list-item]
    with pytest.raises(mw.UsageError):
        index.describe(["good.md"], {"year": "soon"})


def test_sync_ignores_named_files(tmp_path: Path, index: mw.Index) -> None:
    folder = tmp_path / "docs"
    upload = blob(tmp_path, b"Uploaded cats eat mice.", "docs/blobs/ff")
    (folder / "birds.txt").write_text("Birds eat seeds.\n")
    index.add(mw.File(upload, name="docs/cats.txt"))
    index.add(mw.File(upload, name="docs/owls.txt"))
    assert index.sync(folder, exclude=["blobs/"]).added == 1
    # a file of the folder with an upload's name is a separate document, and an upload stays when its bytes are deleted
    (folder / "cats.txt").write_text("Cats of the folder eat fish.\n")
    upload.unlink()
    assert index.sync(folder).added == 1 and index.add(folder).gone == ()
    assert index.document("docs/cats.txt").text == "Uploaded cats eat mice."
    assert len(index.documents()) == 4 and "docs/owls.txt" in written(index)
    (folder / "cats.txt").unlink()
    assert index.sync(folder).removed == 1 and index.document("docs/cats.txt").text == "Uploaded cats eat mice."


def test_named_file_is_read_in_the_sandbox_by_its_name(tmp_path: Path, index: mw.Index) -> None:
    from docx import Document as Word

    word = Word()
    word.add_heading("Cats", 1)
    word.add_paragraph("Cats eat fish in the evening.")
    path = tmp_path / "blob"
    word.save(str(path))
    assert index.add(mw.File(path, name="Cats.docx"), limits=mw.Limits(seconds=60)).added == 1
    assert "evening" in index.document("Cats.docx").text and written(index)["Cats.docx"].title == "Cats"
