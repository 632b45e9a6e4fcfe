"""An index opened: its directory, views, prompts, embedder and models are checked and put together. `estimate` opens none."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mergewise.defaults import CAUSAL, CHAT, EMBEDDER, RERANKER, SCORER
from mergewise.designs import VIEWS
from mergewise.engine import WRITTEN, Index
from mergewise.errors import UsageError
from mergewise.models import causal_of, load_causal, load_chat, load_embedder, load_reranker, load_scorer
from mergewise.models.cache import streaming, with_kept_answers
from mergewise.models.embedders import check_embedder, given_embedder, remember_embedder
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import CausalModel, ChatModel, Embedder, NLLScorer, Reranker, StoreReader, TokenCounter
from mergewise.ranges import Ceilings, Range, number, text
from mergewise.redaction import masked
from mergewise.retrieve.hybrid import SearchSettings
from mergewise.store.lance import LOCK_SECONDS, LanceStore
from mergewise.store.manifest import Manifest, ViewState
from mergewise.store.places import is_url, place_of, root_of
from mergewise.store.places.place import Place
from mergewise.store.shards.place import ShardedFolder
from mergewise.store.shards.store import ShardedStore
from mergewise.store.views import Estimate, Progress, views_of
from mergewise.types import SHIPPED, Prompts

if TYPE_CHECKING:
    from mergewise.inputs import Source
    from mergewise.readers.sandbox import Limits

log = logging.getLogger("mergewise")

DEFAULT_VIEWS = ("leaf",)


def open(
    path: str | os.PathLike[str],
    *,
    views: Sequence[str] = DEFAULT_VIEWS,
    settings: Mapping[str, Any] | None = None,
    embedder: str | Embedder | None = None,
    chat: str | ChatModel = CHAT,
    reranker: str | Reranker = RERANKER,
    scorer: str | NLLScorer = SCORER,
    causal: str | CausalModel[Any] = CAUSAL,
    progress: Progress | None = None,
    cache: str | os.PathLike[str] | None = None,
    prompts: str | os.PathLike[str] | Mapping[str, str] | None = None,
    tokens: TokenCounter = count_tokens,
    search_settings: SearchSettings = SearchSettings(),
    weights: str | os.PathLike[str] | Mapping[str, float] | None = None,
    create: bool = True,
    lock_wait: float = LOCK_SECONDS,
    ceilings: Ceilings | None = None,
    root: str | os.PathLike[str] | None = None,
    storage: Mapping[str, str] | None = None,
    cache_size: str | int = "10GB",
    refresh: str | float = "1s",
    shards: int | None = None,
) -> Index:
    """The index in the directory `path`, or below a prefix of a bucket ("s3://BUCKET/PREFIX"), created if absent.

    `embedder` is "minilm" (a new index's default), "none", "st:NAME_OR_PATH" or "openai:MODEL", or an object of the
    protocol `Embedder`. An index remembers its embedder by its spec and refuses another (`EmbedderMismatch`). An
    object is to be given each time that the index is opened, since nothing can be loaded by its spec. "st:..." and "openai:..."
    are to be named once for each index, by each user: an index that somebody else made is not believed. `chat`, `reranker` and
    `scorer` are the models that answer, order and compare: specs (see the guide), or objects of the protocols. `causal` is
    one whose next-token probabilities decode several streams; without one it is the chat model, where that shows them
    (`hf:PATH`). In the directory `cache` the chat model's answers are kept, so that no call is paid for twice. `prompts` are
    texts of your own for what chat models are told: a folder (`mergewise prompts` writes those that ship), or a dictionary by
    name; rows that were written by others are not mixed with them. `tokens` counts tokens for budgets, exactly; give the
    tokenizer of your chat model. `weights` are those of weave's features: a file that `mergewise tune --fit` wrote, or a
    dictionary. With `create=False` a missing index is a `UsageError`.

    `views` are built and kept: "leaf" always, "slice" for `macrag` and `longrag`. `settings` are those of views, by name:
    `{"slice": SliceSettings(chunk=300)}`; they are fixed once an index has the view. An index that has documents but not yet
    the view gets it now, in batches, with `progress`; after a kill the next call goes on.

    `lock_wait` are the seconds for which a change waits for another process that writes. `ceilings` bound the parameters of
    strategies, where others ask.

    Files are named from `root`: the folder in which the index stands, for a bucket the current one. The rest is about buckets.
    `storage` are options of the object store, such as `endpoint`, `region` or `aws_access_key_id`; what is not named comes from
    the environment. Questions are answered from copies below `cache`, or else in the user's own cache, of which
    they take `cache_size`. Another process's change is seen `refresh` later at the latest, plus the time to read it.

    With `shards`, a new index in a directory is made of so many whole ones, each with the documents whose ids it gets by a hash;
    an index keeps the number that it has.

    Raises UsageError for a path, a view, settings or a model that cannot be; MissingExtra where a model needs a package that is
    not installed; ModelError where a model cannot be loaded; NotAnIndex, OlderFormat, NewerFormat or CorruptIndex for what the
    directory holds; EmbedderMismatch; and IndexBusy where a view is to be added while another process writes for too long.
    """
    wanted = _wanted_views(views, settings or {})
    place = place_of(_index_path(path), storage, cache, cache_size, refresh)
    directory = place.directory
    given = embedder if embedder is None or isinstance(embedder, str) else given_embedder(embedder)
    own_texts = _own_prompts(prompts)
    patience = number("the wait for the lock is", lock_wait, float, Range(0, 10**9))
    store = store_at(place, patience)
    known = place.known()
    _check_shards(store, known, shards)
    _check_embeddable(wanted, known.embedder if known is not None else _spec_of(given))
    if known is None:
        if not create:
            raise UsageError(f"there is no index at {place}", "make one with `mergewise index PATH...`")
        manifest = _new_manifest(given or EMBEDDER, wanted, own_texts)
        if shards is not None:
            store = ShardedStore(ShardedFolder(directory, shards), VIEWS, patience)
        store.place.create(manifest, patience)
    manifest = store.manifest
    check_embedder(directory, manifest.embedder, manifest.dimension, given)
    if isinstance(given, str):
        remember_embedder(directory, given)
    own_chat = load_chat(chat) if isinstance(chat, str) else streaming(chat)
    own_causal = load_causal(causal) if isinstance(causal, str) else causal
    models = Models(
        count_tokens=tokens,
        embedder=None if isinstance(given, str) else given,
        chat=with_kept_answers(own_chat, cache),
        reranker=load_reranker(reranker) if isinstance(reranker, str) else reranker,
        scorer=load_scorer(scorer) if isinstance(scorer, str) else scorer,
        causal=causal_of(own_chat) if own_causal is None else own_causal,
        stored_tokens=tokens is count_tokens,
        prompts=own_texts,
        weights=_own_weights(weights),
    )
    named = ((own_chat, chat), (models.reranker, reranker), (models.scorer, scorer))
    loaded = tuple(model for model, spec in named if isinstance(spec, str))
    index = Index(store, search_settings, models, loaded, ceilings, None if root is None else Path(root))
    log.info("opened %s: embedder %s, views %s", place, manifest.embedder, ", ".join(manifest.views))
    index.add_views(wanted, progress)
    return index


def estimate(
    path: str | os.PathLike[str],
    *sources: Source | Iterable[Source],
    views: Sequence[str] = DEFAULT_VIEWS,
    settings: Mapping[str, Any] | None = None,
    chat: str | ChatModel = CHAT,
    prompts: str | os.PathLike[str] | Mapping[str, str] | None = None,
    limits: Limits | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    root: str | os.PathLike[str] | None = None,
    storage: Mapping[str, str] | None = None,
) -> Estimate:
    """What a chat model would be paid for if the index at `path`, which need not exist, got these views and these sources.

    Nothing is written and no model is called. Calls whose answers the index keeps already are counted apart. `include` and
    `exclude` are those of `Index.add`. Raises UsageError as `open` does, and where a view has its rows written and no chat model
    is named.
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
    standing = {name: state.settings for name, state in manifest.views.items()}
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
        search = FolderSearch(FileChoice.of(include, exclude), (directory,))
        inputs = inputs_of(sources, root_of(place, root), search, read)
        return forecast(inputs, reader, VIEWS, {**standing, **chosen}, missing, models)


def store_at(place: Place, lock_wait: float = LOCK_SECONDS) -> LanceStore | ShardedStore:
    if isinstance(place, ShardedFolder):
        return ShardedStore(place, VIEWS, lock_wait)
    return LanceStore(place, VIEWS, lock_wait)


def _check_shards(store: LanceStore | ShardedStore, known: Manifest | None, shards: int | None) -> None:
    """Raises UsageError where so many shards are asked for of an index that stands otherwise, or that is on a bucket."""
    if shards is None:
        return
    if store.place.refresh is not None:
        raise UsageError(f"{store.place} is on a bucket, where an index has no shards", "make it in a directory")
    standing = len(store.manifests) if isinstance(store, ShardedStore) else 0
    if known is not None and standing != shards:
        raise UsageError(
            f"{store.place} has {f'{standing} shards' if standing else 'no shards'}",
            "an index keeps the number that it was made with: index into another directory",
        )


def _index_path(path: str | os.PathLike[str]) -> str:
    if "://" in os.fspath(path) and not is_url(path):
        raise UsageError(
            f"{masked(os.fspath(path))} is not a directory", "an index lives in a directory, or at s3://BUCKET/PREFIX"
        )
    return text("the directory is", os.fspath(path))


def _wanted_views(names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
    """The views that are asked for, with the settings that are asked for, if any, as a manifest keeps them."""
    wanted = views_of(VIEWS, [*DEFAULT_VIEWS, *names, *settings])
    for view in wanted:
        if not isinstance(settings.get(view.name, view.settings()), view.settings):
            raise UsageError(
                f"the settings of the view {view.name!r} are {view.settings.__name__}", "see docs/guide.md"
            )
    return {view.name: view.dump(settings[view.name]) if view.name in settings else None for view in wanted}


def _spec_of(given: str | Embedder | None) -> str:
    """The spec of a new index's embedder."""
    return EMBEDDER if given is None else given if isinstance(given, str) else given.spec


def _check_embeddable(wanted: Mapping[str, object], embedder: str) -> None:
    """Some views cannot be made without vectors."""
    lacking = [name for name in wanted if VIEWS[name].needs_embedder and embedder == "none"]
    if lacking:
        raise UsageError(
            f"the view {lacking[0]!r} needs an embedder, and this index has none",
            "index into another directory with one",
        )


def _own_weights(given: str | os.PathLike[str] | Mapping[str, float] | None) -> Mapping[str, float] | None:
    if given is None:
        return None
    from mergewise.designs.weave.weights import weights_of

    return weights_of(given)


def _own_prompts(given: str | os.PathLike[str] | Mapping[str, str] | None) -> Prompts:
    if given is None:
        return SHIPPED
    from mergewise.designs import PROMPTS
    from mergewise.prompting.own import load_prompts

    return load_prompts(given, PROMPTS)


def _new_manifest(embedder: str | Embedder, wanted: Mapping[str, dict[str, Any] | None], prompts: Prompts) -> Manifest:
    spec, model = (embedder, load_embedder(embedder)) if isinstance(embedder, str) else (embedder.spec, embedder)
    views = {name: ViewState(VIEWS[name].new_settings(asked, prompts)) for name, asked in wanted.items()}
    return Manifest(embedder=spec, dimension=0 if model is None else model.dimension, views=views)
