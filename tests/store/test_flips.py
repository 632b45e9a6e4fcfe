"""One flipped bit in any file of an index, on disk, on a bucket or in a cache: right answers or an error, told by `check`."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.object_store import Proxy
from tests.store.test_damage import WORDS, kind_of
from tests.support import HashEmbedder

import mergewise
from mergewise.errors import CorruptIndex, MergewiseError
from mergewise.store.digests import BLOCK
from mergewise.store.manifest import NAME
from mergewise.store.places import copy_index
from mergewise.store.places.bucket import Bucket

# flips of each kind of file
FLIPS = 70 if "MERGEWISE_ATTACK" in os.environ else 1
EMBEDDER = HashEmbedder()
QUESTION = "Who built the lighthouse of Norr?"
Open = Callable[[], mergewise.Index]


def document(number: int) -> mergewise.Document:
    pick = random.Random(number)
    paragraphs = (" ".join(pick.choices(WORDS, k=50)).capitalize() + "." for _ in range(40))
    return mergewise.Document(f"d{number}", "# Part\n\n" + "\n\n".join(paragraphs), f"Place {number}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with deleted rows, several files of a kind, and mapped rows of several blocks."""
    directory = tmp_path_factory.mktemp("whole") / "index"
    with mergewise.open(directory, embedder=EMBEDDER, views=("leaf", "slice")) as index:
        index.add(map(document, range(40)))
        index.add(map(document, range(40, 48)))
        index.remove(["d2"])
        index.add(document(48))
        assert index.check() == []
        rows = max((directory / "mapped").glob("leaf-rows-*"), key=lambda path: path.stat().st_size)
        assert rows.stat().st_size > 4 * BLOCK
    return directory


def answers(index: mergewise.Index) -> list[object]:
    contexts = [index.context(QUESTION, strategy=name).text for name in ("weave", "topk", "macrag")]
    return [
        *contexts,
        index.context(QUESTION, where="title != 'Place 3'").text,
        index.documents(),
        index.document("d5"),
    ]


def flips(directory: Path, index: mergewise.Index) -> Iterator[tuple[str, bytes]]:
    """Yield files of each kind and their contents with one bit flipped."""
    kinds: dict[str, list[str]] = {}
    for file in [NAME, *index.store.reader().manifest.digests]:
        kinds.setdefault(kind_of(directory / file, directory), []).append(file)
    assert len(kinds) > 20
    for kind, files in kinds.items():
        for number in range(FLIPS):
            pick = random.Random(f"{kind} {number}")
            file = pick.choice(files)
            content = bytearray((directory / file).read_bytes())
            content[pick.randrange(len(content))] ^= 1 << pick.randrange(8)
            yield file, bytes(content)


def tells(file: str, open_index: Open, expected: list[object]) -> bool:
    """Ask and check. Return whether questions gave an error."""
    try:
        index = open_index()
    except CorruptIndex as error:
        assert error.hint and file == NAME
        return True
    with index:
        failed = False
        try:
            assert answers(index) == expected, file
        except MergewiseError as error:
            assert isinstance(error, CorruptIndex) and error.hint, (file, error)
            failed = True
        problems = [problem.what for problem in index.check()]
        assert any(file in what for what in problems), (file, problems)
        return failed


def test_a_flipped_bit_on_disk(whole: Path, tmp_path: Path) -> None:
    def opened() -> mergewise.Index:
        return mergewise.open(copy, embedder=EMBEDDER, create=False)

    with mergewise.open(whole, embedder=EMBEDDER) as index:
        expected, found = answers(index), list(flips(whole, index))
    copy, failed = tmp_path / "copy", 0
    for file, content in found:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy, copy_function=os.link)
        (copy / file).unlink()
        (copy / file).write_bytes(content)
        failed += tells(file, opened, expected)
    assert failed
    # a repair makes the file anew, unless it is the table of documents
    if not file.startswith("documents"):
        with opened() as index:
            assert index.check(repair=True) == [] and answers(index) == expected


@pytest.fixture
def bucket(whole: Path, server: Proxy, tmp_path: Path) -> Bucket:
    place = Bucket(f"s3://indexes/flips-{tmp_path.name}", server.storage, tmp_path / "writer", "1GB", "1h")
    with mergewise.open(whole, embedder=EMBEDDER) as index:
        copy_index(index.store.place, place, 1)
    return place


@pytest.mark.parametrize("renews", [False, True])
def test_a_damaged_schema_in_a_cache(
    bucket: Bucket, server: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renews: bool
) -> None:
    """A table is opened again after its copy was replaced, also by another thread."""

    def opened() -> mergewise.Index:
        return mergewise.open(str(bucket), embedder=EMBEDDER, storage=server.storage, cache=tmp_path, create=False)

    with opened() as index:
        expected = index.documents()
    [copy] = tmp_path.glob("buckets/*/copies/*/documents.lance/_versions/*")
    # a column gets another name
    copy.write_bytes(copy.read_bytes().replace(b"_digest", b"^digest"))
    if renews:
        local = Bucket.local

        def renewing(self: Bucket, file: str) -> Path | None:
            if "documents.lance/_versions" in file:
                monkeypatch.undo()
                self.renew_copies()
            return local(self, file)

        monkeypatch.setattr(Bucket, "local", renewing)
    with opened() as index:
        assert index.documents() == expected


@pytest.mark.slow
def test_a_flipped_bit_on_a_bucket_and_in_a_cache(whole: Path, bucket: Bucket, server: Proxy, tmp_path: Path) -> None:
    def opened(cache: str) -> mergewise.Index:
        return mergewise.open(
            str(bucket), embedder=EMBEDDER, storage=server.storage, cache=tmp_path / cache, create=False
        )

    with mergewise.open(whole, embedder=EMBEDDER) as index:
        expected, found = answers(index), list(flips(whole, index))
    with opened("warm") as index:
        assert answers(index) == expected
    cached = {path.name: path for path in (tmp_path / "warm").rglob("*") if path.is_file()}
    kept, flipped = tmp_path / "kept", tmp_path / "flipped"
    for number, (file, content) in enumerate(found):
        if number % 3 and FLIPS == 1:
            continue
        # a copy in the cache is replaced
        if (copy := cached.get(Path(file).name)) is not None:
            copy.unlink()
            copy.write_bytes(content)
            with opened("warm") as index:
                assert answers(index) == expected, file
        # the bucket's manifest has other fields than the folder's
        if file != NAME:
            bucket.download(file, kept)
            flipped.write_bytes(content)
            bucket.upload(flipped, file)
            tells(file, lambda: opened(f"cold-{number}"), expected)  # noqa: B023
            bucket.upload(kept, file)
            shutil.rmtree(tmp_path / f"cold-{number}")
