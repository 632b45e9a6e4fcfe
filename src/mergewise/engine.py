"""The class `Index`: documents are added, contexts assembled, questions answered."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from mergewise.async_api import AnswerStream, AsyncAnswerStream, as_async, as_stream, each
from mergewise.concurrency import deadline_in
from mergewise.defaults import When
from mergewise.designs import VIEWS
from mergewise.errors import CorruptIndex, MergewiseError, StoreError, UsageError, one_of
from mergewise.files import Roots, is_address, source_path
from mergewise.indexing import EmbeddingOptions, IndexingOptions
from mergewise.log import log
from mergewise.models import causal_of, knows_embedder, load_chat, load_embedder, release
from mergewise.models.cache import streaming, with_kept_answers
from mergewise.models.embedders import QuestionVectors, check_named, given_embedder, remember_embedder
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import CausalModel, ChatModel, Embedder, NLLScorer, Reranker, TokenCounter
from mergewise.query import AnswerQuery, Query, takes, takes_options
from mergewise.ranges import DOCUMENTS, Ceilings, Range, as_list, number, short_repr, text, text_or_none, whole
from mergewise.retrieve.hybrid import SearchSettings
from mergewise.store.filters import condition_text
from mergewise.store.lance import ClosedStore, LanceStore
from mergewise.store.manifest import MOST_SHARDS, Manifest, check_plain
from mergewise.store.places import place_of, root_of
from mergewise.store.shards.store import ShardedStore
from mergewise.store.views import Progress, views_of
from mergewise.text.spans import spans_of
from mergewise.tracing import span
from mergewise.types import (
    AddReport,
    Answer,
    AnyPath,
    Context,
    Document,
    DocumentInfo,
    Duplicate,
    Known,
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
    from mergewise.inputs import Source

# Indexing and asking are imported at their first use: each takes longer to import than an index takes to open.

AT_ONCE = 8  # questions of `ask_many`
WRITTEN = ".summaries"
"""Folder of an index with the replies of a chat model for its views."""


@dataclass
class Index:
    """A searchable collection of documents, opened by `mergewise.open`. A context manager, safe to use from several threads.

    Each method but `close` raises UsageError once the index is closed, and CorruptIndex if its files do not fit together.
    """

    store: LanceStore | ShardedStore
    search_settings: SearchSettings
    # the embedder is None until it is needed
    _models: Models
    _loaded: tuple[object, ...] = ()
    ceilings: Ceilings | None = None
    root: os.PathLike[str] | Mapping[str, Path] | None = None

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
        """Release files, loaded models and connections. Running questions finish. Models that you passed as objects stay open.

        A second call does nothing. Raises nothing.
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
        """Return an index that shares this one's files and models, but asks another chat model. Close only this one.

        Raises:
            UsageError: for an invalid chat model. Errors of `open` are raised, too.
        """
        own = load_chat(chat) if isinstance(chat, str) else streaming(chat)
        causal = causal_of(own) or self._models.causal
        return replace(self, _models=replace(self._models, chat=own, causal=causal), _loaded=())

    def __len__(self) -> int:
        return len(self.store.reader().numbers())

    @property
    def manifest(self) -> Manifest:
        """State of the index: its embedder, views and tables."""
        return self.store.manifest

    @property
    def snapshot(self) -> str:
        """Short hash of the state of the index. It changes with every change of the index."""
        return self.manifest.snapshot

    @property
    def embedder(self) -> Embedder | None:
        """Embedder of the index, loaded at its first use. None for an index without vectors.

        Raises:
            UsageError: if the embedder was an object and must be passed again, or if you never named it for this index.
            MissingExtra: if it needs a package that is not installed.
            ModelError: if it cannot be loaded.
        """
        spec, known = self.manifest.embedder, self._models.embedder
        # another process may have changed it
        if self.manifest.dimension and (known is None or known.spec != spec):
            check_named(self.store.directory, spec)
            try:
                self._models = replace(self._models, embedder=load_embedder(spec))
            except UsageError:
                if knows_embedder(spec):
                    raise
                raise UsageError(
                    f"{self.store.directory} was built with your own embedder {spec!r}",
                    "pass it: mergewise.open(path, embedder=...)",
                ) from None
        return self._models.embedder

    @property
    def models(self) -> Models:
        """All models of the index with the loaded embedder. Raises what `embedder` raises."""
        embedder = self.embedder
        return replace(self._models, embedder=embedder)

    @property
    def tokens(self) -> TokenCounter:
        """Counter of tokens for budgets."""
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
    def causal(self) -> CausalModel | None:
        return self._models.causal

    # -- documents

    def documents(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[DocumentInfo]:
        """List documents without their texts, in the order they were added; with an argument, a page sorted by id.

        Pages are stable: a document that exists all the time is on one page.

        Args:
            prefix: Beginning of the ids.
            after: Last id of the page before. It may have been removed.
            limit: Maximum number of documents.

        Raises:
            UsageError: for an invalid argument.
        """
        text("prefix", prefix)
        text_or_none("id", after)
        at_most = None if limit is None else whole("limit", limit, DOCUMENTS)
        return self.store.reader().documents(prefix, after, at_most)

    def document(self, doc_id: str) -> Document:
        """Return a document with its text, outline and pages.

        Raises:
            UsageError: for an unknown id.
        """
        document = self.store.reader().document(text("id", doc_id))
        if document is None:
            raise UsageError(f"unknown document: {doc_id!r}", "list the ids with `mergewise info --documents`")
        return document

    @takes_options(IndexingOptions)
    def add(self, *sources: Source | Iterable[Source], options: IndexingOptions) -> AddReport:
        """Index files, folders and documents. Unchanged content is skipped, changed content replaces the old.

        Documents are written in batches, each atomically: after a kill, the same call resumes. If there is much to embed, all
        texts are written first and can be searched by their words. Vectors follow in changes of less than half a minute. The
        report names files that cannot be read, with the reason. It also names documents whose file is gone: `sync` removes them.

        Args:
            sources: Paths, addresses of Git repositories, sites and folders in buckets, `Document`s, `File`s (read under another
                name), and documents of LangChain, LlamaIndex and Haystack.
            include: Patterns of files to read from folders, such as "*.md" or "2019/**/*.md".
            exclude: Patterns of files to skip in folders, such as "drafts/" or "*.log".
            follow_links: Also follow links that lead out of a folder. A link that is a source itself is always followed.
            metadata: Metadata for all documents of the call. It replaces their own under the same keys. A change of metadata
                alone embeds nothing.
            reread: Also read unchanged files again that an older version of mergewise read. `outdated_documents` lists them.
            dry_run: Report the changes without making them.
            progress: Callback with the work done, the total work and the current document.
            limits: Limits for reading risky formats (PDF, DOCX and the like). Each such file is read in a separate process, so
                that a crash, or too much time or memory, fails that file alone.
            embed: "later" leaves vectors to the next call or to `embed`. `vectors` counts them.
            cancel: Function that is called often, from any thread. Once it returns True, `Cancelled` is raised. Finished batches
                stay, and the same call resumes.
            workers: Number of extra processes that read and split documents, make rows and, with the shipped embedder, vectors.
                This process writes. None means one per core if there is enough work. The rows are the same. If a worker dies,
                the log names it, and this process does its work.
            ray: Workers on a Ray cluster: "local" starts one on this machine, "auto" joins the cluster of this machine, and
                "HOST:PORT" names the head of another. Without `workers`, there are as many as fit. They also embed with
                sentence-transformers and write with causal models. Files that a node lacks are read here.
            gpus_per_worker: GPUs of each worker on a cluster.

        Returns:
            The numbers of added, replaced, unchanged and removed documents, and the failed files.

        Raises:
            UsageError: for invalid patterns, metadata or options, or if no cluster answers.
            MissingExtra: if Ray is not installed.
            IndexBusy: if another process writes for longer than the `lock_wait` of `open`.
            StoreError: if another process changed the views at the same time.
            ModelError: if the embedder or a model that writes rows fails. Errors of `embedder` are raised, too.
        """
        report = self._update(sources, options)
        return report if options.dry_run else replace(report, changes=())

    @takes_options(IndexingOptions)
    def sync(self, *folders: AnyPath, options: IndexingOptions) -> AddReport:
        """Bring the index in step with folders and sources: add new and changed files, and remove documents whose files are gone.

        Documents from elsewhere, and `Document`s that you made, stay. A moved file keeps its rows. A file that cannot be read
        stays as it was indexed, and the report names it. A document whose file the patterns skip, or whose file is behind a link
        out of the folder, is removed. Removals are one step with the last batch.

        Args:
            folders: Folders and addresses of sources to compare with. The other options are those of `add`.

        Raises:
            UsageError: if a folder is missing, or is empty while the index has documents from it. Errors of `add` are raised,
                too.
        """
        paths = [Path(os.path.normpath(folder)) for folder in folders if not is_address(folder)]
        return self._update([*paths, *filter(is_address, folders)], options, paths)

    def _update(
        self,
        sources: Iterable[Source | Iterable[Source]],
        options: IndexingOptions,
        folders: Sequence[Path] | None = None,
    ) -> AddReport:
        """Plan the changes for the sources, and make them unless the options ask for a dry run.

        With `folders`, documents from there whose files are gone are removed.
        """
        from mergewise.index import pipeline
        from mergewise.index.cluster import executors_of
        from mergewise.index.plan import lost_files, plan, plan_sync
        from mergewise.index.work import IndexingProgress
        from mergewise.inputs import Input, inputs_of
        from mergewise.readers import FolderSearch
        from mergewise.readers.patterns import FileChoice
        from mergewise.readers.sandbox import reader_within

        if not options.dry_run:
            self._remove_unfinished_views()
        choice_of_files = FileChoice.of(options.include, options.exclude)
        search = FolderSearch(choice_of_files, (self.store.directory,), options.follow_links)
        metadata, limits = self._storable(options.metadata), options.limits
        executors = executors_of(options.workers, options.ray, options.gpus_per_worker)
        work = IndexingProgress(options.progress, options.cancel)
        with reader_within(limits) as reader, ExitStack() as stack:

            def fetch(address: str, template: Input) -> Iterator[Input]:
                from mergewise.sources import fetch

                copies = Path(stack.enter_context(TemporaryDirectory(prefix="mergewise-sources-")))
                for given in fetch(address, search, self.store.reader(), copies, template):
                    work.look_at(given.name)
                    yield given

            pages, again = limits.ocr_pages if limits else 0, options.reread
            inputs = inputs_of(
                sources, self._root, search, reader, metadata, ocr_pages=pages, reread=again, fetch=fetch
            )
            if folders is None:
                planned = plan(inputs, self.store.reader(), work.look_at)
                lost = lost_files(search, inputs, self.store.reader(), self._root) if search.folders else ()
                planned = replace(planned, lost=(*lost, *(one.id for one in search.lost)))
            else:
                planned = plan_sync(folders, inputs, self.store.reader(), self._root, work.look_at, search)
            planned = replace(planned, failed=(*planned.failed, *search.failed))
            report = (
                planned.report()
                if options.dry_run
                else pipeline.carry_out(
                    planned, self.store, VIEWS, self._builders(options.embed), work, options.embed, executors
                )
            )
        left_out = tuple(search.left_out.most_common())
        return replace(report, left_out=left_out, excluded=search.excluded, outward=tuple(search.outward))

    @takes_options(EmbeddingOptions)
    def embed(
        self, *, embedder: str | Embedder | None = None, seconds: float | None = None, options: EmbeddingOptions
    ) -> VectorCount:
        """Make the vectors that `add` left for later or did not finish, or those of another embedder.

        Args:
            embedder: New embedder of the index. Nothing is read again. Queries use the old vectors until the new ones are
                whole, also after a kill, and the same call goes on. Then other views with vectors are made anew.
            seconds: Seconds after which no further change begins. One change is always made, so that a server can proceed bit
                by bit. Such a call has no workers. The other options are those of `add`.

        Returns:
            Number of leaves with and without vectors.

        Raises:
            UsageError: for invalid options. Errors of `add` are raised, too.
        """
        from mergewise.index import pipeline
        from mergewise.index.cluster import executors_of
        from mergewise.index.vectors import change_embedder
        from mergewise.index.work import IndexingProgress

        given = load_embedder(embedder) if isinstance(embedder, str) else embedder and given_embedder(embedder)
        if embedder is not None and given is None:
            raise UsageError(
                f"{embedder} is no embedder to change to", "index PATH... --embedder none makes a new index"
            )
        if given is not None and given.spec != self.manifest.embedder:
            work = IndexingProgress(options.progress, options.cancel)
            work.begin(self.store.reader().sizes()[1])
            (leaf, *_) = VIEWS["leaf"].tables_of(self.store.settings["leaf"])
            change_embedder(self.store, self.store.directory, leaf, given, work)
            work.finish()
            self._models = replace(self._models, embedder=given)
            if isinstance(embedder, str):
                remember_embedder(self.store.directory, embedder)
        if given is not None:
            self.add_views(dict.fromkeys(self.manifest.views), options.progress)
        longest = inf if seconds is None else number("seconds", seconds, float, Range(0, inf))
        if not self.store.finish_vectors() or any(map(self.store.missing, self.store.reader().views)):
            work = IndexingProgress(options.progress, options.cancel)
            executors = executors_of(options.workers, options.ray, options.gpus_per_worker)
            pipeline.go_on(self.store, VIEWS, self._builders(), work, longest, executors)
        return self.vectors()

    def vectors(self) -> VectorCount:
        """Count the leaves with and without vectors."""
        reader = self.store.reader()
        leaves, waiting = reader.row_counts()[next(iter(VIEWS))], len(reader.unembedded())
        return VectorCount(leaves, leaves - waiting if reader.manifest.dimension else 0, waiting)

    def _storable(self, metadata: Metadata | None) -> Metadata:
        """Return the metadata of a call as the index stores them. Raises UsageError if they are invalid."""
        from mergewise.store.documents import storable_metadata

        if not metadata:
            return {}
        hint = "expected a dictionary of texts, numbers, true and false"
        if not isinstance(metadata, Mapping):
            raise UsageError(f"invalid metadata: {short_repr(metadata)}", hint)
        try:
            return storable_metadata(dict(metadata), self.store.reader().metadata_kinds())
        except ValueError as error:
            raise UsageError(str(error), hint) from None

    def remove(self, doc_ids: Iterable[str] | None = None, *, where: Where | None = None) -> int:
        """Remove documents with all their rows, in one step.

        Args:
            doc_ids: Ids of the documents.
            where: Condition on the documents, as for questions. With ids, both must hold.

        Returns:
            Number of documents that were removed.

        Raises:
            UsageError: for an invalid condition, or without ids and condition.
            IndexBusy: if another process writes for too long.
        """
        condition = condition_text(where, self.store.reader().metadata_kinds)
        if doc_ids is None and condition is None:
            raise UsageError("nothing to remove", "give ids or a condition")
        ids = None if doc_ids is None else as_list("ids", doc_ids, "give a list of ids")
        named = None if ids is None else list(dict.fromkeys(text("id", doc_id) for doc_id in ids))
        return self.store.remove(self._meeting(condition, named))

    def describe(self, doc_ids: Iterable[str], metadata: Metadata) -> int:
        """Add metadata to documents. Other keys stay, and nothing is embedded.

        Args:
            doc_ids: Ids of the documents. Unknown ids are ignored.
            metadata: Metadata to set.

        Returns:
            Number of documents with these ids.

        Raises:
            UsageError: for invalid metadata.
            IndexBusy: if another process writes for too long.
        """
        described = self._storable(metadata)
        ids = [text("id", one) for one in as_list("ids", doc_ids, "give a list of ids")]
        standing = [known.id for known in self.store.reader().known_documents(ids)] if ids else []
        if described and standing:
            self.store.describe(dict.fromkeys(standing, described))
        return len(standing)

    def find(self, *wanted: str, where: Where | None = None) -> dict[str, list[str]]:
        """Map each pattern to the ids of the documents it matches.

        The first of these that exists is taken: an id, a file or folder that was indexed, the beginning of ids up to a slash, a
        pattern of ids such as `docs/*.txt`, in which `*` also matches slashes.

        Args:
            wanted: Patterns.
            where: Condition that the documents must meet, as for questions.

        Raises:
            UsageError: for an invalid condition.
        """
        from mergewise.inputs import matching

        reader = self.store.reader()
        named = reader.known_documents([text("pattern", one) for one in wanted])
        # all documents, unless only ids are wanted
        known = named if {k.id for k in named}.issuperset(wanted) else reader.known_documents()
        sources: dict[str, Path | None] = {**dict.fromkeys(k.id for k in known), **self._paths(known)}
        found = {one: matching(one, sources) for one in wanted}
        condition = condition_text(where, reader.metadata_kinds)
        return {one: self._meeting(condition, ids) for one, ids in found.items()}

    def _meeting(self, condition: str | None, ids: Sequence[str] | None) -> list[str]:
        """Return the ids that meet the condition, among `ids` or all. Without a condition, return `ids`."""
        if condition is None:
            return list(ids or ())
        meeting = self.store.reader().ids(condition)
        among = set(meeting)
        return meeting if ids is None else [doc_id for doc_id in ids if doc_id in among]

    def files(self, doc_ids: Iterable[str]) -> dict[str, Path]:
        """Map documents to the files they were read from. Files may be gone. Documents that you made have none.

        Raises:
            UsageError: for invalid ids.
        """
        ids = as_list("ids", doc_ids, "give a list of ids")
        return self._paths(self.store.reader().known_documents(ids) if ids else ())

    def _paths(self, known: Iterable[Known]) -> dict[str, Path]:
        """Map documents to their files on this machine."""
        files = ((one.id, one.origin.source) for one in known if one.origin is not None)
        return {doc_id: source_path(name, self._root) for doc_id, name in files if not is_address(name)}

    def outdated_documents(self) -> list[str]:
        """List documents whose files an older version of the readers read. `add` and `sync` read them again with `reread`."""
        from mergewise.store.documents import is_outdated

        return [known.id for known in self.store.reader().known_documents() if is_outdated(known)]

    def duplicates(self) -> list[Duplicate]:
        """List documents with the same text as an earlier one. Searches find the first one only."""
        return self.store.reader().duplicates()

    @property
    def _root(self) -> Roots:
        """Folders that names of files are relative to."""
        return root_of(self.store.place, self.root)

    def add_views(self, wanted: Mapping[str, dict[str, Any] | None], progress: Progress | None = None) -> None:
        """Add views to the index.

        Args:
            wanted: Settings of each view as a manifest keeps them, or None for the present or default ones.
            progress: Callback with the work done, the total work and the current document.

        Raises:
            UsageError: if the index has the view with other settings, or if its rows cannot be built. Nothing is changed then.
                Errors of `add` are raised, too.
            StoreError: if another process removes the view meanwhile.
        """
        if not isinstance(wanted, Mapping) or not all(isinstance(one, Mapping | None) for one in wanted.values()):
            raise UsageError("invalid views (expected a mapping of names to settings)", 'for example {"slice": None}')
        standing, new = self.store.settings, {}
        for view in views_of(VIEWS, list(wanted)):
            asked = wanted[view.name]
            if view.name not in standing:
                new[view.name] = view.new_settings(asked, self._models.prompts)
                view.check_needs(new[view.name], self.manifest.embedder, self._models)
            elif asked is not None and not view.is_same(standing[view.name], asked):
                raise UsageError(f"{self.store.place} has a {view.name} view with other settings", "use another index")
        for name, settings in new.items():
            self.store.begin_view(name, settings)
        begun = self.store.settings
        for name in wanted:
            if name in self.manifest.views and self.manifest.views[name].missing:
                from mergewise.index import pipeline

                try:
                    pipeline.add_view(self.store, VIEWS[name], self._builders(), progress)
                finally:
                    # nothing was built
                    is_own = name in new and self.store.settings.get(name) == begun[name]
                    if is_own and len(self.store.missing(name)) == len(self) > 0:
                        self.store.remove_view(name)
            if self.store.settings.get(name) != begun.get(name):
                raise StoreError(f"another process removed the view {name!r}", "add it again")

    def remove_views(self, names: Iterable[str]) -> None:
        """Remove views with their rows. Documents and other views stay.

        Args:
            names: Names of the views. Every index keeps "leaf".

        Raises:
            UsageError: for "leaf", or a view that the index lacks.
            IndexBusy: if another process writes for too long.
        """
        first, *removable = self.manifest.views
        for name in as_list("views", names, "give a list of names"):
            if name == first:
                raise UsageError(f"the view {name!r} cannot be removed", "other views are made from it")
            if name not in removable:
                raise UsageError(f"no such view in the index: {short_repr(name)}", one_of(name, removable or [first]))
            self.store.remove_view(name)

    def _remove_unfinished_views(self, *, begun: bool = False) -> None:
        """Remove views that were never whole and cannot be built, so that they do not stop other changes.

        Only with `begun`, remove those with some rows, because another process with a chat model may be building them.
        """
        for name, view in self.manifest.views.items():
            try:
                if view.missing and not view.offered:
                    VIEWS[name].check_needs(view.settings, self.manifest.embedder, self._models)
            except UsageError as error:
                if begun or len(self.store.missing(name)) == len(self):
                    log.warning("removing the unfinished view %r: %s", name, error)
                    self.store.remove_view(name)

    def _builders(self, embed: When = "now") -> Models:
        """Return the models that build views. Replies of the chat model are kept in the index."""
        check_plain(self.store.directory)
        chat = with_kept_answers(self.chat, self.store.directory / WRITTEN)
        return Models(count_tokens, self.embedder if embed == "now" else None, chat, prompts=self._models.prompts)

    # -- questions

    @takes(Query)
    def context(self, query: Query) -> Context:
        """Assemble the context of a question, of at most `budget` tokens.

        Args:
            question: Question, as a whole sentence.
            strategy: Name of a strategy, also with parameters: "auto-merge(mode=never)".
            budget: Maximum tokens. The default is 640, or as many as text of this length takes in the question's language. With
                "auto", weave stops when another sentence would add little, and the trace lists what was left out.
            where: Condition on `id`, `title` and metadata of documents: a text such as "year > 2020 and lang = 'en'", a filter
                such as `{"type": "eq", "key": "lang", "value": "en"}`, or a list of these that must all hold.
            counted: Condition on the documents whose words count in scores. Give it with `where` if an asker must not learn
                what other documents contain.
            parameters: Parameters of the strategy by name.
            rounds: Number of searches. Each further one searches for missing facts, named by the chat model or by the evidence.
            merge_with: Strategy that merges the selection of the first one: "mergerag-asym(widen=4)".
            history: Earlier answers, messages, or pairs of question and answer. A question that refers to them is completed
                by the chat model or by rules. `Context.question` is the completed question.
            deadline: Seconds after which no further call of a model or the index begins. A running call of a chat model is
                aborted.

        Returns:
            The context with its passages and trace.

        Raises:
            UsageError: for an empty question, an invalid option, or a view that the index lacks.
            DeadlineExceeded: if the deadline has passed.
            ModelError: if a model keeps failing. Errors of `embedder` are raised, too.
        """
        from mergewise import asking

        with deadline_in(query.deadline):
            return asking.context(query, self.state())

    def messages(self, context: Context) -> list[Message]:
        """Return the messages of the mode "r&b" for a context, if you call a chat model yourself.

        Raises:
            CorruptIndex: if the documents cannot be read.
        """
        from mergewise.generate.formats import messages_of

        return messages_of(context, self.store.reader().document, self._models.prompts)

    @takes(AnswerQuery)
    def ask(self, query: AnswerQuery) -> Answer:
        """Answer a question, with citations. Takes the arguments of `context` and three more.

        Args:
            mode: Name of a mode. The default is the mode that the strategy prefers, then "r&b" with a chat model, which answers
                from the passages, and "extractive" without one, which quotes the one to three sentences that answer.
            max_tokens: Maximum tokens that a model writes in one call.
            show: Callback with the pieces of a model's answer as they arrive.

        Returns:
            The answer with its citations and its context. With a `history`, `Answer.question` is the question as you asked it.

        Raises:
            UsageError: for an unknown mode, or if its model is missing.
            ModelError: if the chat model keeps failing or returns nothing. Errors of `context` are raised, too.
        """
        with deadline_in(query.deadline), span("mergewise.ask"):
            return self._prepare(query, self.state()).answer(query.show)

    @takes(AnswerQuery)
    def prepare(self, query: AnswerQuery) -> PreparedAnswer:
        """Assemble the context of a question now, and answer later by `answer` of the result.

        An application can so show the sources before a model writes. Takes the arguments of `ask`. Raises what `ask` raises.
        """
        with deadline_in(query.deadline):
            state = self.state()
            return self._prepare(query, state).detached(state.store)

    def _prepare(self, query: AnswerQuery, state: IndexState) -> PreparedAnswer:
        from mergewise import asking

        mode, preferred = self._modes(query)
        request = asking.prepare_request(query, state, mode)
        return asking.PreparedAnswer(query.question, mode, request, preferred)

    def locations(self, context: Context) -> dict[Span, Location]:
        """Map the spans of a context's passages to pages, lines and addresses of their documents.

        Raises:
            CorruptIndex: if the documents cannot be read.
        """
        from mergewise.generate.citations import locations

        ids = list(dict.fromkeys(span.doc_id for span in spans_of(context)))
        return locations(context, self.store.reader().texts(ids).get)

    def ask_many(
        self, /, questions: Iterable[str], *, concurrency: int = AT_ONCE, **options: Any
    ) -> list[Answer | Exception]:
        """Answer many questions. All are embedded in one call.

        Args:
            questions: The questions.
            concurrency: Number of questions at the same time.
            options: Options of `ask`.

        Returns:
            An answer for each question, in order. If a question fails, its error takes the place of its answer.

        Raises:
            UsageError: for an invalid `concurrency` or option.
        """
        from mergewise import asking
        from mergewise.designs import MODES

        asked = as_list("questions", questions, "give a list of questions, or use ask")
        query = AnswerQuery("", **options)
        (chosen, preferred), state = self._modes(query), self.state()
        embedder = state.models.embedder
        if embedder is not None:
            # a single question may be the cause of an error: each reports its own
            with suppress(MergewiseError):
                texts = [question for question in asked if isinstance(question, str) and question.strip()]
                state = replace(state, models=replace(state.models, embedder=QuestionVectors(embedder, texts)))

        def prepare(question: str) -> Request:
            return asking.prepare_request(replace(query, question=question), state, chosen)

        def answer(question: str) -> Answer:
            return asking.PreparedAnswer(question, chosen, prepare(question)).answer(query.show)

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

    def _modes(self, query: AnswerQuery) -> tuple[str, str]:
        """Return the mode of an answer, and the mode that the strategy prefers, which is empty if the query names one."""
        from mergewise.designs import modes, strategies

        preferred = strategies.preferred_mode(query.strategy) if query.mode is None else ""
        return modes.mode_for(query.mode, self._models, preferred), preferred

    def state(self) -> IndexState:
        """Return the present state of the index with its models. Questions are answered from such a state."""
        from mergewise.asking import IndexState

        return IndexState(self.store.reader(), self.search_settings, self.models, self.ceilings)

    # -- care

    def check(self, *, repair: bool = False) -> list[Problem]:
        """Verify all invariants of the index.

        Args:
            repair: Repair what can be repaired.

        Returns:
            The problems; after a repair, those that remain.

        Raises:
            IndexBusy: if another process writes for too long during a repair.
            UsageError: if a repair needs the chat model or the prompts that wrote rows, and they are not given. Errors of
                `embedder` are raised, too.
        """
        from mergewise.index import pipeline

        try:
            if repair:
                self._remove_unfinished_views(begun=True)
            problems = self.store.check()
            if not repair:
                return problems
            altered = {problem.doc_id for problem in problems if problem.kind == "altered"}
            broken = [p.doc_id for p in problems if p.doc_id is not None and p.doc_id not in altered]
            if broken or self.store.reader().damage():
                # checked before any row is dropped
                for name, settings in self.store.settings.items():
                    VIEWS[name].check_needs(settings, self.manifest.embedder, self._models)
            lost = self.store.repair()
            damaged = dict.fromkeys([*lost, *broken])
            pipeline.rebuild(
                self.store, VIEWS, self._builders(), [doc_id for doc_id in damaged if doc_id not in altered]
            )
            self.add_views(dict.fromkeys(self.manifest.views))
            return self.store.check()
        except CorruptIndex as error:
            return [Problem(str(error), kind="lost")]

    def reshard(self, shards: int, into: AnyPath | None = None) -> None:
        """Change the number of shards of an index in shards. All rows are copied with their vectors.

        Questions and changes go on meanwhile; a change waits only for the last step. After a kill, the same call goes on. Old
        files stay for an hour.

        Args:
            shards: Number of shards.
            into: New directory or prefix of a bucket for a copy in shards. The index, which may have no shards, stays as it is.
                Changes during the copy may be missing there.

        Raises:
            UsageError: for an invalid number, an index without shards, or an unfinished call with another number.
            IndexBusy: if another process writes for too long.
        """
        from mergewise.store.shards.reshard import copy_into_shards, reshard

        whole("number of shards", shards, Range(1, MOST_SHARDS))
        if into is not None:
            copy_into_shards(self.store, place_of(into), shards)
        elif isinstance(self.store, ShardedStore):
            reshard(self.store, shards)
        else:
            raise UsageError(
                f"{self.store.place} has no shards", "copy it into shards: mergewise reshard --shards N --into DIR"
            )
