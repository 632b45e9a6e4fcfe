"""The whole pipeline, read top to bottom: an index gets documents, assembles a context, answers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from mergewise.concurrency import deadline_in
from mergewise.defaults import When
from mergewise.designs import VIEWS
from mergewise.errors import CorruptIndex, MergewiseError, UsageError
from mergewise.models import causal_of, knows_embedder, load_chat, load_embedder, release
from mergewise.models.cache import streaming, with_kept_answers
from mergewise.models.embedders import QuestionVectors, check_named
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import CausalModel, ChatModel, Embedder, NLLScorer, Reranker, TokenCounter
from mergewise.query import AnswerQuery, Query, takes
from mergewise.ranges import (
    DOCUMENTS,
    GPUS,
    WORKERS,
    Ceilings,
    Range,
    as_list,
    choice,
    number,
    short_repr,
    text,
    text_or_none,
    whole,
)
from mergewise.retrieve.hybrid import SearchSettings
from mergewise.store.filters import condition_text
from mergewise.store.lance import ClosedStore, LanceStore
from mergewise.store.manifest import Manifest, check_plain
from mergewise.store.places import root_of
from mergewise.store.shards.store import ShardedStore
from mergewise.store.views import Progress
from mergewise.twins import AnswerStream, AsyncAnswerStream, as_async, as_stream, each
from mergewise.types import (
    AddReport,
    Answer,
    Context,
    Document,
    DocumentInfo,
    Duplicate,
    Location,
    Message,
    Metadata,
    Problem,
    Span,
    VectorCount,
    Where,
)

if TYPE_CHECKING:
    from mergewise.asking import IndexState, PreparedAnswer
    from mergewise.generate.mode import Request
    from mergewise.index.executors import Executors
    from mergewise.inputs import Source
    from mergewise.readers import FolderSearch
    from mergewise.readers.sandbox import Limits

# What adds and what asks is imported where it is used: either half takes longer to import than to open an index.

log = logging.getLogger("mergewise")

AT_ONCE = 8  # questions of `ask_many`
WRITTEN = ".summaries"
"""In the index's directory: what a chat model wrote for a view."""


def _with_search(report: AddReport, search: FolderSearch) -> AddReport:
    """The report with what was met in folders."""
    left_out = tuple(search.left_out.most_common())
    return replace(report, left_out=left_out, excluded=search.excluded, outward=tuple(search.outward))


@dataclass
class Index:
    """Documents, searchable. Made by `mergewise.open`; safe to use from several threads, and a context manager.

    Everything but `close` raises UsageError once the index is closed, and CorruptIndex where what is on the disk does not fit
    together.
    """

    store: LanceStore | ShardedStore
    search_settings: SearchSettings
    # the embedder is None until it is needed
    _models: Models
    _loaded: tuple[object, ...] = ()
    ceilings: Ceilings | None = None
    root: Path | None = None

    def __repr__(self) -> str:
        if isinstance(self.store, ClosedStore):
            return f"Index({str(self.store.place)!r}, closed)"
        try:
            state = f"{len(self)} documents, embedder {self.manifest.embedder}"
        except MergewiseError as error:
            state = type(error).__name__
        return f"Index({str(self.store.place)!r}, {state})"

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of files, of loaded models and of connections. Questions under way are finished; models given as objects stay.

        Closing twice is once. Raises nothing.
        """
        if isinstance(self.store, ClosedStore):
            return
        place, loaded = self.store.place, self._loaded
        self.store = cast(LanceStore, ClosedStore(place))
        self._models, self._loaded = Models(self.tokens), ()
        for model in loaded:
            release(model)
        log.info("closed %s", place)

    def with_chat(self, chat: str | ChatModel) -> Index:
        """This index, asked with another chat model. What is open is shared, and belongs to this one, which is closed in the end.

        Raises what `open` raises for the chat model.
        """
        own = load_chat(chat) if isinstance(chat, str) else streaming(chat)
        causal = causal_of(own) or self._models.causal
        return replace(self, _models=replace(self._models, chat=own, causal=causal), _loaded=())

    def __len__(self) -> int:
        return len(self.store.reader().numbers())

    @property
    def manifest(self) -> Manifest:
        """The state of the index: its embedder, its views, its tables."""
        return self.store.manifest

    @property
    def snapshot(self) -> str:
        """The state of the index that stands, as a short hash: two are equal where the index has not changed between them."""
        return self.manifest.snapshot

    @property
    def embedder(self) -> Embedder | None:
        """Loaded when it is first needed; None for an index of text alone.

        Raises UsageError where it was given as an object and must be given again, or where the user never named the one that the
        index names; MissingExtra and ModelError as `open` does.
        """
        if self._models.embedder is None and self.manifest.dimension:
            spec = self.manifest.embedder
            check_named(self.store.directory, spec)
            try:
                self._models = replace(self._models, embedder=load_embedder(spec))
            except UsageError:
                if knows_embedder(spec):
                    raise
                raise UsageError(
                    f"{self.store.directory} was built with an embedder of your own, {spec!r}",
                    "give it again: mergewise.open(path, embedder=...)",
                ) from None
        return self._models.embedder

    @property
    def models(self) -> Models:
        """All models of the index, the embedder among them. Raises what `embedder` raises."""
        embedder = self.embedder
        return replace(self._models, embedder=embedder)

    @property
    def tokens(self) -> TokenCounter:
        """Counts tokens for budgets."""
        return self._models.count_tokens

    @property
    def chat(self) -> ChatModel | None:
        return self._models.chat

    @property
    def reranker(self) -> Reranker | None:
        return self._models.reranker

    @property
    def scorer(self) -> NLLScorer | None:
        return self._models.scorer

    @property
    def causal(self) -> CausalModel[Any] | None:
        return self._models.causal

    # -- documents

    def documents(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        """All documents, without their texts, in the order in which they were added; or a page of them, sorted by id.

        A page holds at most `limit` documents, whose ids begin with `prefix` and come after `after`, which may be gone meanwhile.
        Pages one after the other hold each document that stands all the while once.
        """
        text("the prefix is", prefix)
        text_or_none("the id is", after)
        at_most = None if limit is None else whole("the limit is", limit, DOCUMENTS)
        return self.store.reader().documents(prefix, after, at_most)

    def document(self, doc_id: str) -> Document:
        """One document with its text, outline and pages. Raises UsageError where there is none of this id."""
        document = self.store.reader().document(text("the id is", doc_id))
        if document is None:
            raise UsageError(f"no document has the id {doc_id!r}", "`mergewise info --documents` lists them")
        return document

    def add(
        self,
        *sources: Source | Iterable[Source],
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        metadata: Metadata | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        limits: Limits | None = None,
        embed: When = "now",
        cancel: Callable[[], bool] | None = None,
        workers: int | None = 1,
        ray: str | None = None,
        gpus_per_worker: float = 0.0,
    ) -> AddReport:
        """Index files, folders and `Document`s. Unchanged content is skipped, changed content replaces the old.

        Documents of LangChain, LlamaIndex and Haystack are taken as they are. A `File` is read under another name than its own.

        A file that cannot be read is named in the report with its reason, and the others go on. Documents are
        written in batches, each of them atomically: after a kill, the same call does the rest. A document whose file is gone from
        one of the folders stays, and is named: `sync` removes it.

        `include` and `exclude` are patterns of files in folders, such as "drafts/", "*.log" or "2019/**/*.md" (see the guide).
        All documents of the call get the `metadata`, in place of their own under the same keys; where nothing else changed,
        nothing is embedded. `dry_run` only reports what would be changed.

        Where there is much to embed, all texts are written first, and questions find them by their words from then on. Then
        vectors are made, in changes of less than half a minute. `embed="later"` leaves them to the next call, or to `embed`;
        `vectors` says how many there are.

        With `limits`, files whose formats others parse (PDF, DOCX and the like) are read in a process apart, so that one that
        crashes its parser, or takes more time or memory, fails alone.

        `cancel` is asked before each document and after every few texts that are embedded or written, from any thread. Once it
        says True, `Cancelled` is raised: what was written stays, and the same call does the rest.

        With `workers`, so many processes beside this one read and split documents, make the rows of views and, with the embedder
        that ships, vectors; this process writes. None: as many as there are cores, where there is enough to do. The rows are
        the same. A worker that dies is named in the log, and what it had is done here.

        With `ray`, workers are on a Ray cluster: "local" starts one on this machine, "auto" is the one that this machine is a
        node of, "HOST:PORT" names its head. They are so many `workers` where these are more than one, and else as many as there
        is room for. Each has a processor and `gpus_per_worker` GPUs, and also embeds with a model of sentence-transformers, or
        writes with a causal model. Files that a node does not have are read here. What a worker had when it died is done again.

        Raises UsageError for patterns and metadata that cannot be, and where no cluster answers, MissingExtra without Ray,
        IndexBusy where another process writes for longer than the `lock_wait` of `open`, StoreError where it changed the views
        meanwhile, ModelError where the embedder or a model that writes summaries fails, and what `embedder` raises.
        """
        from mergewise.index import pipeline
        from mergewise.index.plan import lost_files, plan
        from mergewise.index.work import IndexingProgress
        from mergewise.inputs import inputs_of
        from mergewise.readers.sandbox import reader_within

        search, described = self._folder_search(include, exclude), self._storable(metadata)
        when = cast(When, choice("embed is", embed, get_args(When)))
        executors = self._executors(workers, ray, gpus_per_worker)
        with reader_within(limits) as reader:
            inputs = inputs_of(
                sources, self._root, search, reader, described, ocr_pages=limits.ocr_pages if limits else 0
            )
            work = IndexingProgress(progress, cancel)
            report = (
                plan(inputs, self.store.reader()).report()
                if dry_run
                else pipeline.add(inputs, self.store, VIEWS, self._builders(when), work, when, executors)
            )
        gone = lost_files(search.folders, inputs, self.store.reader(), self._root) if search.folders else ()
        return replace(_with_search(report, search), gone=gone)

    def sync(
        self,
        *folders: str | os.PathLike[str],
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        metadata: Metadata | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        limits: Limits | None = None,
        embed: When = "now",
        cancel: Callable[[], bool] | None = None,
        workers: int | None = 1,
        ray: str | None = None,
        gpus_per_worker: float = 0.0,
    ) -> AddReport:
        """Make the index hold what these folders hold now: `add`, and documents whose files are gone from there leave.

        Documents from elsewhere, and those that you made yourself, stay. A file that is found under another path keeps its
        rows. A file that cannot be read now stays as it was indexed, and is named in the report. What leaves, leaves in one
        step with the last batch that comes; after a kill, the same call does the rest. `dry_run` only reports. All else is as in
        `add`. A document whose file the patterns leave out leaves the index too.

        Raises UsageError where a folder does not exist, or holds no file at all while the index has documents from it, and
        what `add` raises.
        """
        from mergewise.index import pipeline
        from mergewise.index.plan import plan_sync
        from mergewise.index.work import IndexingProgress
        from mergewise.inputs import inputs_of
        from mergewise.readers.sandbox import reader_within

        paths = [Path(os.path.normpath(folder)) for folder in folders]
        when = cast(When, choice("embed is", embed, get_args(When)))
        search, described = self._folder_search(include, exclude), self._storable(metadata)
        executors = self._executors(workers, ray, gpus_per_worker)
        with reader_within(limits) as reader:
            inputs = inputs_of(
                paths, self._root, search, reader, described, ocr_pages=limits.ocr_pages if limits else 0
            )
            work = IndexingProgress(progress, cancel)
            planned = plan_sync(paths, inputs, self.store.reader(), self._root, work.look_at, search.choice)
            report = (
                planned.report()
                if dry_run
                else pipeline.carry_out(planned, self.store, VIEWS, self._builders(when), work, when, executors)
            )
        return _with_search(report, search)

    def embed(
        self,
        *,
        progress: Progress | None = None,
        seconds: float | None = None,
        cancel: Callable[[], bool] | None = None,
        workers: int | None = 1,
        ray: str | None = None,
        gpus_per_worker: float = 0.0,
    ) -> VectorCount:
        """Go on with the vectors that `add` left for later, or was killed before. How far they are then.

        After so many `seconds` no further change is begun, but one is always made: so a server may go on bit by bit.
        `cancel`, `workers` and `ray` are those of `add`; a call that is to end after some `seconds` has none beside it. Raises
        what `add` raises.
        """
        from mergewise.index import pipeline
        from mergewise.index.work import IndexingProgress

        longest = inf if seconds is None else number("the seconds are", seconds, float, Range(0, inf))
        if not self.store.finish_vectors() or any(map(self.store.missing, self.store.reader().views)):
            work = IndexingProgress(progress, cancel)
            executors = self._executors(workers, ray, gpus_per_worker)
            pipeline.go_on(self.store, VIEWS, self._builders(), work, longest, executors)
        return self.vectors()

    @staticmethod
    def _executors(workers: int | None, ray: str | None, gpus_per_worker: float) -> Executors:
        from mergewise.index.cluster import executors_of

        count = None if workers is None else whole("the workers are", workers, WORKERS)
        gpus = number("the GPUs of a worker are", gpus_per_worker, float, GPUS)
        return executors_of(count, text_or_none("the cluster is", ray), gpus)

    def vectors(self) -> VectorCount:
        """How many leaves have their vectors, and how many wait for theirs."""
        reader = self.store.reader()
        leaves, waiting = reader.row_counts()[next(iter(VIEWS))], len(reader.unembedded())
        return VectorCount(leaves, leaves - waiting if reader.manifest.dimension else 0, waiting)

    def _folder_search(self, include: Iterable[str], exclude: Iterable[str]) -> FolderSearch:
        from mergewise.readers import FolderSearch
        from mergewise.readers.patterns import FileChoice

        return FolderSearch(FileChoice.of(include, exclude), (self.store.directory,))

    def _storable(self, metadata: Metadata | None) -> Metadata:
        """Metadata for the documents of a call, as the index holds them. Raises UsageError where it cannot."""
        from mergewise.store.documents import storable_metadata

        if not metadata:
            return {}
        hint = "metadata are a dictionary of texts, numbers, true and false"
        if not isinstance(metadata, Mapping):
            raise UsageError(f"the metadata are {short_repr(metadata)}, not a dictionary", hint)
        try:
            return storable_metadata(dict(metadata), self.store.reader().metadata_kinds())
        except ValueError as error:
            raise UsageError(str(error), hint) from None

    def remove(self, doc_ids: Iterable[str] | None = None, *, where: Where | None = None) -> int:
        """Remove documents with all their rows, in one step; how many there were.

        They are those of these ids, those that meet the condition `where`, written as for questions, or, where both are given,
        those of the ids that meet it. Raises UsageError for a condition that cannot be, or where neither is given, and IndexBusy
        as `add` does.
        """
        condition = self._condition(where)
        if doc_ids is None and condition is None:
            raise UsageError("nothing is named that is to be removed", "give ids, or a condition")
        ids = None if doc_ids is None else as_list("the ids are", doc_ids, "give a list of ids")
        named = None if ids is None else list(dict.fromkeys(text("an id is", doc_id) for doc_id in ids))
        return self.store.remove(self._meeting(condition, named))

    def describe(self, doc_ids: Iterable[str], metadata: Metadata) -> int:
        """Give documents these metadata beside those that they have; how many there are of these ids. Nothing is embedded.

        Raises UsageError for metadata that cannot be, and IndexBusy as `add` does.
        """
        described = self._storable(metadata)
        ids = [text("an id is", one) for one in as_list("the ids are", doc_ids, "give a list of ids")]
        standing = list(self.store.reader().digests(ids))
        if described and standing:
            self.store.describe(dict.fromkeys(standing, described))
        return len(standing)

    def find(self, *wanted: str, where: Where | None = None) -> dict[str, list[str]]:
        """For each of what is wanted, the ids of the documents that it means; none where it means nothing.

        An id, a folder or file from which documents were read, the beginning of ids up to a slash, or a pattern of ids such
        as `docs/*.txt`, in which `*` also stands for slashes: the first of these that there is. With `where`, they are those
        that meet this condition, written as for questions. Raises UsageError for a condition that cannot be.
        """
        from mergewise.inputs import matching

        reader = self.store.reader()
        sources = {k.id: None if k.origin is None else self._root / k.origin.source for k in reader.known_documents()}
        found = {one: matching(text("what is looked for is", one), sources) for one in wanted}
        condition = self._condition(where)
        return {one: self._meeting(condition, ids) for one, ids in found.items()}

    def _condition(self, where: Where | None) -> str | None:
        return condition_text(where, self.store.reader().metadata_kinds)

    def _meeting(self, condition: str | None, ids: Sequence[str] | None) -> list[str]:
        """The ids that meet the condition: of these, or of all. Without a condition, these."""
        if condition is None:
            return list(ids or ())
        meeting = self.store.reader().ids(condition)
        among = set(meeting)
        return meeting if ids is None else [doc_id for doc_id in ids if doc_id in among]

    def files(self, doc_ids: Iterable[str]) -> dict[str, Path]:
        """The files from which these documents were read, whether they still stand or not; none for those that you made.

        Raises UsageError where the ids are no list of texts.
        """
        ids = as_list("the ids are", doc_ids, "give a list of ids")
        known = self.store.reader().known_documents(ids) if ids else []
        return {one.id: self._root / one.origin.source for one in known if one.origin is not None}

    def duplicates(self) -> list[Duplicate]:
        """The documents that say the same as one before them. Searches find the first one only."""
        return self.store.reader().duplicates()

    @property
    def _root(self) -> Path:
        """Where the index stands: files below are named from here."""
        return root_of(self.store.place, self.root)

    def add_views(self, wanted: Mapping[str, dict[str, Any] | None], progress: Progress | None = None) -> None:
        """Give the index these views, with settings as a manifest keeps them, or None: those that stand, or the default.

        Raises UsageError where the index has the view with other settings, and what `add` raises.
        """
        for name, asked in wanted.items():
            standing = self.store.settings.get(name)
            if standing is not None and asked is not None and not VIEWS[name].is_same(standing, asked):
                raise UsageError(
                    f"{self.store.place} has a {name} view with other settings", "index into another directory"
                )
            if standing is None:
                self.store.begin_view(name, VIEWS[name].new_settings(asked, self._models.prompts))
            if self.manifest.views[name].missing:
                from mergewise.index import pipeline

                pipeline.add_view(self.store, VIEWS[name], self._builders(), progress)

    def _builders(self, embed: When = "now") -> Models:
        """What views are built with: what the chat model writes is kept in the index."""
        check_plain(self.store.directory)
        chat = with_kept_answers(self.chat, self.store.directory / WRITTEN)
        return Models(count_tokens, self.embedder if embed == "now" else None, chat, prompts=self._models.prompts)

    # -- questions

    @takes(Query)
    def context(self, query: Query) -> Context:
        """Assemble the context of a question, of at most `budget` tokens.

        Args:
            question: The question, as a whole sentence.
            strategy: A name, or a name with parameters: "auto-merge(mode=never)".
            budget: Maximum tokens; the default is 640, or as many as text of this length takes in the question's language. With
                "auto", weave stops when another sentence would add little. The trace lists what was left out.
            where: A condition on the documents' `id`, `title` and metadata, such as "year > 2020 and lang = 'en'"; a filter such
                as `{"type": "eq", "key": "lang", "value": "en"}` (see the guide); or a list of these that must all be met.
            parameters: Parameters of the strategy, by name.
            rounds: Further searches ask for what the first one did not find. The chat model says what; without one, the names in
                the evidence do.
            merge_with: A strategy that merges what the first one selected, which gets more room: "mergerag-asym(widen=4)".
            history: What was said before: answers, messages, or pairs of question and answer. A question that leans on it is made
                to stand alone, by the chat model or by rules. `Context.question` is the question that was searched for.
            deadline: After so many seconds no call of a model or of the index begins, and a chat model's call is broken off.

        Raises:
            UsageError: for an empty question, an invalid option, or a view that the index lacks.
            DeadlineExceeded: if the deadline passed.
            ModelError: if a model fails for good. What `embedder` raises is raised, too.
        """
        from mergewise import asking

        with deadline_in(query.deadline):
            return asking.context(query, self.state())

    def messages(self, context: Context) -> list[Message]:
        """What the mode "r&b" asks a chat model about a context of this index: for those who call their model themselves.

        Raises CorruptIndex where the documents cannot be read.
        """
        from mergewise.generate.formats import messages_of

        return messages_of(context, self.store.reader().document, self._models.prompts)

    @takes(AnswerQuery)
    def ask(self, query: AnswerQuery) -> Answer:
        """Answer a question, with citations. Takes the arguments of `context` and three more.

        Args:
            mode: A name in `mergewise.MODES`. The default is the mode that the strategy prefers (`aed` with a causal model). Else
                it is "extractive" without a chat model: the one to three sentences that answer the question, verbatim. With a
                chat model it is "r&b": the model answers from the passages.
            max_tokens: Maximum tokens that a model writes in one call.
            show: Is called with the pieces of a model's answer as they arrive.

        With a `history`, `Answer.question` is the question as it was asked, and that of its context the one searched for.

        Raises:
            UsageError: for an unknown mode, or one whose model is missing.
            ModelError: if the chat model fails for good or answers nothing. What `context` raises is raised, too.
        """
        with deadline_in(query.deadline):
            return self._prepare(query, self.state()).answer(query.show)

    @takes(AnswerQuery)
    def prepare(self, query: AnswerQuery) -> PreparedAnswer:
        """Find the context of a question now; `answer` of the result writes the answer, now or later.

        So sources can be shown before a model writes. Takes the arguments of `ask` and raises what `ask` raises.
        """
        with deadline_in(query.deadline):
            state = self.state()
            return self._prepare(query, state).detached(state.store)

    def _prepare(self, query: AnswerQuery, state: IndexState) -> PreparedAnswer:
        from mergewise import asking

        return asking.prepare(query, state, *self._modes(query))

    def locations(self, context: Context) -> dict[Span, Location]:
        """Where the spans of a context's passages stand in their documents: pages, lines and addresses, for JSON.

        Raises CorruptIndex where the documents cannot be read.
        """
        from mergewise.generate.citations import locations

        ids = list(dict.fromkeys(span.doc_id for passage in context.passages for span in passage.spans))
        return locations(context, self.store.reader().texts(ids).get)

    def ask_many(
        self, /, questions: Iterable[str], *, concurrency: int = AT_ONCE, **options: Any
    ) -> list[Answer | Exception]:
        """Answer many questions, in their order, `concurrency` of them at the same time. Takes the options of `ask`.

        If a question fails, its error stands in the place of its answer, and the others go on. All questions are embedded in one
        call.

        Raises:
            UsageError: for an invalid `concurrency` or option.
        """
        from mergewise import asking
        from mergewise.designs import MODES

        asked = as_list("the questions are", questions, "give a list of questions, or use ask")
        query = AnswerQuery("", **options)
        (chosen, preferred), state = self._modes(query), self._state_for(asked)

        def prepare(question: str) -> Request:
            return asking.prepare_request(replace(query, question=question), state, chosen)

        def answer(question: str) -> Answer:
            return asking.prepare(replace(query, question=question), state, chosen).answer(query.show)

        with deadline_in(query.deadline):
            if MODES[chosen].answer_all is None:
                answers = each(answer, asked, concurrency)
            else:
                answers = asking.answer_together(each(prepare, asked, concurrency), chosen)
        return [one if isinstance(one, Exception) else one.instead_of_mode(preferred) for one in answers]

    acontext = as_async(context)
    aask = as_async(ask)
    aprepare = as_async(prepare)
    aask_many = as_async(ask_many)
    ask_stream = as_stream(ask, AnswerStream)
    aask_stream = as_stream(ask, AsyncAnswerStream)

    def _state_for(self, questions: Sequence[str]) -> IndexState:
        """The state with an embedder that has embedded these questions already, where that is possible in one call."""
        state = self.state()
        embedder = state.models.embedder
        if embedder is None:
            return state
        try:
            asked = [question for question in questions if isinstance(question, str) and question.strip()]
            return replace(state, models=replace(state.models, embedder=QuestionVectors(embedder, asked)))
        except MergewiseError:
            # one of them may be to blame: each will tell for itself
            return state

    def _modes(self, query: AnswerQuery) -> tuple[str, str]:
        """Return the mode of an answer, and the one that the strategy prefers: empty without a wish, or if a mode is named."""
        from mergewise.designs import modes, strategies

        preferred = strategies.preferred_mode(query.strategy) if query.mode is None else ""
        return modes.mode_for(query.mode, self._models, preferred), preferred

    def state(self) -> IndexState:
        """What questions are answered from now: the state of the index that stands, and the models, as `ask` takes them."""
        from mergewise.asking import IndexState

        return IndexState(self.store.reader(), self.search_settings, self.models, self.ceilings)

    # -- care

    def check(self, *, repair: bool = False) -> list[Problem]:
        """Every broken invariant of the index. With `repair`, what can be mended is: the problems that remain are returned.

        Raises IndexBusy where it is to repair while another process writes for too long, UsageError where rows are to be made
        again that a chat model wrote, and it is not named, or by other prompts; and what `embedder` raises.
        """
        from mergewise.index import pipeline

        try:
            problems = self.store.check()
        except CorruptIndex as error:
            return [Problem(str(error))]
        if not repair:
            return problems
        altered = {problem.doc_id for problem in problems if problem.kind == "altered"}
        broken = [p.doc_id for p in problems if p.doc_id is not None and p.doc_id not in altered]
        if broken or self.store.reader().damage():
            # before any row is dropped
            pipeline.check_writers(self.store, VIEWS, self._builders())
        try:
            lost = self.store.repair()
            damaged = dict.fromkeys([*lost, *broken])
            pipeline.rebuild(
                self.store, VIEWS, self._builders(), [doc_id for doc_id in damaged if doc_id not in altered]
            )
            self.add_views(dict.fromkeys(self.manifest.views))
        except CorruptIndex as error:
            return [Problem(str(error))]
        return self.store.check()
