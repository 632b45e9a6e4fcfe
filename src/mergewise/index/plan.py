"""What is to be done so that an index holds given files and documents: compared with what stands, nothing read but bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TypeVar

from mergewise.errors import ReadError, UsageError
from mergewise.inputs import NAMED, Input, real_path, source_name
from mergewise.protocols import StoreReader
from mergewise.readers import UNTRIED
from mergewise.readers.patterns import ALL_FILES, FileChoice
from mergewise.store.documents import storable_metadata
from mergewise.types import AddReport, DocumentChange, Failure, Known, Metadata, Origin

T = TypeVar("T")

ASKED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class IndexingTask:
    """A document to be read and written under this id; `replaces` says whether the index has another content of it."""

    given: Input
    id: str
    digest: str
    replaces: bool


@dataclass(frozen=True, slots=True)
class Move:
    """A document whose file has another path now: the content is that of the document `was`, which goes."""

    task: IndexingTask
    was: Known


@dataclass(frozen=True, slots=True)
class IndexingPlan:
    """`found` are origins of documents that stand, and whose files an older mergewise did not write down.

    `updates` are unchanged documents with metadata which they have not and now get. `gone` leave the index; those that are
    `lost` stay, though their files are no longer there.
    """

    tasks: tuple[IndexingTask, ...] = ()
    unchanged: int = 0
    failed: tuple[Failure, ...] = ()
    found: Mapping[str, Origin] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()
    gone: tuple[str, ...] = ()
    updates: Mapping[str, Metadata] = field(default_factory=dict)
    lost: tuple[str, ...] = ()

    def report(self) -> AddReport:
        """What would come of it, if everything can be read."""
        readable = [task for task in self.tasks if task.digest]
        replaced = sum(task.replaces for task in readable)
        unreadable = tuple(Failure(task.given.name, "cannot be read") for task in self.tasks if not task.digest)
        return AddReport(
            len(readable) - replaced,
            replaced,
            self.unchanged,
            self.failed + unreadable,
            removed=len(self.gone),
            moved=len(self.moves),
            changes=tuple(self.changes()),
            updated=len(self.updates),
            gone=self.lost,
        )

    def changes(self) -> Iterator[DocumentChange]:
        for task in self.tasks:
            if task.digest:
                yield DocumentChange("replaced" if task.replaces else "added", task.id)
        for doc_id in self.updates:
            yield DocumentChange("updated", doc_id)
        for move in self.moves:
            yield DocumentChange("moved", move.task.id, move.was.id)
        for doc_id in self.gone:
            yield DocumentChange("removed", doc_id)


def plan(inputs: Sequence[Input], reader: StoreReader, tell: Callable[[str], None] | None = None) -> IndexingPlan:
    """What is new or changed among the inputs. `tell` gets the name of each as it is looked at."""
    tasks: list[IndexingTask] = []
    failed: list[Failure] = []
    found: dict[str, Origin] = {}
    updates: dict[str, Metadata] = {}
    described = any(given.metadata for given in inputs)
    stored = {info.id: info.metadata for info in reader.documents()} if described else {}
    kinds = reader.metadata_kinds() if described else {}
    unchanged = 0
    for batch in batches(inputs, ASKED_AT_ONCE):
        standing = _Standing(batch, reader)
        for given in batch:
            if tell is not None:
                tell(given.name)
            if given.metadata:
                try:
                    given = replace(given, metadata=storable_metadata(given.metadata, kinds))
                except ValueError as error:
                    failed.append(Failure(given.name, str(error)))
                    continue
                kinds |= {key: type(value) for key, value in given.metadata.items()}
            digest, known = given.digest(), standing.of(given)
            if known is None or not given.is_same(known.digest, digest):
                tasks.append(IndexingTask(given, standing.id_for(given, known), digest, known is not None))
                continue
            if given.metadata.items() <= stored.get(known.id, {}).items():
                unchanged += 1
            else:
                updates[known.id] = given.metadata
            if given.is_file and known.origin is None:
                try:
                    origin = given.origin()
                except ReadError as error:
                    failed.append(Failure(given.name, error.message))
                else:
                    found |= {} if origin is None else {known.id: origin}
    return IndexingPlan(tuple(tasks), unchanged, tuple(failed), found, updates=updates)


class _Standing:
    """What the index holds of some inputs."""

    def __init__(self, inputs: Sequence[Input], reader: StoreReader) -> None:
        ids = [name for given in inputs for name in (given.name, *given.given)]
        known = reader.known_documents(list(dict.fromkeys(ids)), [given.name for given in inputs if given.is_file])
        self._by_id = {k.id: k for k in known}
        self._by_source = {k.origin.source: k for k in known if k.origin is not None}

    def of(self, given: Input) -> Known | None:
        """A file is the document that was read from it; or, where that is not known, the one that is called as it was given."""
        if not given.is_file:
            return self._by_id.get(given.name)
        if given.name in self._by_source:
            return self._by_source[given.name]
        named = (self._by_id.get(name) for name in (given.name, *given.given))
        return next((known for known in named if known is not None and _may_be_of_file(known)), None)

    def id_for(self, given: Input, known: Known | None) -> str:
        """The id that the document has; that of a new one is its name, unless another file has taken it."""
        if known is not None:
            return known.id
        taken = self._by_id.get(given.name)
        if given.is_file and taken is not None and isinstance(given.source, Path):
            return real_path(given.source).as_posix()
        return given.name


def _may_be_of_file(known: Known) -> bool:
    return known.origin is None and not known.digest.startswith(NAMED)


def plan_sync(
    folders: Sequence[Path],
    inputs: Sequence[Input],
    reader: StoreReader,
    root: Path,
    tell: Callable[[str], None] | None = None,
    choice: FileChoice = ALL_FILES,
) -> IndexingPlan:
    """What is new, changed, moved or gone in these folders. `inputs` are the files found there.

    A file that `choice` leaves out is gone, also where it still stands.
    """
    known = _known_files(reader, root)
    found = {root / given.name for given in inputs}
    gone: dict[Path, Known] = {}
    kept: dict[Path, Input] = {}
    for folder in folders:
        inside = within(folder, known)
        _check_not_empty(folder, len(inside), bool(within(folder, found)), choice)
        for path in (path for path in inside if path not in found):
            if _is_gone(path) or not choice.takes(folder / path.relative_to(real_path(folder)), folder):
                gone[path] = known[path]
            else:
                # it was named by itself when it was indexed, or cannot be looked at; what is found is read in the same way
                kept[path] = replace(inputs[0], name=source_name(path, root), source=path, given=())
    return _with_moves(plan([*inputs, *kept.values()], reader, tell), list(gone.values()))


def lost_files(folders: Sequence[Path], inputs: Sequence[Input], reader: StoreReader, root: Path) -> tuple[str, ...]:
    """The ids of documents whose files were in these folders and are there no more. `inputs` hold the files found there."""
    known = _known_files(reader, root)
    found = {root / given.name for given in inputs if given.is_file}
    lost = {path: None for folder in folders for path in within(folder, known) if path not in found and _is_gone(path)}
    return tuple(known[path].id for path in lost)


def _known_files(reader: StoreReader, root: Path) -> dict[Path, Known]:
    return {root / k.origin.source: k for k in reader.known_documents() if k.origin is not None}


def within(folder: Path, paths: Iterable[Path]) -> list[Path]:
    """Those of the absolute paths that lie in the folder."""
    real = real_path(folder)
    return [path for path in paths if path.is_relative_to(real)]


def _check_not_empty(folder: Path, indexed: int, holds_files: bool, choice: FileChoice) -> None:
    """An unmounted disk looks like an empty folder, and a slip in a pattern may leave out all."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
    elif indexed and not holds_files:
        what = "holds no file that can be indexed" + (" and that the patterns take" if choice != ALL_FILES else "")
    else:
        return
    if not indexed:
        raise UsageError(f"{folder} {what}", "name a folder to synchronise with")
    raise UsageError(
        f"{folder} {what}, and the index has {indexed} documents from it: nothing was removed",
        f"is a disk missing, or a pattern wrong? if they are to go: mergewise remove {folder}",
    )


def _is_gone(path: Path) -> bool:
    """Whether there is surely no such file: one that cannot be looked at may still be there."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _with_moves(planned: IndexingPlan, gone: Sequence[Known]) -> IndexingPlan:
    """Files that are gone and files that are new are one where the content and the suffix are the same."""
    left: dict[tuple[str, str], list[Known]] = {}
    for known in gone:
        if known.origin is not None:
            left.setdefault((known.digest.partition(UNTRIED)[0], _suffix(known.origin.source)), []).append(known)
    tasks, moves = [], []
    for task in planned.tasks:
        same = left.get((task.digest, _suffix(task.given.name)))
        if same and not task.replaces:
            moves.append(Move(task, same.pop(0)))
        else:
            tasks.append(task)
    rest = [known.id for of_content in left.values() for known in of_content]
    return replace(planned, tasks=tuple(tasks), moves=tuple(moves), gone=tuple(rest))


def _suffix(source: str) -> str:
    return PurePosixPath(source).suffix.lower()


def batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch
