"""The way of documents into an index: read, made into the rows of all views, written batch by batch.

Whoever has a store and models can run it; each batch is one change of the index, so that a kill costs a batch at most.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from mergewise.errors import ReadError
from mergewise.index.moves import keeps_its_title, rename_document
from mergewise.index.plan import IndexingPlan, IndexingTask, Move, batches, plan
from mergewise.index.work import IndexingProgress
from mergewise.index.writing.calls import chat_of
from mergewise.inputs import Input
from mergewise.models.record import Models
from mergewise.protocols import Store
from mergewise.store.views import OnShare, Progress, Registry, View, views_of
from mergewise.types import AddReport, Document, DocumentRows, Failure, Origin

log = logging.getLogger("mergewise")

BATCH_CHARACTERS = 1_000_000
BATCH_DOCUMENTS = 512
MOVES_AT_ONCE = 64
REBUILT_AT_ONCE = 64


def rows_of(
    documents: Sequence[tuple[Document, str]],
    registry: Registry,
    settings: Mapping[str, Mapping[str, Any]],
    models: Models,
    on_share: OnShare | None = None,
) -> list[DocumentRows]:
    """The rows of documents, given with their digests, in all views that have settings."""
    rows = [DocumentRows(document, digest) for document, digest in documents]
    for view in views_of(registry, list(settings)):
        rows = _with_view(rows, view, settings[view.name], models, on_share)
    return rows


def _with_view(
    rows: Sequence[DocumentRows],
    view: View,
    settings: Mapping[str, Any],
    models: Models,
    on_share: OnShare | None = None,
) -> list[DocumentRows]:
    view.check_prompt(settings, models.prompts)
    own = view.load(settings)
    if on_share is not None and view.writing is not None and view.writing.asks(own):
        built = view.writing.build(rows, own, models, on_share)
    else:
        built = view.build(rows, own, models)
    return [replace(row, tables={**row.tables, **tables}) for row, tables in zip(rows, built, strict=True)]


def add(
    inputs: Sequence[Input], store: Store, registry: Registry, models: Models, progress: Progress | None = None
) -> AddReport:
    """Add what is new or changed. What cannot be read is named in the report with its reason, and the others go on."""
    began = perf_counter()
    work = IndexingProgress(progress)
    report = replace(carry_out(plan(inputs, store.reader(), work.look_at), store, registry, models, work), changes=())
    log.info("added: %s, %.1f s", report, perf_counter() - began)
    return report


def carry_out(
    planned: IndexingPlan, store: Store, registry: Registry, models: Models, work: IndexingProgress
) -> AddReport:
    """Do what is planned, in batches. What leaves the index leaves it in one step with the last batch that comes."""
    writer = _BatchWriter(store, registry, models, work)
    work.begin(task.given.size for task in planned.tasks)
    for task in planned.tasks:
        writer.add(task)
    for moves in batches(planned.moves, MOVES_AT_ONCE):
        writer.move(moves)
    writer.flush(remove=planned.gone, origins=planned.found)
    take_up(store, registry, models, writer.written)
    report = AddReport(unchanged=planned.unchanged, failed=planned.failed) + writer.report
    if writer.written or report.removed:
        store.optimize()
        doubled = [copy for copy in store.reader().duplicates() if copy.id in writer.written]
        changes = [change for change in planned.changes() if change.action == "removed" or change.id in writer.written]
        report += AddReport(duplicates=tuple(doubled), changes=tuple(changes))
    work.finish()
    return report


@dataclass(frozen=True, slots=True)
class _Read:
    """A document that waits to be written; `was` is the id of the one that it takes the place of."""

    document: Document
    digest: str
    origin: Origin | None
    was: str = ""


class _BatchWriter:
    """Documents on their way into a store: read one by one, made into rows and written batch by batch."""

    def __init__(self, store: Store, registry: Registry, models: Models, work: IndexingProgress) -> None:
        self.store, self.registry, self.models, self.work = store, registry, models, work
        self.report = AddReport()
        self.written: set[str] = set()
        self._batch: list[_Read] = []
        self._moved: list[tuple[DocumentRows, str]] = []  # with the id of before

    def add(self, task: IndexingTask, was: str = "") -> None:
        if _is_full(self._batch):
            self.flush()
        self.work.look_at(task.given.name)
        try:
            read = _Read(*task.given.read(task.id), task.given.origin(), was)
        except ReadError as error:
            log.debug("%s was not read: %s", task.given.name, error.message)
            self.report += AddReport(failed=(Failure(task.given.name, error.message),))
            self.work.count_read(task.given.size, 0)
        else:
            self._batch.append(read)
            self.work.count_read(task.given.size, len(read.document.text))

    def move(self, moves: Sequence[Move]) -> None:
        """Give the rows of documents that stand other names. One whose title changes with its name is made anew."""
        if self._moved:
            self.flush()
        standing = {
            rows.document.id: rows for rows in self.store.reader().document_rows([move.was.id for move in moves])
        }
        for move in moves:
            rows = self._under_new_name(move, standing.get(move.was.id))
            if rows is not None:
                self._moved.append((rows, move.was.id))
            else:
                self.work.begin_more(move.task.given.size)
                self.add(move.task, move.was.id)

    def _under_new_name(self, move: Move, rows: DocumentRows | None) -> DocumentRows | None:
        given, was = move.task.given, move.was.origin
        try:
            origin = given.origin()
        except ReadError:
            return None
        if rows is None or was is None or origin is None or not keeps_its_title(rows, was.source, given.name):
            return None
        return rename_document(rows, move.task.id, origin, self.registry, self.store.settings)

    def flush(self, *, remove: Sequence[str] = (), origins: Mapping[str, Origin] | None = None) -> None:
        """Write what has come so far, in one change with what goes."""
        if not (self._batch or self._moved or remove or origins):
            return
        characters = sum(len(read.document.text) for read in self._batch)
        rows = [*self._rows(characters), *(rows for rows, _ in self._moved)]
        was = {read.document.id: read.was for read in self._batch if read.was}
        was |= {rows.document.id: before for rows, before in self._moved}
        done = self.store.write(rows, remove=[*was.values(), *remove], origins=origins)
        failed = {failure.source for failure in done.failed}
        self.written |= {row.document.id for row in rows} - failed
        moved_now = len(was.keys() - failed)
        self.report += replace(done, added=done.added - moved_now, removed=done.removed - len(was), moved=moved_now)
        self._batch, self._moved = [], []
        self.work.count_written(characters)

    def _rows(self, characters: int) -> list[DocumentRows]:
        if not self._batch:
            return []
        settings = self.store.settings
        watched = _models_with_progress(self.work, self.models, self.registry, settings, characters)
        given = [(read.document, read.digest) for read in self._batch]
        rows = rows_of(given, self.registry, settings, *watched)
        return [replace(row, origin=read.origin) for row, read in zip(rows, self._batch, strict=True)]


def rebuild(store: Store, registry: Registry, models: Models, doc_ids: Sequence[str]) -> None:
    """Make the rows of these documents again, from the texts that the index holds."""
    reader = store.reader()
    for some in batches(reader.known_documents(doc_ids) if doc_ids else (), REBUILT_AT_ONCE):
        found = [(known, document) for known in some if (document := reader.document(known.id)) is not None]
        rows = rows_of([(document, known.digest) for known, document in found], registry, store.settings, models)
        placed = [replace(row, origin=known.origin) for row, (known, _) in zip(rows, found, strict=True)]
        store.write(placed, force=True)
    store.optimize()


def demand_writers(store: Store, registry: Registry, models: Models) -> None:
    """Raises UsageError where rows that a chat model wrote cannot be made again: it is not named, or would be asked by another
    prompt."""
    for name, settings in store.settings.items():
        if registry[name].asks_chat(settings):
            registry[name].check_prompt(settings, models.prompts)
            chat_of(models, f"{name}s")


def take_up(store: Store, registry: Registry, models: Models, written: Collection[str] = ()) -> None:
    """Make again the rows of documents for which a chat model did not write all it should. What it wrote, it kept.

    Those `written` just now are left alone.
    """
    if models.chat is None:
        return
    for name, settings in store.settings.items():
        view = registry[name]
        if view.writing is not None and view.asks_chat(settings):
            unfinished = [doc_id for doc_id in view.writing.unfinished(store.reader()) if doc_id not in written]
            if unfinished:
                rebuild(store, registry, models, unfinished)


def add_view(store: Store, view: View, models: Models, progress: Progress | None = None) -> None:
    """Give every document that stands the view, which the store has begun, in batches."""
    work = IndexingProgress(progress)
    sizes = {info.id: info.characters for info in store.reader().documents()} if progress is not None else {}
    work.begin(sizes.get(doc_id, 0) for doc_id in store.missing(view.name))
    while not store.finish_view(view.name):
        for batch in batches(store.missing(view.name), view.batch):
            rows = store.reader().document_rows(batch)
            work.look_at(batch[-1])
            characters = sum(len(row.document.text) for row in rows)
            settings = store.settings[view.name]
            watched = _models_with_progress(work, models, {view.name: view}, {view.name: settings}, characters)
            store.write_view(view.name, _with_view(rows, view, settings, *watched))
            work.count_written(characters)
    work.finish()


def _models_with_progress(
    work: IndexingProgress,
    models: Models,
    registry: Registry,
    settings: Mapping[str, Mapping[str, Any]],
    characters: int,
) -> tuple[Models, OnShare | None]:
    """The models, and who hears how far a batch is. Where a chat model writes, all else takes no time."""
    asking = sum(registry[name].asks_chat(own) for name, own in settings.items())
    if asking:
        return models, work.shares_of(characters, asking)
    return replace(models, embedder=work.watch(models.embedder, characters, len(settings))), None


def _is_full(batch: Sequence[_Read]) -> bool:
    return len(batch) >= BATCH_DOCUMENTS or sum(len(read.document.text) for read in batch) >= BATCH_CHARACTERS
