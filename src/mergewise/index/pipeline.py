"""The indexing pipeline: documents are read, converted to the rows of all views, and written batch by batch.

It needs only a store and models. Each batch is one change of the index, so a kill loses at most one batch.

Embedding is nearly all of the work. So if there is much to do, texts come first: documents are written with the rows of the tree,
without vectors, and text search finds them from then on. Then `catch_up` embeds the rows, in changes of less than half a minute,
and builds the other views. After a kill, finished changes remain, and the next run continues.

Pure functions build the rows, here or in workers (`index.executors`), with the same results in the same order. One process
writes. Workers compute vectors, and rows that a chat model writes, only if each can load a copy of the model (`_has_copies`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf
from pathlib import PurePosixPath
from time import monotonic, perf_counter
from typing import NamedTuple

from mergewise.defaults import SHIPPED_EMBEDDERS, When
from mergewise.errors import MergewiseError, ReadError
from mergewise.index.executors import HERE, INLINE, Executor, Executors
from mergewise.index.moves import rename_document
from mergewise.index.plan import IndexingPlan, IndexingTask, Move, batches
from mergewise.index.vectors import embed_in_workers, embed_some, waiting_characters
from mergewise.index.work import IndexingProgress
from mergewise.inputs import split_digest
from mergewise.log import log
from mergewise.models.cache import CachedChat
from mergewise.models.onnx import OnnxEmbedder, cores
from mergewise.models.record import Models
from mergewise.protocols import ChatModel, Embedder, Store
from mergewise.store.damage import after_change
from mergewise.store.views import OnShare, Progress, Registry, View, ViewRows, views_of
from mergewise.text.languages.detection import document_language
from mergewise.tracing import span
from mergewise.types import AddReport, Document, DocumentRows, Failure, Json, TextlessPages, frozen

BATCH_CHARACTERS = 1_000_000
BATCH_DOCUMENTS = 512
MOVES_AT_ONCE = 64
DESCRIBED_AT_ONCE = 512
REBUILT_AT_ONCE = 64

UNINDEXED = "cannot update the search indexes, so queries are slower"
SMALL = 100_000
"""Characters up to which vectors are written in the same change as texts: a few seconds of embedding."""
SENT_CHARACTERS, SENT_DOCUMENTS = 200_000, 64
"""Maximum size of one request to a worker: about a second of work, so that workers end at about the same time."""


@frozen
class _ViewBuilder:
    """The views to build with their settings and models, for use here or in a worker."""

    registry: Registry
    settings: Mapping[str, Json]
    models: Models

    def build(self, rows: Sequence[DocumentRows], on_share: OnShare | None = None) -> list[DocumentRows]:
        """Add the rows of the views to documents."""
        for view in views_of(self.registry, list(self.settings)):
            rows = _with_tables(rows, self.tables(view.name, rows, on_share))
        return list(rows)

    def tables(self, name: str, rows: Sequence[DocumentRows], on_share: OnShare | None = None) -> Sequence[ViewRows]:
        view, settings = self.registry[name], self.settings[name]
        view.check_prompt(settings, self.models.prompts)
        own = view.load(settings)
        if on_share is not None and view.writing is not None and view.writing.asks(own):
            return view.writing.build(rows, own, self.models, on_share)
        return view.build(rows, own, self.models)

    @property
    def asking(self) -> int:
        """The number of views whose rows a chat model writes."""
        return sum(self.registry[name].asks_chat(own) for name, own in self.settings.items())

    def is_work_of(self, executor: Executor) -> bool:
        """Return whether workers build the rows."""
        if self.asking and not (executor.is_cluster and _has_copies(_model_inside(self.models.chat))):
            return False
        no_vectors = bool(executor.workers) and self.models.embedder is None
        return bool(self.settings) and (no_vectors or _embeds_in_workers(executor, self.models.embedder))

    def for_worker(self) -> _ViewBuilder:
        """Return a copy for workers. Its chat model has no cache, so answers are kept only in the rows."""
        chat = _model_inside(self.models.chat) if self.asking else None
        # for the tree alone, workers need not import the other views
        first = next(iter(self.registry))
        registry = {first: self.registry[first]} if [*self.settings] == [first] else self.registry
        return replace(self, registry=registry, models=replace(self.models, chat=chat))

    def with_progress(self, work: IndexingProgress, characters: int) -> tuple[_ViewBuilder, OnShare | None]:
        """Return a builder that reports its progress, and a callback for builders that ask a chat model.

        If a chat model writes rows, only its progress counts, because everything else is fast.
        """
        if self.asking:
            return self, work.shares_of(characters, self.asking)
        embedder = work.watch(self.models.embedder, characters, len(self.settings))
        return replace(self, models=replace(self.models, embedder=embedder)), None


def _with_tables(rows: Sequence[DocumentRows], tables: Sequence[ViewRows]) -> list[DocumentRows]:
    return [replace(row, tables={**row.tables, **own}) for row, own in zip(rows, tables, strict=True)]


def rows_of(
    documents: Sequence[tuple[Document, str]], registry: Registry, settings: Mapping[str, Json], models: Models
) -> list[DocumentRows]:
    """Build the rows of documents, given with their digests, in all views that have settings."""
    rows = [DocumentRows(document, digest) for document, digest in documents]
    return _ViewBuilder(registry, settings, models).build(rows)


@span("mergewise.index")
def carry_out(
    planned: IndexingPlan,
    store: Store,
    registry: Registry,
    models: Models,
    work: IndexingProgress,
    embed: When = "now",
    executors: Executors = HERE,
) -> AddReport:
    """Carry out a plan in batches. Documents are removed in one step with the last batch.

    With `embed` "later", vectors and the rows of the other views are left to `catch_up`.
    """
    began = perf_counter()
    size = sum(task.given.size for task in planned.tasks)
    waiting = waiting_characters(store) if embed == "now" else 0
    texts_first = embed == "later" or (models.embedder is not None and size > SMALL)
    writer = _BatchWriter(store, registry, models, work, texts_first=texts_first)
    work.begin(size, planned.kept, waiting, texts_first=texts_first)
    try:
        with executors(size + waiting) as executor:
            writer.add_all(planned.tasks, executor)
            for moves in batches(planned.moves, MOVES_AT_ONCE):
                writer.move(moves)
            for some in batches(planned.updates.items(), DESCRIBED_AT_ONCE):
                store.describe(dict(some))
                writer.report += AddReport(updated=len(some))
            # update the search indexes in the same change if no work remains
            writer.flush(remove=planned.gone, optimize=not texts_first)
            if texts_first and writer.written:
                after_change(store.optimize, UNINDEXED)
            if embed == "now":
                catch_up(store, registry, models, work, executor=executor)
                complete_unfinished(store, registry, models, writer.written)
    except MergewiseError as error:
        # name the finished changes in the message
        counts = ((name, getattr(writer.report, name)) for name in AddReport.__slots__)
        if done := [f"{count} {name}" for name, count in counts if count and isinstance(count, int)]:
            error.message += f"; done before and kept: {', '.join(done)}"
        raise
    report = AddReport(unchanged=planned.unchanged, failed=planned.failed) + writer.report
    if writer.written or report.removed or report.updated:
        after_change(store.optimize, UNINDEXED)
        doubled = [copy for copy in store.reader().duplicates() if copy.id in writer.written]
        others = ("removed", "updated")
        changes = [change for change in planned.changes() if change.action in others or change.id in writer.written]
        report += AddReport(duplicates=tuple(doubled), changes=tuple(changes))
    work.finish()
    log.info("indexed: %s, %.1f s", report, perf_counter() - began)
    return replace(report, gone=planned.lost)


class _ReadDocument(NamedTuple):
    """The result of reading a document: its rows, perhaps without tables yet, or the reason why it `failed`."""

    rows: DocumentRows | None
    textless: tuple[int, ...] = ()
    failed: str = ""


def _read(task: IndexingTask) -> _ReadDocument:
    try:
        document, digest, textless = task.given.read(task.id)
        return _ReadDocument(DocumentRows(document, digest, origin=task.given.origin()), textless)
    except ReadError as error:
        return _ReadDocument(None, failed=error.message)


def _read_with_rows(builder: _ViewBuilder, tasks: Sequence[IndexingTask]) -> list[_ReadDocument | None]:
    """Read documents and build their rows in a worker.

    The result is None for a document that differs from the plan, because another machine may have other files.
    """
    documents: list[_ReadDocument | None] = []
    for task in tasks:
        read = _read(task)
        # the content when it was read, or when reading it failed
        digest = task.given.digest() if read.rows is None else split_digest(read.rows.digest)[0]
        documents.append(read if digest == task.digest else None)
    built = iter(builder.build([read.rows for read in documents if read and read.rows is not None]))
    for at, one in enumerate(documents):
        if one is not None and one.rows is not None:
            rows = next(built)
            # the worker already knows the language, so the main process need not detect it
            documents[at] = one._replace(rows=replace(rows, language=document_language(rows.document)))
    return documents


class _BatchWriter:
    """The writer of documents: it reads them one by one, builds their rows and writes them in batches."""

    def __init__(
        self, store: Store, registry: Registry, models: Models, work: IndexingProgress, *, texts_first: bool
    ) -> None:
        self.store, self.registry, self.models, self.work = store, registry, models, work
        self.texts_first = texts_first
        self.report = AddReport()
        self.written: set[str] = set()
        # documents without tables, or with all tables
        self._batch: list[DocumentRows] = []
        # old ids of documents in the batch, by new id
        self._old_ids: dict[str, str] = {}
        # moved documents with their old ids
        self._moved: list[tuple[DocumentRows, str]] = []

    def add_all(self, tasks: Sequence[IndexingTask], executor: Executor) -> None:
        builder = self._builder() if tasks else None
        if builder is None or not builder.is_work_of(executor):
            for task in tasks:
                self.add(task)
            return
        parts = executor.map(partial(_read_with_rows, builder.for_worker()), _parts_to_send(tasks), self.work.tell)
        read = chain.from_iterable(parts)
        for task in tasks:
            # name the document that is waited for
            self.work.look_at(task.given.name)
            self.add(task, next(read))

    def add(self, task: IndexingTask, read: _ReadDocument | None = None) -> None:
        """Add a document to the batch. It is read now unless a worker has `read` it."""
        if len(self._batch) >= BATCH_DOCUMENTS or _characters(self._batch) >= BATCH_CHARACTERS:
            self.flush()
        self.work.look_at(task.given.name)
        read = read or _read(task)
        if read.rows is None:
            log.debug("cannot read %s: %s", task.given.name, read.failed)
            self.report += AddReport(failed=(Failure(task.given.name, read.failed),))
            self.work.count_read(task.given.size, 0)
            return
        self._batch.append(read.rows)
        if read.textless:
            self.report += AddReport(textless=(TextlessPages(task.given.name, read.textless),))
        self.work.count_read(task.given.size, len(read.rows.document.text))

    def move(self, moves: Sequence[Move]) -> None:
        """Rename the rows of moved documents. A document whose title changes with its name is read again."""
        if self._moved:
            self.flush()
        stored = {rows.document.id: rows for rows in self.store.reader().document_rows([move.was.id for move in moves])}
        for move in moves:
            given, was, rows = move.task.given, move.was.origin, stored.get(move.was.id)
            renamed = None
            try:
                origin = given.origin()
            except ReadError:
                origin = None
            # a title that is the file's name changes with it, and with it the searched text
            before, after = (PurePosixPath(name).stem for name in (was.source if was else "", given.name))
            if rows and was and origin and (rows.document.title != before or before == after):
                described = replace(rows, document=given.with_metadata(rows.document))
                renamed = rename_document(described, move.task.id, origin, self.registry, self.store.settings)
            if renamed is not None:
                self._moved.append((renamed, move.was.id))
            else:
                self.work.begin_more(move.task.given.size)
                self._old_ids[move.task.id] = move.was.id
                self.add(move.task)

    def flush(self, *, remove: Sequence[str] = (), optimize: bool = False) -> None:
        """Write the batch, and remove documents in the same change."""
        if not (self._batch or self._moved or remove):
            return
        characters, rows = _characters(self._batch), self._batch
        if bare := [row for row in rows if not row.tables]:
            builder, on_share = self._builder().with_progress(self.work, _characters(bare))
            made = iter(builder.build(bare, on_share))
            rows = [row if row.tables else next(made) for row in rows]
        rows = [*rows, *(row for row, _ in self._moved)]
        ids = [row.document.id for row in self._batch]
        old_ids = {doc_id: self._old_ids[doc_id] for doc_id in ids if doc_id in self._old_ids}
        old_ids |= {rows.document.id: before for rows, before in self._moved}
        done = self.store.write(rows, remove=[*old_ids.values(), *remove], optimize=optimize)
        failed = {failure.source for failure in done.failed}
        self.written |= {row.document.id for row in rows} - failed
        moved = len(old_ids.keys() - failed)
        self.report += replace(done, added=done.added - moved, removed=done.removed - len(old_ids), moved=moved)
        self._batch, self._moved = [], []
        self.work.count_written(characters)

    def _builder(self) -> _ViewBuilder:
        """Return the builder of the current views. Raise UsageError if the prompts of existing rows have changed."""
        settings = self.store.settings
        if not self.texts_first:
            return _ViewBuilder(self.registry, settings, self.models)
        for name in settings:
            self.registry[name].check_prompt(settings[name], self.models.prompts)
        first = next(iter(self.registry))
        return _ViewBuilder(self.registry, {first: settings[first]}, replace(self.models, embedder=None))


def _parts_to_send(tasks: Sequence[IndexingTask]) -> Iterator[list[IndexingTask]]:
    """Split the tasks into parts of about a second of work, in order."""
    part: list[IndexingTask] = []
    size = 0
    for task in tasks:
        part.append(task)
        size += task.given.size
        if size >= SENT_CHARACTERS or len(part) >= SENT_DOCUMENTS:
            yield part
            part, size = [], 0
    if part:
        yield part


def _embeds_in_workers(executor: Executor, embedder: Embedder | None) -> bool:
    """Return whether workers embed, each with its own copy of the embedder.

    Local workers copy only the built-in embedder, with one thread each, and only if they use all cores.
    """
    if executor.is_cluster:
        return _has_copies(embedder)
    return isinstance(embedder, OnnxEmbedder) and embedder.spec in SHIPPED_EMBEDDERS and executor.workers >= cores()


def _has_copies(model: object) -> bool:
    """Return whether other processes can load the model: its class then defines `__reduce__`.

    A custom model cannot be loaded, nor can a model behind an endpoint.
    """
    return type(model).__reduce__ is not object.__reduce__


def _model_inside(chat: ChatModel | None) -> ChatModel | None:
    """Return the chat model inside its cache."""
    while isinstance(chat, CachedChat):
        chat = chat.chat
    return chat


def rebuild(store: Store, registry: Registry, models: Models, doc_ids: Sequence[str]) -> None:
    """Build the rows of documents again from the texts in the index. Documents that change meanwhile are left alone."""
    for some in batches(doc_ids, REBUILT_AT_ONCE):
        reader = store.reader()
        found = [(one, known.digest) for known in reader.known_documents(some) if (one := reader.document(known.id))]
        store.rewrite(rows_of(found, registry, store.settings, models))
    after_change(store.optimize, UNINDEXED)


def complete_unfinished(store: Store, registry: Registry, models: Models, written: Collection[str]) -> None:
    """Rebuild the rows of documents that a chat model left incomplete. Finished answers come from its cache.

    Documents that were `written` just now are skipped.
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
    """Build a new view for all existing documents, in batches. The store must have begun the view."""
    work = IndexingProgress(progress)
    work.begin(0 if progress is None else _characters_of(store, store.missing(view.name)))
    _build_missing(store, {view.name: view}, view.name, models, work)
    work.finish()


