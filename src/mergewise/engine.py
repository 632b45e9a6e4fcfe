"""The whole pipeline, read top to bottom: open an index, add documents, assemble a context, answer."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mergewise.defaults import AUTO_BUDGET, AUTO_STOP, BUDGET, CHAT, EMBEDDER, MAX_TOKENS, RERANKER, SCORER, STRATEGY
from mergewise.errors import CorruptIndex, EmbedderMismatch, UsageError
from mergewise.index import VIEWS
from mergewise.models import load_chat, load_embedder, load_reranker, load_scorer
from mergewise.models.cache import CachedChat
from mergewise.models.scores import RememberingReranker
from mergewise.models.tokens import count_tokens
from mergewise.protocols import ChatModel, Embedder, NLLScorer, Reranker, StoreReader, TokenCounter
from mergewise.retrieve.hybrid import HybridReader, SearchSettings
from mergewise.store.lance import LanceStore
from mergewise.store.manifest import Manifest, ViewState, read_manifest
from mergewise.store.views import Makers, Progress, views_of
from mergewise.types import AddReport, Answer, Context, Document, DocumentInfo, Problem

if TYPE_CHECKING:
    from mergewise import generate
    from mergewise.inputs import Source

# What adds and what asks is imported where it is used: either half takes longer to import than to open an index.

DEFAULT_VIEWS = ("leaf",)
_WRITTEN = ".summaries"  # in the index's directory: what a chat model wrote for a view

Budget: TypeAlias = int | Literal["auto"]
"""Most tokens that a context may hold; "auto" lets weave decide."""


def open(
    path: str | os.PathLike[str],
    *,
    views: Sequence[str] = DEFAULT_VIEWS,
    settings: Mapping[str, Any] | None = None,
    embedder: str | None = None,
    chat: str | ChatModel = CHAT,
    reranker: str | Reranker = RERANKER,
    scorer: str | NLLScorer = SCORER,
    progress: Progress | None = None,
    cache: str | os.PathLike[str] | None = None,
    tokens: TokenCounter = count_tokens,
    search_settings: SearchSettings = SearchSettings(),
    create: bool = True,
    search: SearchSettings | None = None,
    slices: object = None,
) -> Index:
    """The index in the directory `path`, created if absent.

    `embedder` is "minilm" (a new index's default), "none", "st:NAME_OR_PATH" or "openai:MODEL"; an index remembers
    its own and refuses another (`EmbedderMismatch`). `chat`, `reranker` and `scorer` are the models that answer, order
    and compare: specs (see the guide), or objects of the protocols. In the directory `cache` the chat model's answers
    are kept, so that no call is paid for twice. `tokens` counts tokens for budgets, exactly; give the tokenizer of your
    chat model. With `create=False` a missing index is a `UsageError`.

    `views` are built and kept: "leaf" always, "slice" for `macrag` and `longrag`. `settings` are those of views, by name:
    `{"slice": SliceSettings(chunk=300)}`; they are fixed once an index has the view. An index that has documents but not yet
    the view gets it now, in batches, with `progress`; after a kill the next call goes on.

    `search` and `slices` are older names of `search_settings` and `settings["slice"]`.
    """
    if search is not None:
        search_settings = search
        _warn_of("search", "search_settings")
    if slices is not None:
        settings = {**(settings or {}), "slice": slices}
        _warn_of("slices", "settings={'slice': ...}")
    wanted = _wanted_views(views, settings or {})
    directory = _directory(path)
    store = LanceStore(directory, VIEWS)
    if read_manifest(directory) is None:
        if not create:
            raise UsageError(f"there is no index at {directory}", "make one with `mergewise index PATH...`")
        store = LanceStore.create(directory, _new_manifest(embedder or EMBEDDER, wanted), VIEWS)
    _check_embedder(store, embedder)
    index = Index(
        store=store,
        tokens=tokens,
        search_settings=search_settings,
        chat=_cached(load_chat(chat) if isinstance(chat, str) else chat, cache),
        reranker=load_reranker(reranker) if isinstance(reranker, str) else reranker,
        scorer=load_scorer(scorer) if isinstance(scorer, str) else scorer,
    )
    index.add_views(wanted, progress)
    return index


def _directory(path: str | os.PathLike[str]) -> Path:
    if "://" in os.fspath(path):
        raise UsageError(f"{os.fspath(path)} is not a directory", "an index lives in a directory of this machine")
    return Path(path)


def _wanted_views(names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
    """The views that are asked for, with the settings that are asked for, if any, as a manifest keeps them."""
    wanted = views_of(VIEWS, [*DEFAULT_VIEWS, *names, *settings])
    for view in wanted:
        if not isinstance(settings.get(view.name, view.settings()), view.settings):
            raise UsageError(
                f"the settings of the view {view.name!r} are {view.settings.__name__}", "see docs/guide.md"
            )
    return {view.name: view.dump(settings[view.name]) if view.name in settings else None for view in wanted}


def _new_manifest(spec: str, wanted: Mapping[str, dict[str, Any] | None]) -> Manifest:
    model = load_embedder(spec)
    views = {name: ViewState(VIEWS[name].dump() if asked is None else asked) for name, asked in wanted.items()}
    return Manifest(embedder=spec, dimension=0 if model is None else model.dimension, views=views)


def _check_embedder(store: LanceStore, embedder: str | None) -> None:
    built_with = store.manifest.embedder
    if embedder is not None and embedder != built_with:
        raise EmbedderMismatch(
            f"{store.directory} was built with the embedder {built_with!r}, not {embedder!r}",
            f"use --embedder {built_with}, or index into another directory",
        )


def _cached(chat: ChatModel | None, directory: str | os.PathLike[str] | None) -> ChatModel | None:
    return chat if chat is None or directory is None else CachedChat(chat, directory)


def _warn_of(old: str, new: str) -> None:
    warnings.warn(f"{old} is called {new} now; the old name goes with the next version", DeprecationWarning, 3)


@dataclass
class Index:
    """Documents, searchable. Made by `mergewise.open`; safe to use from several threads."""

    store: LanceStore
    tokens: TokenCounter
    search_settings: SearchSettings
    chat: ChatModel | None = None
    reranker: Reranker | None = None
    scorer: NLLScorer | None = None
    _embedder: Embedder | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.store.reader().numbers())

    @property
    def search(self) -> SearchSettings:
        """The older name of `search_settings`."""
        _warn_of("Index.search", "search_settings")
        return self.search_settings

    @property
    def manifest(self) -> Manifest:
        """The state of the index: its embedder, its views, its tables."""
        return self.store.manifest

    @property
    def embedder(self) -> Embedder | None:
        """Loaded when it is first needed; None for an index of text alone."""
        if self._embedder is None and self.manifest.dimension:
            self._embedder = load_embedder(self.manifest.embedder)
        return self._embedder

    # -- documents

    def documents(self) -> list[DocumentInfo]:
        """All documents, without their texts, in the order in which they were added."""
        return self.store.reader().documents()

    def document(self, doc_id: str) -> Document:
        """One document with its text, outline and pages; `UsageError` where there is none of this id."""
        document = self.store.reader().document(doc_id)
        if document is None:
            raise UsageError(f"no document has the id {doc_id!r}", "`mergewise info --documents` lists them")
        return document

    def add(self, *sources: Source | Iterable[Source], progress: Progress | None = None) -> AddReport:
        """Index files, folders and `Document`s. Unchanged content is skipped, changed content replaces the old.

        A file that cannot be read is named in the report with its reason, and the others go on. Documents are
        written in batches, each of them atomically: after a kill, the same call does the rest.
        """
        from mergewise.index import pipeline
        from mergewise.inputs import inputs_of

        return pipeline.add(inputs_of(sources), self.store, VIEWS, self._makers(), progress)

    def remove(self, doc_ids: Iterable[str]) -> int:
        """Remove documents with all their rows, in one step; how many of the ids there were."""
        return self.store.remove(list(dict.fromkeys(doc_ids)))

    def add_views(self, wanted: Mapping[str, dict[str, Any] | None], progress: Progress | None = None) -> None:
        """Give the index these views, with settings as a manifest keeps them, or None: those that stand, or the default."""
        for name, asked in wanted.items():
            standing = self.store.settings.get(name)
            if standing is not None and asked is not None and standing != asked:
                raise UsageError(
                    f"{self.store.directory} has a {name} view with other settings", "index into another directory"
                )
            if standing is None:
                self.store.begin_view(name, VIEWS[name].dump() if asked is None else asked)
            if name not in self.manifest.whole:
                from mergewise.index import pipeline

                pipeline.add_view(self.store, VIEWS[name], self._makers(), progress)

    def _makers(self) -> Makers:
        return Makers(count_tokens, self.embedder, _cached(self.chat, self.store.directory / _WRITTEN))

    # -- questions

    def context(
        self,
        question: str,
        *,
        strategy: str = STRATEGY,
        budget: Budget = BUDGET,
        where: str | None = None,
        parameters: Mapping[str, object] | None = None,
        rounds: int = 1,
        then: str | None = None,
        hops: int | None = None,
    ) -> Context:
        """The context that `strategy` assembles for the question, of at most `budget` tokens.

        With the budget "auto", weave stops where a further token gains little, and the trace says what was left out.
        `strategy` is a name, or a name with parameters: "auto-merge(mode=never)". `where` is an SQL condition on the
        documents' `id`, `title` and metadata, such as "year > 2020 and lang = 'en'". With `rounds`, further searches ask
        for what the first one did not find: the chat model says what, or without one the names in the evidence do.
        `then` names a strategy that merges what the first one selected, which gets more room: "mergerag-asym(widen=4)".
        """
        from mergewise.rounds import rounds_or_hops

        rounds = rounds_or_hops(rounds, hops)
        return self._context(self.store.reader(), question, strategy, budget, where, parameters, rounds, then)

    def ask(
        self,
        question: str,
        *,
        strategy: str = STRATEGY,
        budget: Budget = BUDGET,
        where: str | None = None,
        parameters: Mapping[str, object] | None = None,
        mode: str | None = None,
        rounds: int = 1,
        then: str | None = None,
        max_tokens: int = MAX_TOKENS,
        show: generate.Show | None = None,
        hops: int | None = None,
    ) -> Answer:
        """The answer, with citations.

        `mode` is a name in `mergewise.generate.MODES`. The default without a chat model is "extractive": the one to three
        sentences that answer the question, verbatim. With one it is "r&b": the model answers from the passages, `show` gets
        the pieces of its answer as they arrive, and it may write `max_tokens` in one call.
        """
        from mergewise import generate
        from mergewise.rounds import rounds_or_hops

        mode, rounds = generate.mode_for(mode, self.chat), rounds_or_hops(rounds, hops)
        stored = self.store.reader()
        if not generate.MODES[mode].reads_context:
            _check_question(question, budget, rounds)
            context = Context(question, strategy, AUTO_BUDGET if budget == "auto" else budget, "", 0, ())
        else:
            context = self._context(stored, question, strategy, budget, where, parameters, rounds, then)
        request = generate.Request(
            context, stored.document, self.tokens, self.embedder, self.chat, max_tokens=max_tokens, show=show
        )
        return generate.answer(mode, request)

    def _context(
        self,
        stored: StoreReader,
        question: str,
        strategy: str,
        budget: Budget,
        where: str | None,
        parameters: Mapping[str, object] | None,
        rounds: int,
        then: str | None,
    ) -> Context:
        from mergewise import assemble as strategies
        from mergewise.rounds import in_rounds

        _check_question(question, budget, rounds)
        reranker = None if self.reranker is None else RememberingReranker(self.reranker)
        reader = HybridReader(stored, self.embedder, where, self.search_settings, reranker)
        models = strategies.Models(self.tokens, self.chat, reranker, self.scorer, self.tokens is count_tokens)
        if budget == "auto":
            budget, parameters = AUTO_BUDGET, strategies.stopping(strategy, AUTO_STOP, parameters)
        room = budget if then is None else strategies.room_for(then, budget)

        def assemble(question: str) -> Context:
            return strategies.assemble(strategy, question, reader, room, models, parameters)

        context = in_rounds(question, rounds, assemble, models, stored.document)
        return context if then is None else strategies.merge_context(then, context, budget, models)

    # -- care

    def check(self, *, repair: bool = False) -> list[Problem]:
        """Every broken invariant of the index. With `repair`, what can be mended is: the problems that remain are returned."""
        from mergewise.index import pipeline

        try:
            problems = self.store.check()
        except CorruptIndex as error:
            return [Problem(str(error))]
        if not repair:
            return problems
        self.store.repair()
        damaged = dict.fromkeys(problem.doc_id for problem in problems if problem.doc_id is not None)
        pipeline.rebuild(self.store, VIEWS, self._makers(), list(damaged))
        return self.store.check()


def _check_question(question: str, budget: Budget, rounds: int) -> None:
    if not question.strip():
        raise UsageError("the question is empty", "ask something")
    if budget != "auto" and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
        raise UsageError(f"the budget is {budget!r}", "give a number of tokens, 1 or more, or auto")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise UsageError(f"the number of rounds is {rounds!r}", "give 1 or more")
