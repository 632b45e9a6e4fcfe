"""Planning of an update: compare given files and documents with the index, without parsing any file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

from mergewise.errors import UsageError
from mergewise.files import Roots, is_address, resolved_path, source_name, source_path, sources_below
from mergewise.inputs import Input, real_path, split_digest
from mergewise.protocols import StoreReader
from mergewise.readers import FolderSearch
from mergewise.readers.patterns import ALL_FILES
from mergewise.store.documents import storable_metadata
from mergewise.types import AddReport, DocumentChange, Failure, Known, Metadata, frozen

T = TypeVar("T")

ASKED_AT_ONCE = 500


class IndexingTask(NamedTuple):
    """A document to read and write under this id. `replaces` is true if the index has an older version."""

    given: Input
    id: str
    digest: str
    replaces: bool


class Move(NamedTuple):
    """A document whose file has moved. It replaces `was`, which has the same content."""

    task: IndexingTask
    was: Known


@frozen
class IndexingPlan:
    """The changes that bring an index up to date.

    `updates` maps unchanged documents to their new metadata. `gone` documents leave the index. `lost` documents stay,
    although their files are missing. `kept` is the size of the inputs that need not be read.
    """

    tasks: tuple[IndexingTask, ...] = ()
    unchanged: int = 0
    failed: tuple[Failure, ...] = ()
    moves: tuple[Move, ...] = ()
    gone: tuple[str, ...] = ()
    updates: Mapping[str, Metadata] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    kept: int = 0

    def report(self) -> AddReport:
        """Return the report of a run in which all files are readable."""
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


def plan(inputs: Sequence[Input], reader: StoreReader, tell: Callable[[str], None] = lambda name: None) -> IndexingPlan:
    """Plan the new and changed inputs. `tell` is called with the name of each input."""
    tasks: list[IndexingTask] = []
    failed: list[Failure] = []
    updates: dict[str, Metadata] = {}
    kinds = reader.metadata_kinds() if any(given.metadata for given in inputs) else {}
    unchanged = kept = 0
    taken: set[str] = set()
    for batch in batches(inputs, ASKED_AT_ONCE):
        ids = list(dict.fromkeys(given.id for given in batch))
        indexed = reader.known_documents(ids, [given.name for given in batch if given.is_file])
        by_id = {k.id: k for k in indexed}
        by_source = {k.origin.source: k for k in indexed if k.origin is not None}
        infos = reader.infos([k.id for k in indexed]) if any(given.metadata for given in batch) else {}
        for given in batch:
            tell(given.name)
            if given.metadata:
                try:
                    given = replace(given, metadata=storable_metadata(given.metadata, kinds))
                except ValueError as error:
                    failed.append(Failure(given.name, str(error)))
                    continue
                kinds |= {key: type(value) for key, value in given.metadata.items()}
            # the document of a file is the one that was read from its path
            digest, known = given.digest(), by_source.get(given.name) if given.is_file else by_id.get(given.id)
            if known is None or not given.is_same(known.digest, digest):
                # a new document gets its name, after "file:" if another document has the name
                is_taken = given.is_file and (given.id in by_id or given.id in taken)
                new_id = known.id if known else f"file:{given.name}" if is_taken else given.id
                taken.add(new_id)
                tasks.append(IndexingTask(given, new_id, digest, known is not None))
                continue
            kept += given.size
            metadata: Metadata = infos[known.id].metadata if known.id in infos else {}
            if given.metadata.items() <= metadata.items():
                unchanged += 1
            else:
                updates[known.id] = given.metadata
    return IndexingPlan(tuple(tasks), unchanged, tuple(failed), updates=updates, kept=kept)


def plan_sync(
    folders: Sequence[Path],
    inputs: Sequence[Input],
    reader: StoreReader,
    root: Roots,
    tell: Callable[[str], None] = lambda name: None,
    search: FolderSearch | None = None,
) -> IndexingPlan:
    """Plan the new, changed, moved and deleted files of folders. `inputs` are the files that `search` found there.

    A file that the search leaves out counts as deleted, even if it still exists. A document that was named by another root moves
    to its present name.
    """
    search = FolderSearch() if search is None else search
    files = [given for given in inputs if not given.version]
    found = {source_path(given.name, root) for given in files}
    # links may lead to files elsewhere
    known, misnamed = _known_files(reader, root, [*folders, *{path.parent for path in found}])
    gone: dict[Path, Known] = {}
    kept: dict[Path, Input] = {}
    for folder in folders:
        inside = within(folder, known)
        # an empty folder may be an unmounted disk or the result of a wrong pattern
        what = ""
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
        elif inside and not within(folder, found):
            what = "has no indexable files" + (" that match the patterns" if search.choice != ALL_FILES else "")
        if what and not inside:
            raise UsageError(f"{folder} {what}", "name a folder to synchronise with")
        if what:
            raise UsageError(
                f"{folder} {what}, but the index has {len(inside)} documents from it: nothing was removed",
                f"check for a missing disk or a wrong pattern; to remove the documents: mergewise remove {folder}",
            )
        for path in (path for path in inside if path not in found):
            taken = search.choice.takes(folder / path.relative_to(real_path(folder)), folder)
            if not taken or _is_gone(path, folder, search):
                gone[path] = known[path]
            else:
                # the file was indexed by its own name, or is inaccessible: read it in the same way as the others
                limit = None if search.follow_links else real_path(folder)
                name = source_name(path, root)
                kept[path] = replace(files[0], name=name, source=path, within=limit)
    planned = plan([*inputs, *kept.values()], reader, tell)
    # a file that cannot be read stays as it was indexed
    found -= {source_path(task.given.name, root) for task in planned.tasks if not task.digest}
    moved = [one for path, one in misnamed if path in found]
    return _detect_moves(planned, [*gone.values(), *moved, *search.lost])


def lost_files(search: FolderSearch, inputs: Sequence[Input], reader: StoreReader, root: Roots) -> tuple[str, ...]:
    """Return the ids of documents whose files have disappeared from the searched folders. `inputs` are the files found there."""
    known, _ = _known_files(reader, root, search.folders)
    found = {source_path(given.name, root) for given in inputs if given.is_file and not given.version}
    missing = ((path, folder) for folder in search.folders for path in within(folder, known) if path not in found)
    lost = dict.fromkeys(path for path, folder in missing if _is_gone(path, folder, search))
    return tuple(known[path].id for path in lost)


def _known_files(
    reader: StoreReader, root: Roots, folders: Iterable[Path]
) -> tuple[dict[Path, Known], list[tuple[Path, Known]]]:
    """Return the documents of files in folders by path, and those whose name is not the file's present name."""
    starts = {start for folder in folders for start in sources_below(real_path(folder), root)}
    starts = {start for start in starts if not any(start != one and start.startswith(one) for one in starts)}
    known = reader.known_documents(below=sorted(starts))
    of_files = [(k.origin.source, k) for k in known if k.origin is not None and not is_address(k.origin.source)]
    files = [(source_path(source, root), k) for source, k in of_files]
    return dict(files), [(path, k) for path, k in files if k.origin and source_name(path, root) != k.origin.source]


