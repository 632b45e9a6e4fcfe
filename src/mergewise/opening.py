"""What opening an index takes before there is one: its directory, its views, prompts, embedder and first manifest.

And `estimate`, which looks at all of this and opens nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mergewise.defaults import CHAT, EMBEDDER
from mergewise.designs import VIEWS
from mergewise.errors import UsageError
from mergewise.models import load_chat, load_embedder
from mergewise.models.cache import CachedChat
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import ChatModel, Embedder
from mergewise.ranges import text
from mergewise.store.manifest import Manifest, ViewState, read_manifest
from mergewise.store.views import Estimate, views_of
from mergewise.types import SHIPPED, Prompts

if TYPE_CHECKING:
    from mergewise.inputs import Source
    from mergewise.readers.apart import Limits

DEFAULT_VIEWS = ("leaf",)
WRITTEN = ".summaries"
"""In the index's directory: what a chat model wrote for a view."""


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
) -> Estimate:
    """What a chat model would be paid for if the index at `path`, which need not exist, got these views and these sources.

    Nothing is written and no model is called. Calls whose answers the index keeps already are counted apart. `include` and
    `exclude` are those of `Index.add`. Raises UsageError as `open` does, and where a view has its rows written and no chat model
    is named.
    """
    from mergewise.index.forecast import forecast
    from mergewise.inputs import inputs_of
    from mergewise.readers import FolderSearch
    from mergewise.readers.apart import reader_within
    from mergewise.readers.patterns import FileChoice
    from mergewise.store.lance_reader import LanceReader

    wanted = wanted_views(views, settings or {})
    directory = index_directory(path)
    first = next(iter(VIEWS))
    manifest = read_manifest(directory) or Manifest("", 0, {first: ViewState(VIEWS[first].dump())})
    standing = {name: state.settings for name, state in manifest.views.items()}
    chosen = {name: standing.get(name) or VIEWS[name].dump() if own is None else own for name, own in wanted.items()}
    reader = LanceReader(directory, manifest, VIEWS)
    ids = [info.id for info in reader.documents()]
    lacking = {name: reader.numbered_in(state.missing) for name, state in manifest.views.items()}
    missing = {name: lacking.get(name, ids) for name in {**standing, **chosen}}
    model = load_chat(chat) if isinstance(chat, str) else chat
    kept = directory / WRITTEN
    models = Models(count_tokens, chat=with_cache(model, kept if kept.exists() else None), prompts=own_prompts(prompts))
    with reader_within(limits) as read:
        search = FolderSearch(FileChoice.of(include, exclude), (directory,))
        inputs = inputs_of(sources, Path(os.path.realpath(directory)).parent, search, read)
        return forecast(inputs, reader, VIEWS, {**standing, **chosen}, missing, models)


def index_directory(path: str | os.PathLike[str]) -> Path:
    if "://" in os.fspath(path):
        raise UsageError(f"{os.fspath(path)} is not a directory", "an index lives in a directory of this machine")
    return Path(text("the directory is", os.fspath(path)))


def wanted_views(names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
    """The views that are asked for, with the settings that are asked for, if any, as a manifest keeps them."""
    wanted = views_of(VIEWS, [*DEFAULT_VIEWS, *names, *settings])
    for view in wanted:
        if not isinstance(settings.get(view.name, view.settings()), view.settings):
            raise UsageError(
                f"the settings of the view {view.name!r} are {view.settings.__name__}", "see docs/guide.md"
            )
    return {view.name: view.dump(settings[view.name]) if view.name in settings else None for view in wanted}


def spec_of(given: str | Embedder | None) -> str:
    """The spec of a new index's embedder."""
    return EMBEDDER if given is None else given if isinstance(given, str) else given.spec


def check_embeddable(wanted: Mapping[str, object], embedder: str) -> None:
    """Some views cannot be made without vectors."""
    lacking = [name for name in wanted if VIEWS[name].needs_embedder and embedder == "none"]
    if lacking:
        raise UsageError(
            f"the view {lacking[0]!r} needs an embedder, and this index has none",
            "index into another directory with one",
        )


def own_prompts(given: str | os.PathLike[str] | Mapping[str, str] | None) -> Prompts:
    if given is None:
        return SHIPPED
    from mergewise.designs import PROMPTS
    from mergewise.prompting.own import load_prompts

    return load_prompts(given, PROMPTS)


def settings_of_new_view(name: str, asked: dict[str, Any] | None, prompts: Prompts) -> dict[str, Any]:
    return VIEWS[name].with_prompt(VIEWS[name].dump() if asked is None else asked, prompts)


def new_manifest(embedder: str | Embedder, wanted: Mapping[str, dict[str, Any] | None], prompts: Prompts) -> Manifest:
    spec, model = (embedder, load_embedder(embedder)) if isinstance(embedder, str) else (embedder.spec, embedder)
    views = {name: ViewState(settings_of_new_view(name, asked, prompts)) for name, asked in wanted.items()}
    return Manifest(embedder=spec, dimension=0 if model is None else model.dimension, views=views)


def with_cache(chat: ChatModel | None, directory: str | os.PathLike[str] | None) -> ChatModel | None:
    return chat if chat is None or directory is None else CachedChat(chat, directory)
