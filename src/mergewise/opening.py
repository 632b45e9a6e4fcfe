"""`open` checks a directory, views, prompts and models, and joins them to an `Index`. `estimate` counts costs without opening."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mergewise.defaults import CACHE_SIZE, CAUSAL, CHAT, EMBEDDER, PASSAGE_TOKENS, RERANKER, SCORER
from mergewise.designs import VIEWS
from mergewise.engine import WRITTEN, Index
from mergewise.errors import UsageError
from mergewise.log import log
from mergewise.models import causal_of, load_causal, load_chat, load_embedder, load_reranker, load_scorer
from mergewise.models.cache import streaming, with_kept_answers
from mergewise.models.embedders import check_embedder, given_embedder, remember_embedder
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens, token_counter
from mergewise.protocols import (
    CausalModel,
    ChatModel,
    Embedder,
    NLLScorer,
    Reranker,
    SecondSource,
    StoreReader,
    TokenCounter,
)
from mergewise.ranges import Ceilings, Range, number, text, whole
from mergewise.redaction import masked
from mergewise.retrieve.hybrid import SearchSettings
from mergewise.store.lance import LOCK_SECONDS, LanceStore
from mergewise.store.manifest import MOST_SHARDS, Manifest, ShardedManifest, ViewState
from mergewise.store.places import is_url, place_of, root_of
from mergewise.store.places.place import Place
from mergewise.store.shards.store import ShardedStore
from mergewise.store.views import Estimate, Progress, views_of
from mergewise.types import SHIPPED, AnyPath, Document, Prompts, frozen

if TYPE_CHECKING:
    from mergewise.inputs import Source
    from mergewise.readers.sandbox import Limits

DEFAULT_VIEWS = ("leaf",)


def open(
    path: AnyPath,
    *,
    views: Sequence[str] = DEFAULT_VIEWS,
    settings: Mapping[str, Any] | None = None,
    embedder: str | Embedder | None = None,
    chat: str | ChatModel = CHAT,
    reranker: str | Reranker = RERANKER,
    scorer: str | NLLScorer = SCORER,
    causal: str | CausalModel = CAUSAL,
    progress: Progress | None = None,
    cache: AnyPath | None = None,
    prompts: AnyPath | Mapping[str, str] | None = None,
    tokens: str | TokenCounter = count_tokens,
    search_settings: SearchSettings = SearchSettings(),
    weights: AnyPath | Mapping[str, float] | None = None,
    create: bool = True,
    lock_wait: float = LOCK_SECONDS,
    ceilings: Ceilings | None = None,
    root: AnyPath | Mapping[str, Path] | None = None,
    storage: Mapping[str, str] | None = None,
    cache_size: str | int = CACHE_SIZE,
    refresh: str | float = "1s",
    shards: int | None = None,
    second_source: AnyPath | Index | SecondSource | None = None,
    ray: str | None = None,
    partial: bool = False,
) -> Index:
    """Open the index at `path`, or create it.

    Args:
        path: Directory, or the prefix of a bucket: "s3://BUCKET/PREFIX".
        views: Views that the index gets and keeps. "leaf" is always one of them. Rows for the documents that it has are made
            now, in batches; after a kill the same call resumes.
        settings: Settings of views by name, such as `{"slice": SliceSettings(chunk=300)}`. They are fixed once an index has
            the view.
        embedder: "minilm" (default of a new index), "e5", "none", "onnx:PATH", "st:NAME_OR_PATH", "openai:MODEL", or an object
            of the protocol `Embedder`. An index remembers the spec of its embedder and refuses others. Pass an object at each
            call. Name "onnx:...", "st:..." and "openai:..." once for each index: an index that somebody else made is not trusted.
        chat: Chat model that writes answers and rows: a spec or an object.
        reranker: Reranker that orders search results: a spec or an object.
        scorer: Scorer that compares chunks (MergeRAG): a spec or an object.
        causal: Model with next-token probabilities (AED-RAG): a spec or an object. By default the chat model, if it has them.
        progress: Callback for views that are added to documents of the index.
        cache: Directory for replies of the chat model, so that no call is paid for twice, and for copies of a bucket's files.
        prompts: Your own prompts: a folder (see `mergewise prompts`) or a dictionary by name.
        tokens: Counter of tokens for budgets: "wordpiece" (the default), "o200k" (OpenAI's models), "hf:PATH" (a tokenizer's
            folder or file), or a function that counts the tokens of texts.
        search_settings: Settings of the hybrid search.
        weights: Weights of weave's features: a file of `mergewise tune --fit`, or a dictionary.
        create: Create a missing index.
        lock_wait: Seconds that a change waits for another writer.
        ceilings: Upper limits for parameters of strategies, for questions from strangers.
        root: Folder that names of files are relative to. By default the folder of the index; for a bucket, the current one.
            Several folders are a dictionary by the beginning of the names, such as `{"manual": Path("/srv/manual")}`.
        storage: Options of the object store, such as `endpoint`, `region` or `aws_access_key_id`. The environment gives the rest.
        cache_size: Size of the copies of a bucket's files.
        refresh: Time after which a change of another process in a bucket is seen.
        shards: Number of shards of a new index. `Index.reshard` changes it.
        second_source: Another index or its directory, or a function `search(keywords, k)` that returns up to k documents. The
            strategy `crag` searches it if the index does not hold the answer. By default it searches the index again.
        ray: Ray cluster that searches the index (`mergewise cluster start`): "auto" or HOST:PORT. The index is read-only then.
        partial: On a cluster, answer without the shards that no node can search. The trace names them. By default it is an error.

    Returns:
        The index, a context manager.

    Raises:
        UsageError: for an invalid path, view, setting or model, or a missing index without `create`.
        MissingExtra: if a model needs a package that is not installed.
        ModelError: if a model cannot be loaded.
        NotAnIndex: if the directory holds something else.
        OlderFormat: if an older mergewise wrote the index.
        NewerFormat: if a newer mergewise wrote the index.
        CorruptIndex: if the index is damaged.
        EmbedderMismatch: if the index has another embedder.
        IndexBusy: if a view must be added while another process writes.
    """
    wanted = _wanted_views(views, settings or {})
    tokens = token_counter(tokens) if isinstance(tokens, str) else tokens
    place = place_of(_index_path(path), storage, cache, cache_size, refresh)
    directory = place.directory
    given = embedder if embedder is None or isinstance(embedder, str) else given_embedder(embedder)
    own_texts = _own_prompts(prompts)
    patience = number("lock_wait", lock_wait, float, Range(0, 10**9))
    known = place.known()
    if shards is not None:
        whole("number of shards", shards, Range(1, MOST_SHARDS))
        standing = len(known.shards) if isinstance(known, ShardedManifest) else 0
        if known is not None and standing != shards:
            raise UsageError(
                f"{place} has {f'{standing} shards' if standing else 'no shards'}",
                "change the number: mergewise reshard" + ("" if standing else " --into DIR"),
            )
    if known is None and (not create or ray is not None):
        raise UsageError(f"index not found: {place}", "create it: mergewise index PATH...")
    own_chat = load_chat(chat) if isinstance(chat, str) else streaming(chat)
    if known is None:
        new = given or EMBEDDER
        spec, model = (new, load_embedder(new)) if isinstance(new, str) else (new.spec, new)
        new_views = {name: ViewState(VIEWS[name].new_settings(asked, own_texts)) for name, asked in wanted.items()}
        for name, view in new_views.items():
            VIEWS[name].check_needs(view.settings, spec, Models(tokens, chat=own_chat, prompts=own_texts))
        manifest = Manifest(spec, 0 if model is None else model.dimension, new_views)
        place.create(manifest if shards is None else ShardedManifest.of([manifest] * shards, None), patience)
    store = store_at(place, patience)
    if ray is not None:
        from mergewise.cluster import ClusterStore

        store = ClusterStore(place, text("cluster address", ray), partial=partial)
    manifest = store.manifest
    check_embedder(directory, manifest.embedder, manifest.dimension, given)
    if isinstance(given, str):
        remember_embedder(directory, given)
    own_causal = load_causal(causal) if isinstance(causal, str) else causal
    other = open(second_source, create=False) if isinstance(second_source, str | os.PathLike) else second_source
    if weights is not None:
        from mergewise.designs.weave.weights import weights_of

        weights = weights_of(weights)
    models = Models(
        count_tokens=tokens,
        embedder=None if isinstance(given, str) else given,
        chat=with_kept_answers(own_chat, cache),
        reranker=load_reranker(reranker) if isinstance(reranker, str) else reranker,
        scorer=load_scorer(scorer) if isinstance(scorer, str) else scorer,
        causal=causal_of(own_chat) if own_causal is None else own_causal,
        stored_tokens=tokens is count_tokens,
        prompts=own_texts,
        weights=weights,
        second_source=IndexSource(other) if isinstance(other, Index) else other,
    )
    named = ((own_chat, chat), (models.reranker, reranker), (models.scorer, scorer), (other, second_source))
    loaded = tuple(model for model, spec in named if isinstance(spec, str | os.PathLike))
    index = Index(store, search_settings, models, loaded, ceilings, Path(root) if isinstance(root, str) else root)
    log.info("opened %s: embedder %s, views %s", place, manifest.embedder, ", ".join(manifest.views))
    index.add_views(wanted, progress)
    return index


def estimate(
    path: AnyPath,
    *sources: Source | Iterable[Source],
    views: Sequence[str] = DEFAULT_VIEWS,
    settings: Mapping[str, Any] | None = None,
    chat: str | ChatModel = CHAT,
    prompts: AnyPath | Mapping[str, str] | None = None,
    limits: Limits | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    follow_links: bool = False,
    root: AnyPath | None = None,
    storage: Mapping[str, str] | None = None,
) -> Estimate:
    """Estimate the calls and tokens of a chat model that would write the rows of `views` for these sources.

    Nothing is written and no model is called. Replies that the index already keeps are counted apart.

    Args:
        path: Directory of the index. It need not exist.
        sources: Files, folders and documents, as `Index.add` takes them.
        include: Patterns of files to read from folders.
        exclude: Patterns of files to skip in folders.
        follow_links: Also follow links that lead out of a folder.
        limits: Limits for reading risky formats.

    The other arguments are those of `open`.

    Raises:
        UsageError: for arguments that `open` refuses, or if no chat model is named.
    """
    from mergewise.index.forecast import forecast
    from mergewise.inputs import inputs_of
    from mergewise.readers import FolderSearch
    from mergewise.readers.patterns import FileChoice
    from mergewise.readers.sandbox import reader_within
    from mergewise.store.lance_reader import LanceReader

    wanted = _wanted_views(views, settings or {})
    place = place_of(_index_path(path), storage)
    directory = place.directory
    first = next(iter(VIEWS))
    manifest = place.known() or Manifest("", 0, {first: ViewState(VIEWS[first].dump())})
    standing = manifest.settings
    chosen = {name: standing.get(name) or VIEWS[name].dump() if own is None else own for name, own in wanted.items()}
    shards = store_at(place)
    if isinstance(shards, ShardedStore):
        reader: StoreReader = shards.reader()
        lacking = {name: shards.missing(name) for name in manifest.views}
    else:
        reader = one = LanceReader(place, manifest, VIEWS)
        lacking = {name: one.numbered_in(state.missing) for name, state in manifest.views.items()}
    ids = reader.ids()
    missing = {name: lacking.get(name, ids) for name in {**standing, **chosen}}
    model = load_chat(chat) if isinstance(chat, str) else chat
    kept = directory / WRITTEN
    models = Models(
        count_tokens, chat=with_kept_answers(model, kept if kept.exists() else None), prompts=_own_prompts(prompts)
    )
    with reader_within(limits) as read:
        search = FolderSearch(FileChoice.of(include, exclude), (directory,), follow_links)
        inputs = inputs_of(sources, root_of(place, root), search, read)
        return forecast(inputs, reader, VIEWS, {**standing, **chosen}, missing, models)


def store_at(place: Place, lock_wait: float = LOCK_SECONDS) -> LanceStore | ShardedStore:
    kind = ShardedStore if isinstance(place.known(), ShardedManifest) else LanceStore
    return kind(place, VIEWS, lock_wait)


def _index_path(path: AnyPath) -> str:
    if "://" in os.fspath(path) and not is_url(path):
        raise UsageError(f"not a directory: {masked(os.fspath(path))}", "give a directory or s3://BUCKET/PREFIX")
    return text("directory", os.fspath(path))


def _wanted_views(names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
    """Return the wanted views with their settings, as a manifest keeps them, or None for default settings."""
    stored: dict[str, dict[str, Any] | None] = {}
    for view in views_of(VIEWS, [*DEFAULT_VIEWS, *names, *settings]):
        given = settings.get(view.name, view.settings())
        if not isinstance(given, view.settings):
            raise UsageError(f"invalid settings of the view {view.name!r}", f"give a {view.settings.__name__}")
        read = view.with_files(given) if view.with_files else given
        stored[view.name] = view.dump(read) if view.name in settings else None
    return stored


@frozen
class IndexSource:
    """A `SecondSource` that searches the passages of an index."""

    index: Index

    def __call__(self, keywords: str, k: int) -> list[Document]:
        strategy = f"topk(k={k}, order=score, longest={PASSAGE_TOKENS})"
        found = self.index.context(keywords, strategy=strategy, budget=2 * k * PASSAGE_TOKENS).passages
        places = [one.spans[0] for one in found]
        return [Document(f"{at.doc_id}@{at.start}", one.text, one.title) for one, at in zip(found, places, strict=True)]


def _own_prompts(given: AnyPath | Mapping[str, str] | None) -> Prompts:
    if given is None:
        return SHIPPED
    from mergewise.designs import PROMPTS
    from mergewise.prompting.own import load_prompts

    return load_prompts(given, PROMPTS)