def within(folder: Path, paths: Iterable[Path]) -> list[Path]:
    """Return the absolute paths that are inside a folder."""
    real = real_path(folder)
    return [path for path in paths if path.is_relative_to(real)]


def _is_gone(path: Path, folder: Path, search: FolderSearch) -> bool:
    """Return whether a file certainly does not exist, or is behind a link that `search` leaves out.

    An inaccessible file may still exist.
    """
    try:
        os.lstat(path)
        return not search.follow_links and not resolved_path(path).is_relative_to(real_path(folder))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _detect_moves(planned: IndexingPlan, gone: Sequence[Known]) -> IndexingPlan:
    """Match deleted and new files of the same content and suffix as moves."""
    left: dict[tuple[str, str], list[Known]] = {}

    def common_end(known: Known, name: str) -> int:
        """Return the number of characters that the end of a document's file name shares with `name`."""
        pairs = zip(reversed(known.origin.source if known.origin else ""), reversed(name), strict=False)
        return next((n for n, (left, right) in enumerate(pairs) if left != right), len(name))

    for known in gone:
        if known.origin is not None:
            left.setdefault((split_digest(known.digest)[0], _suffix(known.origin.source)), []).append(known)
    tasks, moves = [], []
    for task in planned.tasks:
        same = left.get((task.digest, _suffix(task.given.name)))
        if same and not task.replaces:
            # among copies, the one with the longest common end of the path
            nearest = max(same, key=lambda known: common_end(known, task.given.name))
            same.remove(nearest)
            moves.append(Move(task, nearest))
        else:
            tasks.append(task)
    rest = [known.id for same in left.values() for known in same]
    return replace(planned, tasks=tuple(tasks), moves=tuple(moves), gone=tuple(rest))


def _suffix(source: str) -> str:
    return PurePosixPath(source).suffix.lower()


def batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch
