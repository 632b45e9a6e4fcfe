"""The way of documents into an index: read, made into the rows of all views, written batch by batch.

Whoever has a store and models can run it; each batch is one change of the index, so that a kill costs a batch at most.

Embedding is nearly all of the work. So where there is much to do, texts come first: documents are written with the rows of
the tree alone, without vectors, and are found by words from then on. Then `catch_up` embeds what waits, in changes of
less than half a minute, and builds the other views. A kill leaves what the finished changes hold, and the next run goes on.

What is made of documents is made by pure functions, here or in workers (`index.executors`); what is written, and in which
order, is the same. One process writes. Vectors, and rows that a chat model writes, are made by workers where each has a copy of
the model (`_has_copies`), and else here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf
from time import monotonic, perf_counter
from typing import Any

from mergewise.defaults import When
from mergewise.errors import ReadError
from mergewise.index.executors import HERE, INLINE, Executor, Executors
from mergewise.index.moves import keeps_its_title, rename_document
from mergewise.index.plan import IndexingPlan, IndexingTask, Move, batches
from mergewise.index.vectors import embed_in_workers, embed_some, embedding_tables, waiting_characters
from mergewise.index.work import IndexingProgress
from mergewise.index.writing.calls import chat_of
from mergewise.models.cache import CachedChat
from mergewise.models.minilm import MiniLM, cores
from mergewise.models.record import Models
from mergewise.protocols import ChatModel, Embedder, Store
from mergewise.readers import UNTRIED
from mergewise.store.views import OnShare, Progress, Registry, View, ViewRows, views_of
from mergewise.text.languages.detection import document_language
from mergewise.types import AddReport, Document, DocumentRows, Failure, Origin, TextlessPages

log = logging.getLogger("mergewise")

BATCH_CHARACTERS = 1_000_000
BATCH_DOCUMENTS = 512
MOVES_AT_ONCE = 64
DESCRIBED_AT_ONCE = 512
REBUILT_AT_ONCE = 64

SMALL = 100_000
"""Characters that are written with their vectors in one change: a few seconds of embedding."""
SENT_CHARACTERS, SENT_DOCUMENTS = 200_000, 64
"""What a worker gets at a time: about a second of work or less, so that none waits long for another in the end."""


@dataclass(frozen=True, slots=True)
class _ViewBuilder:
    """Views with the settings of those that are built, and the models that their rows are made with, here or in a worker."""

    registry: Registry
    settings: Mapping[str, Mapping[str, Any]]
    models: Models

    def build(self, rows: Sequence[DocumentRows], on_share: OnShare | None = None) -> list[DocumentRows]:
        """Add the rows of the views to those that documents have."""
        for view in views_of(self.registry, list(self.settings)):
            tables = self.tables(view, rows, on_share)
            rows = [replace(row, tables={**row.tables, **own}) for row, own in zip(rows, tables, strict=True)]
        return list(rows)

    def tables(self, view: View, rows: Sequence[DocumentRows], on_share: OnShare | None = None) -> Sequence[ViewRows]:
        view.check_prompt(self.settings[view.name], self.models.prompts)
        own = view.load(self.settings[view.name])
        if on_share is not None and view.writing is not None and view.writing.asks(own):
            return view.writing.build(rows, own, self.models, on_share)
        return view.build(rows, own, self.models)

    @property
    def asking(self) -> int:
        """The number of views whose rows a chat model writes."""
        return sum(self.registry[name].asks_chat(own) for name, own in self.settings.items())

    def is_work_of(self, executor: Executor) -> bool:
        """Whether workers make the rows."""
        if self.asking and not (executor.is_cluster and _has_copies(_model_inside(self.models.chat))):
            return False
        no_vectors = bool(executor.workers) and self.models.embedder is None
        return bool(self.settings) and (no_vectors or _embed_apart(executor, self.models.embedder))

    def for_worker(self) -> _ViewBuilder:
        """What workers need. Answers of a chat model of theirs are kept nowhere but in the rows."""
        chat = _model_inside(self.models.chat) if self.asking else None
        # the tree by itself: other views need not be imported for it
        first = next(iter(self.registry))
        registry = {first: self.registry[first]} if [*self.settings] == [first] else self.registry
        return replace(self, registry=registry, models=replace(self.models, chat=chat))

    def with_progress(self, work: IndexingProgress, characters: int) -> tuple[_ViewBuilder, OnShare | None]:
        """The same, and who hears how far a batch is. Where a chat model writes, all else takes no time."""
        if self.asking:
            return self, work.shares_of(characters, self.asking)
        embedder = work.watch(self.models.embedder, characters, len(self.settings))
        return replace(self, models=replace(self.models, embedder=embedder)), None


def rows_of(
    documents: Sequence[tuple[Document, str]],
    registry: Registry,
    settings: Mapping[str, Mapping[str, Any]],
    models: Models,
) -> list[DocumentRows]:
    """The rows of documents, given with their digests, in all views that have settings."""
    rows = [DocumentRows(document, digest) for document, digest in documents]
    return _ViewBuilder(registry, settings, models).build(rows)


def carry_out(
    planned: IndexingPlan,
    store: Store,
    registry: Registry,
    models: Models,
    work: IndexingProgress,
    embed: When = "now",
    executors: Executors = HERE,
) -> AddReport:
    """Do what is planned, in batches. What leaves the index leaves it in one step with the last batch that comes.

    With `embed` "later", vectors and the rows of further views are left to `catch_up`.
    """
    began = perf_counter()
    size = sum(task.given.size for task in planned.tasks)
    waiting = waiting_characters(store) if embed == "now" else 0
    texts_first = embed == "later" or (models.embedder is not None and size > SMALL)
    writer = _BatchWriter(store, registry, models, work, texts_first=texts_first)
    work.begin((size, waiting))
    if texts_first:
        work.begin_texts()
    with executors(size + waiting) as executor:
        writer.add_all(planned.tasks, executor)
        for moves in batches(planned.moves, MOVES_AT_ONCE):
            writer.move(moves)
        for some in batches(planned.updates.items(), DESCRIBED_AT_ONCE):
            store.describe(dict(some))
        # with the search indexes in the same change, where nothing is left to do
        writer.flush(remove=planned.gone, origins=planned.found, optimize=not texts_first)
        if texts_first and writer.written:
            store.optimize()
        if embed == "now":
            catch_up(store, registry, models, work, executor=executor)
            take_up(store, registry, models, writer.written)
    report = AddReport(unchanged=planned.unchanged, failed=planned.failed, updated=len(planned.updates)) + writer.report
    if writer.written or report.removed or report.updated:
        store.optimize()
        doubled = [copy for copy in store.reader().duplicates() if copy.id in writer.written]
        done = ("removed", "updated")
        changes = [change for change in planned.changes() if change.action in done or change.id in writer.written]
        report += AddReport(duplicates=tuple(doubled), changes=tuple(changes))
    work.finish()
    log.info("indexed: %s, %.1f s", report, perf_counter() - began)
    return replace(report, gone=planned.lost)


@dataclass(frozen=True, slots=True)
class _ReadDocument:
    """What came of reading a document: its rows, which may still have no tables, or why it `failed`."""

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
    """What a worker makes of documents; None of those that are not what was planned: another machine may have other files."""
    read = [one if _is_as_planned(task, one) else None for task in tasks for one in (_read(task),)]
    rows = iter(builder.build([one.rows for one in read if one and one.rows is not None]))
    return [one if one is None or one.rows is None else replace(one, rows=_with_language(next(rows))) for one in read]


def _with_language(rows: DocumentRows) -> DocumentRows:
    """What the committer would look at else; the tree was cut by it, so that it is known."""
    return replace(rows, language=document_language(rows.document))


def _is_as_planned(task: IndexingTask, read: _ReadDocument) -> bool:
    """Whether it was read, or failed, with the content that the plan found."""
    if read.rows is None:
        return task.given.digest() == task.digest
    return read.rows.digest.partition(UNTRIED)[0] == task.digest


class _BatchWriter:
    """Documents on their way into a store: read one by one, made into rows and written batch by batch."""

    def __init__(
        self, store: Store, registry: Registry, models: Models, work: IndexingProgress, *, texts_first: bool
    ) -> None:
        self.store, self.registry, self.models, self.work = store, registry, models, work
        self.texts_first = texts_first
        self.report = AddReport()
        self.written: set[str] = set()
        self._batch: list[DocumentRows] = []  # without tables, or with all of them
        self._was: dict[str, str] = {}  # the ids of those that they take the place of
        self._moved: list[tuple[DocumentRows, str]] = []  # with the id of before

    def add_all(self, tasks: Sequence[IndexingTask], executor: Executor) -> None:
        builder = self._builder() if tasks else None
        if builder is None or not builder.is_work_of(executor):
            for task in tasks:
                self.add(task)
            return
        read = executor.map(partial(_read_with_rows, builder.for_worker()), _parts_to_send(tasks), self.work.tell)
        for task, one in zip(tasks, chain.from_iterable(read), strict=True):
            self._begin(task)
            self._take(task, one or _read(task))

    def add(self, task: IndexingTask) -> None:
        self._begin(task)
        self._take(task, _read(task))

    def _begin(self, task: IndexingTask) -> None:
        if len(self._batch) >= BATCH_DOCUMENTS or _characters(self._batch) >= BATCH_CHARACTERS:
            self.flush()
        self.work.look_at(task.given.name)

    def _take(self, task: IndexingTask, read: _ReadDocument) -> None:
        if read.rows is None:
            log.debug("%s was not read: %s", task.given.name, read.failed)
            self.report += AddReport(failed=(Failure(task.given.name, read.failed),))
            self.work.count_read(task.given.size, 0)
            return
        self._batch.append(read.rows)
        if read.textless:
            self.report += AddReport(textless=(TextlessPages(task.given.name, read.textless),))
        self.work.count_read(task.given.size, len(read.rows.document.text))

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
                self._was[move.task.id] = move.was.id
                self.add(move.task)

    def _under_new_name(self, move: Move, rows: DocumentRows | None) -> DocumentRows | None:
        given, was = move.task.given, move.was.origin
        try:
            origin = given.origin()
        except ReadError:
            return None
        if rows is None or was is None or origin is None or not keeps_its_title(rows, was.source, given.name):
            return None
        described = replace(rows, document=given.with_metadata(rows.document))
        return rename_document(described, move.task.id, origin, self.registry, self.store.settings)

    def flush(
        self, *, remove: Sequence[str] = (), origins: Mapping[str, Origin] | None = None, optimize: bool = False
    ) -> None:
        """Write what has come so far, in one change with what goes."""
        if not (self._batch or self._moved or remove or origins):
            return
        characters = _characters(self._batch)
        rows = [*self._rows(), *(rows for rows, _ in self._moved)]
        was = {row.document.id: self._was[row.document.id] for row in self._batch if row.document.id in self._was}
        was |= {rows.document.id: before for rows, before in self._moved}
        done = self.store.write(rows, remove=[*was.values(), *remove], origins=origins, optimize=optimize)
        failed = {failure.source for failure in done.failed}
        self.written |= {row.document.id for row in rows} - failed
        moved_now = len(was.keys() - failed)
        self.report += replace(done, added=done.added - moved_now, removed=done.removed - len(was), moved=moved_now)
        self._batch, self._moved = [], []
        self.work.count_written(characters)

    def _rows(self) -> list[DocumentRows]:
        """The batch with all tables."""
        bare = [rows for rows in self._batch if not rows.tables]
        if not bare:
            return self._batch
        builder, on_share = self._builder().with_progress(self.work, _characters(bare))
        made = iter(builder.build(bare, on_share))
        return [rows if rows.tables else next(made) for rows in self._batch]

    def _builder(self) -> _ViewBuilder:
        """Of the views that are made now. Raises UsageError where prompts are others than those of rows that stand."""
        settings = self.store.settings
        if not self.texts_first:
            return _ViewBuilder(self.registry, settings, self.models)
        for name in settings:
            self.registry[name].check_prompt(settings[name], self.models.prompts)
        first = next(iter(self.registry))
        return _ViewBuilder(self.registry, {first: settings[first]}, replace(self.models, embedder=None))


def _parts_to_send(tasks: Sequence[IndexingTask]) -> Iterator[list[IndexingTask]]:
    """The tasks in order, in parts of about a second of work."""
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


def _embed_apart(executor: Executor, embedder: Embedder | None) -> bool:
    """Whether workers embed, each with a copy. On this machine only the shipped embedder is copied, with one thread, where that
    keeps as many cores busy as it would here.
    """
    if executor.is_cluster:
        return _has_copies(embedder)
    return type(embedder) is MiniLM and executor.workers >= cores()


def _has_copies(model: object) -> bool:
    """Whether other processes load the model themselves: its class says how, where it reads a file. One that somebody gave has no
    copies, nor has one that asks an endpoint."""
    return type(model).__reduce__ is not object.__reduce__


def _model_inside(chat: ChatModel | None) -> ChatModel | None:
    """The chat model itself, whose answers may be kept."""
    while isinstance(chat, CachedChat):
        chat = chat.chat
    return chat


def rebuild(store: Store, registry: Registry, models: Models, doc_ids: Sequence[str]) -> None:
    """Make the rows of these documents again, from the texts that the index holds."""
    reader = store.reader()
    for some in batches(reader.known_documents(doc_ids) if doc_ids else (), REBUILT_AT_ONCE):
        found = [(known, document) for known in some if (document := reader.document(known.id)) is not None]
        rows = rows_of([(document, known.digest) for known, document in found], registry, store.settings, models)
        placed = [replace(row, origin=known.origin) for row, (known, _) in zip(rows, found, strict=True)]
        store.write(placed, force=True)
    store.optimize()


def check_writers(store: Store, registry: Registry, models: Models) -> None:
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
    """In batches, of which one is made at least."""
    builder = _ViewBuilder(registry, {name: store.settings[name]}, models)
    begun: deque[list[DocumentRows]] = deque()

    def begin_batches() -> Iterator[list[DocumentRows]]:
        for batch in batches(store.missing(name), registry[name].batch):
            begun.append(store.reader().document_rows(batch))
            work.look_at(batch[0])
            yield begun[-1]

    def build(rows: Sequence[DocumentRows]) -> Sequence[ViewRows]:
        watched, on_share = builder.with_progress(work, _characters(rows))
        return watched.tables(registry[name], rows, on_share)

    apart = partial(_tables_of_view, builder.for_worker(), name) if builder.is_work_of(executor) else None
    while not store.finish_view(name):
        for tables in map(build, begin_batches()) if apart is None else executor.map(apart, begin_batches(), work.tell):
            rows = begun.popleft()
            store.write_view(
                name, [replace(row, tables={**row.tables, **own}) for row, own in zip(rows, tables, strict=True)]
            )
            work.count_written(_characters(rows))
            if not goes_on():
                return


def _tables_of_view(builder: _ViewBuilder, name: str, rows: Sequence[DocumentRows]) -> Sequence[ViewRows]:
    return builder.tables(builder.registry[name], rows)


def go_on(
    store: Store,
    registry: Registry,
    models: Models,
    work: IndexingProgress | None = None,
    seconds: float = inf,
    executors: Executors = HERE,
) -> None:
    """`catch_up` by itself."""
    work = work or IndexingProgress()
    lacking = {doc_id for name in store.reader().views for doc_id in store.missing(name)}
    sizes = waiting_characters(store), _characters_of(store, lacking)
    work.begin(sizes)
    # where a change may be the last one, nothing is made ahead
    with executors(sum(sizes)) if seconds == inf else nullcontext(INLINE) as executor:
        catch_up(store, registry, models, work, seconds, executor=executor)
    work.finish()


def catch_up(
    store: Store,
    registry: Registry,
    models: Models,
    work: IndexingProgress,
    seconds: float = inf,
    clock: Callable[[], float] = monotonic,
    executor: Executor = INLINE,
) -> None:
    """Give the rows that wait for them their vectors, then documents the rows of views that they lack, where these are in use.

    After so many `seconds` no further change is begun; one is always made.
    """
    began = clock()

    def goes_on() -> bool:
        return clock() - began < seconds

    late = [name for name in store.reader().views if store.missing(name)]
    tables = [table for table in embedding_tables(store, registry) if len(store.reader().unembedded(table.name))]
    for stage, table in enumerate(tables):
        work.begin_stage(len(store.reader().unembedded(table.name)), len(tables) - stage + len(late))
        if models.embedder is not None and _embed_apart(executor, models.embedder):
            embed_in_workers(store, table, models.embedder, work, clock, executor)
        else:
            while embed_some(store, table, models, work, clock) and goes_on():
                pass
    store.finish_vectors()
    for stage, name in enumerate(late):
        if goes_on() or not (tables or stage):
            work.begin_stage(_characters_of(store, store.missing(name)), len(late) - stage)
            _build_missing(store, registry, name, models, work, goes_on, executor)


def _characters(rows: Iterable[DocumentRows]) -> int:
    return sum(len(row.document.text) for row in rows)