def _characters_of(store: Store, doc_ids: Collection[str]) -> int:
    return store.reader().sizes(doc_ids)[1]


def _build_missing(
    store: Store,
    registry: Registry,
    name: str,
    models: Models,
    work: IndexingProgress,
    goes_on: Callable[[], bool] = lambda: True,
    executor: Executor = INLINE,
) -> None:
    """Build the missing rows of a view in batches, at least one batch. Stop once another process removes the view."""
    settings = store.settings.get(name)
    if settings is None:
        return
    builder = _ViewBuilder(registry, {name: settings}, models)
    started: deque[list[DocumentRows]] = deque()

    def read_batches() -> Iterator[list[DocumentRows]]:
        for batch in batches(store.missing(name), registry[name].batch):
            started.append(store.reader().document_rows(batch))
            work.look_at(batch[0])
            yield started[-1]

    def build(rows: Sequence[DocumentRows]) -> Sequence[ViewRows]:
        watched, on_share = builder.with_progress(work, _characters(rows))
        return watched.tables(name, rows, on_share)

    function = partial(builder.for_worker().tables, name) if builder.is_work_of(executor) else None
    while not store.finish_view(name):
        batched = read_batches()
        for tables in map(build, batched) if function is None else executor.map(function, batched, work.tell):
            rows = started.popleft()
            if store.settings.get(name) != settings:
                return
            store.write_view(name, _with_tables(rows, tables))
            work.count_written(_characters(rows))
            if not goes_on():
                return


def go_on(
    store: Store,
    registry: Registry,
    models: Models,
    work: IndexingProgress | None = None,
    seconds: float = inf,
    executors: Executors = HERE,
) -> None:
    """Run `catch_up` alone, without new documents."""
    work = work or IndexingProgress()
    incomplete = {doc_id for name in store.reader().views for doc_id in store.missing(name)}
    sizes = waiting_characters(store), _characters_of(store, incomplete)
    work.begin(sizes[1], store.reader().sizes()[1], sizes[0])
    # with a time limit, nothing is computed ahead, because any change may be the last one
    with executors(sum(sizes)) if seconds == inf else nullcontext(INLINE) as executor:
        catch_up(store, registry, models, work, seconds, executor=executor)
    work.finish()


def catch_up(
    store: Store,
    registry: Registry,
    models: Models,
    work: IndexingProgress,
    seconds: float = inf,
    executor: Executor = INLINE,
) -> None:
    """Embed the rows without vectors, then build the missing rows of the views in use.

    After `seconds`, no further change begins. At least one change is made.
    """
    began, settings = monotonic(), store.settings

    def goes_on() -> bool:
        return monotonic() - began < seconds

    late = [name for name in store.reader().views if store.missing(name)]
    views = (registry[name].tables_of(settings[name]) for name in registry if name in settings)
    can_embed = [table for tables in views for table in tables if table.embed is not None]
    tables = [table for table in can_embed if len(store.reader().unembedded(table.name))]
    for stage, table in enumerate(tables):
        work.begin_stage(len(store.reader().unembedded(table.name)), len(tables) - stage + len(late))
        if models.embedder is not None and _embeds_in_workers(executor, models.embedder):
            embed_in_workers(store, table, models.embedder, work, executor)
        else:
            while embed_some(store, table, models, work, monotonic) and goes_on():
                pass
    store.finish_vectors()
    for stage, name in enumerate(late):
        if goes_on() or not (tables or stage):
            work.begin_stage(_characters_of(store, store.missing(name)), len(late) - stage)
            _build_missing(store, registry, name, models, work, goes_on, executor)


def _characters(rows: Iterable[DocumentRows]) -> int:
    return sum(len(row.document.text) for row in rows)
