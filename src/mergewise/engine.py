"""The whole pipeline, read top to bottom: open an index, add documents, assemble a context, answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from mergewise import assemble as strategies
from mergewise import generate
from mergewise.defaults import AUTO_BUDGET, AUTO_STOP, BUDGET, CHAT, EMBEDDER, MAX_TOKENS, RERANKER, SCORER, STRATEGY
from mergewise.errors import CorruptIndex, EmbedderMismatch, ReadError, UsageError
from mergewise.index.names import names_of
from mergewise.index.slices import SliceSettings, build_slices, embed_slices
from mergewise.index.tree import TreeSettings, build_trees
from mergewise.index.vectors import embed_trees
from mergewise.inputs import Source, inputs_of
from mergewise.models import load_chat, load_embedder, load_reranker, load_scorer
from mergewise.models.scores import RememberingReranker
from mergewise.models.tokens import count_tokens
from mergewise.protocols import ChatModel, Embedder, NLLScorer, Reranker, Store, StoreReader, TokenCounter
from mergewise.retrieve.hybrid import HybridReader, SearchSettings
from mergewise.rounds import in_rounds, rounds_or_hops
from mergewise.store.manifest import Manifest, read_manifest
from mergewise.types import (
    AddReport,
    Answer,
    Context,
    Document,
    DocumentInfo,
    DocumentRows,
    Failure,
    Problem,
    SliceRows,
)

VIEWS = ("leaf", "slice")
DEFAULT_VIEWS = ("leaf",)
_SUMMARIES = ".summaries"  # in the index's directory: what a chat model wrote

Budget: TypeAlias = int | Literal["auto"]
"""Most tokens that a context may hold; "auto" lets weave decide."""
Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with documents done, documents in all, and the name of the last one."""

# One change of the index: what a kill can cost, and what memory holds at once.
_BATCH_CHARACTERS = 1_000_000
_BATCH_DOCUMENTS = 512
_NAMES_AT_ONCE = 1000
_DOCUMENTS_SLICED = 64


def open(
    path: str | os.PathLike[str],
    *,
    views: Sequence[str] = DEFAULT_VIEWS,
    slices: SliceSettings | None = None,
    embedder: str | None = None,
    chat: str | ChatModel = CHAT,
    reranker: str | Reranker = RERANKER,
    scorer: str | NLLScorer = SCORER,
    progress: Progress | None = None,
    cache: str | os.PathLike[str] | None = None,
    tokens: TokenCounter = count_tokens,
    search: SearchSettings = SearchSettings(),
    create: bool = True,
) -> Index:
    """The index in the directory `path`, created if absent.

    `embedder` is "minilm" (a new index's default), "none", "st:NAME_OR_PATH" or "openai:MODEL"; an index remembers
    its own and refuses another (`EmbedderMismatch`). `chat`, `reranker` and `scorer` are the models that answer, order
    and compare: specs (see the guide), or objects of the protocols. In the directory `cache` the chat model's answers
    are kept, so that no call is paid for twice. `tokens` counts tokens for budgets, exactly; give
    the tokenizer of your chat model. With `create=False` a missing index is a `UsageError`.

    `views` are built and kept: "leaf" always, "slice" for `macrag` and `longrag`, with the settings `slices`. An index
    that has documents but not yet the view gets it now, in batches, with `progress`; after a kill the next call goes on.
    """
    from mergewise.store.lance import LanceStore

    directory = Path(path)
    if "://" in os.fspath(path):
        raise UsageError(f"{os.fspath(path)} is not a directory", "an index lives in a directory of this machine")
    _check_views(views)
    manifest = read_manifest(directory)
    wanted = (slices or SliceSettings()).as_dict() if slices is not None or "slice" in views else None
    if manifest is None:
        if not create:
            raise UsageError(f"there is no index at {directory}", "make one with `mergewise index PATH...`")
        views = [*views, *(["slice"] if wanted and "slice" not in views else [])]
        manifest = _new_manifest(views, embedder or EMBEDDER, wanted)
        store = LanceStore.create(directory, manifest)
        manifest = store.manifest
    else:
        store = LanceStore(directory, manifest)
    if embedder is not None and embedder != manifest.embedder:
        raise EmbedderMismatch(
            f"{directory} was built with the embedder {manifest.embedder!r}, not {embedder!r}",
            f"use --embedder {manifest.embedder}, or index into another directory",
        )
    if slices is not None and manifest.slices is not None and manifest.slices != wanted:
        raise UsageError(f"{directory} has a slice view with other settings", "index into another directory")
    index = Index(
        store=store,
        manifest=manifest,
        tokens=tokens,
        search=search,
        chat=_cached(load_chat(chat) if isinstance(chat, str) else chat, cache),
        reranker=load_reranker(reranker) if isinstance(reranker, str) else reranker,
        scorer=load_scorer(scorer) if isinstance(scorer, str) else scorer,
        directory=directory,
    )
    if wanted is not None and "slice" not in manifest.views:
        index.build_slices(wanted if manifest.slices is None else manifest.slices, progress)
    return index


