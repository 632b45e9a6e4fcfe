"""The way of documents into an index: read, made into the rows of all views, written batch by batch.

Whoever has a store and models can run it; each batch is one change of the index, so that a kill costs a batch at most.

Embedding is nearly all of the work. So where there is much to do, texts come first: documents are written with the rows of
the tree alone, without vectors, and are found by words from then on. Then `catch_up` embeds what waits, in changes of
less than half a minute, and builds the other views. A kill leaves what the finished changes hold, and the next run goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import monotonic, perf_counter
from typing import Any

from mergewise.defaults import When
from mergewise.errors import ReadError
from mergewise.index.moves import keeps_its_title, rename_document
from mergewise.index.plan import IndexingPlan, IndexingTask, Move, batches, plan
from mergewise.index.work import TEXTS_AT_ONCE, IndexingProgress
from mergewise.index.writing.calls import chat_of
from mergewise.inputs import Input
from mergewise.models.record import Models
from mergewise.protocols import Store
from mergewise.store.tables import Table
from mergewise.store.views import OnShare, Progress, Registry, View, views_of
from mergewise.types import AddReport, Document, DocumentRows, Failure, Origin, TextlessPages

log = logging.getLogger("mergewise")

BATCH_CHARACTERS = 1_000_000
BATCH_DOCUMENTS = 512
MOVES_AT_ONCE = 64
DESCRIBED_AT_ONCE = 512
REBUILT_AT_ONCE = 64

SMALL = 100_000
"""Characters that are written with their vectors in one change: a few seconds of embedding."""
CHANGE_SECONDS, PART_SECONDS = 20.0, 4.0
"""Of embedding: after so many a change is written, and so many are between two looks at the clock."""
CHANGE_LEAVES = 4096
FIRST_PART, LARGEST_PART = 32, TEXTS_AT_ONCE
"""Leaves that are embedded between two looks at the clock: the first time, and at most."""


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
    inputs: Sequence[Input],
    store: Store,
    registry: Registry,
    models: Models,
    work: IndexingProgress | None = None,
    embed: When = "now",
) -> AddReport:
    """Add what is new or changed. What cannot be read is named in the report with its reason, and the others go on."""
    began = perf_counter()
    work = work or IndexingProgress()
    planned = plan(inputs, store.reader(), work.look_at)
    report = replace(carry_out(planned, store, registry, models, work, embed), changes=())
    log.info("added: %s, %.1f s", report, perf_counter() - began)
    return report


def carry_out(
    planned: IndexingPlan, store: Store, registry: Registry, models: Models, work: IndexingProgress, embed: When = "now"
) -> AddReport:
    """Do what is planned, in batches. What leaves the index leaves it in one step with the last batch that comes.

    With `embed` "later", vectors and the rows of further views are left to `catch_up`.
    """
    size = sum(task.given.size for task in planned.tasks)
    texts_first = embed == "later" or (models.embedder is not None and size > SMALL)
    writer = _BatchWriter(store, registry, models, work, texts_first=texts_first)
    work.begin([size, _waiting_characters(store) if work.is_watched and embed == "now" else 0])
    if texts_first:
        work.begin_texts()
    for task in planned.tasks:
        writer.add(task)
    for moves in batches(planned.moves, MOVES_AT_ONCE):
        writer.move(moves)
    for some in batches(planned.updates.items(), DESCRIBED_AT_ONCE):
        store.describe(dict(some))
    writer.flush(remove=planned.gone, origins=planned.found)
    if texts_first and writer.written:
        store.optimize()
    if embed == "now":
        catch_up(store, registry, models, work)
        take_up(store, registry, models, writer.written)
    report = AddReport(unchanged=planned.unchanged, failed=planned.failed, updated=len(planned.updates)) + writer.report
    if writer.written or report.removed or report.updated:
        store.optimize()
        doubled = [copy for copy in store.reader().duplicates() if copy.id in writer.written]
        done = ("removed", "updated")
        changes = [change for change in planned.changes() if change.action in done or change.id in writer.written]
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

    def __init__(
        self, store: Store, registry: Registry, models: Models, work: IndexingProgress, *, texts_first: bool
    ) -> None:
        self.store, self.registry, self.models, self.work = store, registry, models, work
        self.texts_first = texts_first
        self.report = AddReport()
        self.written: set[str] = set()
        self._batch: list[_Read] = []
        self._moved: list[tuple[DocumentRows, str]] = []  # with the id of before

    def add(self, task: IndexingTask, was: str = "") -> None:
        if _is_full(self._batch):
            self.flush()
        self.work.look_at(task.given.name)
        try:
            document, digest, textless = task.given.read(task.id)
            read = _Read(document, digest, task.given.origin(), was)
        except ReadError as error:
            log.debug("%s was not read: %s", task.given.name, error.message)
            self.report += AddReport(failed=(Failure(task.given.name, error.message),))
            self.work.count_read(task.given.size, 0)
        else:
            self._batch.append(read)
            if textless:
                self.report += AddReport(textless=(TextlessPages(task.given.name, textless),))
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
        described = replace(rows, document=given.described(rows.document))
        return rename_document(described, move.task.id, origin, self.registry, self.store.settings)

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
        settings, models = self.store.settings, self.models
        if self.texts_first:
            for name in settings:
                self.registry[name].check_prompt(settings[name], models.prompts)
            first = next(iter(self.registry))
            settings, models = {first: settings[first]}, replace(models, embedder=None)
        watched = _models_with_progress(self.work, models, self.registry, settings, characters)
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
    work.begin([_characters_of(store, store.missing(view.name)) if work.is_watched else 0])
    _build_missing(store, view, models, work)
    work.finish()


def _characters_of(store: Store, doc_ids: Collection[str]) -> int:
    return store.reader().sizes(doc_ids)[1]


def _build_missing(
    store: Store, view: View, models: Models, work: IndexingProgress, goes_on: Callable[[], bool] = lambda: True
) -> None:
    """In batches, of which one is made at least."""
    while not store.finish_view(view.name):
        for batch in batches(store.missing(view.name), view.batch):
            rows = store.reader().document_rows(batch)
            work.look_at(batch[0])
            characters = sum(len(row.document.text) for row in rows)
            settings = store.settings[view.name]
            watched = _models_with_progress(work, models, {view.name: view}, {view.name: settings}, characters)
            store.write_view(view.name, _with_view(rows, view, settings, *watched))
            work.count_written(characters)
            if not goes_on():
                return


def go_on(
    store: Store, registry: Registry, models: Models, work: IndexingProgress | None = None, seconds: float = inf
) -> None:
    """`catch_up` by itself."""
    work = work or IndexingProgress()
    lacking = {doc_id for name in store.reader().views for doc_id in store.missing(name)}
    work.begin([_waiting_characters(store), _characters_of(store, lacking)] if work.is_watched else [])
    catch_up(store, registry, models, work, seconds)
    work.finish()


def catch_up(
    store: Store,
    registry: Registry,
    models: Models,
    work: IndexingProgress,
    seconds: float = inf,
    clock: Callable[[], float] = monotonic,
) -> None:
    """Give the rows that wait for them their vectors, then documents the rows of views that they lack, where these are in use.

    After so many `seconds` no further change is begun; one is always made.
    """
    began = clock()

    def goes_on() -> bool:
        return clock() - began < seconds

    late = [name for name in store.reader().views if store.missing(name)]
    tables = [table for table in _embedding_tables(store, registry) if len(store.reader().unembedded(table.name))]
    for stage, table in enumerate(tables):
        work.begin_stage(len(store.reader().unembedded(table.name)), len(tables) - stage + len(late))
        while _embed_some(store, table, models, work, clock) and goes_on():
            pass
    store.finish_vectors()
    for stage, name in enumerate(late):
        if goes_on() or not (tables or stage):
            work.begin_stage(_characters_of(store, store.missing(name)), len(late) - stage)
            _build_missing(store, registry[name], models, work, goes_on)


def _embedding_tables(store: Store, registry: Registry) -> list[Table]:
    """The tables whose rows may wait for vectors."""
    settings = store.settings
    views = (registry[name].tables_of(settings[name]) for name in registry if name in settings)
    return [table for tables in views for table in tables if table.embed is not None]


def _embed_some(store: Store, table: Table, models: Models, work: IndexingProgress, clock: Callable[[], float]) -> bool:
    """One change: the vectors of as many rows as take less than half a minute. Whether there were any."""
    reader = store.reader()
    waiting: list[int] = reader.unembedded(table.name)[:CHANGE_LEAVES].tolist()
    assert table.embed is not None
    if not waiting or models.embedder is None:
        return False
    began, size = clock(), FIRST_PART
    ids: list[int] = []
    parts: list[Mapping[str, Any]] = []
    while len(ids) < len(waiting) and clock() - began < CHANGE_SECONDS:
        at = clock()
        records: dict[int, Any] = reader.rows(table.name, table.record, waiting[len(ids) : len(ids) + size])
        if not records:
            # of no document: `check` says so
            break
        work.look_at(next(record.doc_id for record in records.values()))
        parts.append(table.embed(list(records.values()), models.embedder))
        ids += records
        work.count_written(len(records))
        pace = len(records) / max(clock() - at, 1e-3)
        size = int(min(LARGEST_PART, max(1, PART_SECONDS * pace)))
    if ids:
        store.write_vectors(table.name, ids, {name: [row for part in parts for row in part[name]] for name in parts[0]})
    return bool(ids)


def _waiting_characters(store: Store) -> int:
    """About as many characters as the leaves have that wait for vectors."""
    waiting = len(store.reader().unembedded())
    leaves, characters = store.reader().sizes() if waiting else (0, 0)
    return characters * waiting // max(1, leaves)


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