def _cached(chat: ChatModel | None, directory: str | os.PathLike[str] | None) -> ChatModel | None:
    if chat is None or directory is None:
        return chat
    from mergewise.models.cache import CachedChat

    return CachedChat(chat, directory)


def _check_views(views: Sequence[str]) -> None:
    for view in views:
        if view not in VIEWS:
            raise UsageError(f"unknown view {view!r}", f"one of: {', '.join(VIEWS)}")


def _new_manifest(views: Sequence[str], spec: str, slices: dict[str, object] | None) -> Manifest:
    model = load_embedder(spec)
    dimension = 0 if model is None else model.dimension
    return Manifest(embedder=spec, dimension=dimension, views=tuple(views), sizes=asdict(TreeSettings()), slices=slices)


@dataclass
class Index:
    """Documents, searchable. Made by `mergewise.open`; safe to use from several threads."""

    store: Store
    manifest: Manifest
    tokens: TokenCounter
    search: SearchSettings
    chat: ChatModel | None = None
    reranker: Reranker | None = None
    scorer: NLLScorer | None = None
    directory: Path | None = None
    _embedder: Embedder | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.store.reader().row_counts()["documents"]

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
        found = self.store.reader().document(doc_id)
        if found is None:
            raise UsageError(f"no document has the id {doc_id!r}", "`mergewise info --documents` lists them")
        return found

    def add(self, *sources: Source | Iterable[Source], progress: Progress | None = None) -> AddReport:
        """Index files, folders and `Document`s. Unchanged content is skipped, changed content replaces the old.

        A file that cannot be read is named in the report with its reason, and the others go on. Documents are
        written in batches, each of them atomically: after a kill, the same call does the rest.
        """
        inputs = inputs_of(sources)
        standing = self._digests([given.name for given in inputs])
        report = AddReport()
        batch: list[tuple[Document, str]] = []
        for done, given in enumerate(inputs, 1):
            digest = given.digest()
            if standing.get(given.name) == digest:
                report += AddReport(unchanged=1)
            else:
                try:
                    batch.append((given.document(), digest))
                except ReadError as error:
                    report += AddReport(failed=(Failure(given.name, error.message),))
            if _is_full(batch):
                report += self.store.write(self._rows(batch))
                batch = []
            if progress is not None:
                progress(done, len(inputs), given.name)
        if batch:
            report += self.store.write(self._rows(batch))
        if report.added or report.replaced:
            self.store.optimize()
        return report

    def remove(self, doc_ids: Iterable[str]) -> int:
        """Remove documents with all their rows, in one step; how many of the ids there were."""
        return self.store.remove(list(dict.fromkeys(doc_ids)))

    def _digests(self, names: Sequence[str]) -> dict[str, str]:
        """What the index holds of these documents, asked in large batches."""
        reader = self.store.reader()
        found: dict[str, str] = {}
        for first in range(0, len(names), _NAMES_AT_ONCE):
            found |= reader.digests(names[first : first + _NAMES_AT_ONCE])
        return found

    def _rows(self, batch: Sequence[tuple[Document, str]]) -> list[DocumentRows]:
        trees = build_trees([document for document, _ in batch], count_tokens, TreeSettings(**self.manifest.sizes))
        embedded = [(None, None)] * len(trees) if self.embedder is None else embed_trees(self.embedder, trees)
        rows = [
            DocumentRows(
                document=document,
                digest=digest,
                leaves=tree.leaves,
                sections=tree.sections,
                sentences=tree.sentences,
                names=names_of(document, tree),
                vectors=vectors,
                sentence_vectors=sentence_vectors,
            )
            for (document, digest), tree, (vectors, sentence_vectors) in zip(batch, trees, embedded, strict=True)
        ]
        if self.manifest.slices is None:
            return rows
        return [replace(row, slices=own) for row, own in zip(rows, self._sliced(rows), strict=True)]

    # -- the slice view

    def build_slices(self, settings: Mapping[str, object], progress: Progress | None = None) -> None:
        """Give every document that stands its slice view, in batches, each of them atomically."""
        from mergewise.store.lance import LanceStore

        assert isinstance(self.store, LanceStore)  # an index in memory has no views to add
        self.store.begin_slices(settings)
        self.manifest = self.store.manifest
        done = 0
        while True:
            missing = self.store.missing_slices()
            for first in range(0, len(missing), _DOCUMENTS_SLICED):
                rows = self.store.reader().stored(missing[first : first + _DOCUMENTS_SLICED])
                sliced = [(x.document.id, x.digest, own) for x, own in zip(rows, self._sliced(rows), strict=True)]
                self.store.write_slices(sliced)
                done += len(rows)
                if progress is not None and rows:
                    progress(done, max(done, len(missing)), rows[-1].document.id)
            if self.store.finish_slices():
                break
        self.manifest = self.store.manifest

    def _sliced(self, rows: Sequence[DocumentRows]) -> list[SliceRows]:
        """The slice view of documents whose ids may be final."""
        assert self.manifest.slices is not None
        settings = SliceSettings.from_dict(self.manifest.slices)
        built = build_slices(rows, count_tokens, settings, self._summarise if self.chat is not None else None)
        return built if self.embedder is None else embed_slices(self.embedder, built, settings)

    def _summarise(self, texts: Sequence[str]) -> list[str | None]:
        from mergewise.index.summaries import summaries
        from mergewise.models.cache import CachedChat

        assert self.chat is not None
        chat = self.chat if self.directory is None else CachedChat(self.chat, self.directory / _SUMMARIES)
        return summaries(texts, chat, count_tokens)

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
        _check_question(question, budget, rounds)
        reranker = None if self.reranker is None else RememberingReranker(self.reranker)
        reader = HybridReader(stored, self.embedder, where, self.search, reranker)
        models = strategies.Models(self.tokens, self.chat, reranker, self.scorer, self.tokens is count_tokens)
        if budget == "auto":
            budget, parameters = AUTO_BUDGET, strategies.stopping(strategy, AUTO_STOP, parameters)
        room = budget if then is None else strategies.room_for(then, budget)

        def assemble(question: str) -> Context:
            return strategies.assemble(strategy, question, reader, room, models, parameters)

        found = in_rounds(question, rounds, assemble, models, stored.document)
        return found if then is None else strategies.merge_context(then, found, budget, models)

    # -- care

    def check(self, *, repair: bool = False) -> list[Problem]:
        """Every broken invariant of the index. With `repair`, what can be mended is: the problems that remain are returned."""
        try:
            problems = self.store.check()
        except CorruptIndex as error:
            return [Problem(str(error))]
        if not repair:
            return problems
        self.store.repair()
        reader = self.store.reader()
        for doc_id in dict.fromkeys(p.doc_id for p in problems if p.doc_id is not None):
            document = reader.document(doc_id)
            if document is not None:
                self.store.write(self._rows([(document, reader.digests([doc_id])[doc_id])]), force=True)
        self.store.optimize()
        return self.store.check()


def _check_question(question: str, budget: Budget, rounds: int) -> None:
    if not question.strip():
        raise UsageError("the question is empty", "ask something")
    if budget != "auto" and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
        raise UsageError(f"the budget is {budget!r}", "give a number of tokens, 1 or more, or auto")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise UsageError(f"the number of rounds is {rounds!r}", "give 1 or more")


def _is_full(batch: Sequence[tuple[Document, str]]) -> bool:
    return len(batch) >= _BATCH_DOCUMENTS or sum(len(document.text) for document, _ in batch) >= _BATCH_CHARACTERS
