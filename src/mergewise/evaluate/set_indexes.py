"""The indexes of question sets. Methods with equal settings of their views share an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from mergewise import VIEWS, Index, Models, Progress, count_tokens, defaults
from mergewise.errors import UsageError
from mergewise.evaluate.methods import Method, MethodCells, stored_settings
from mergewise.evaluate.question_sets import QuestionSet
from mergewise.extend import NAME, causal_of, load_causal, load_chat, load_reranker, load_scorer, place_of, release
from mergewise.protocols import Reranker
from mergewise.types import Json, frozen


@frozen
class ModelSpecs:
    """The models of an experiment as specs, and what they need. Without an `embedder`, indexes keep their own."""

    embedder: str | None = None
    chat: str = defaults.CHAT
    causal: str = defaults.CAUSAL
    reranker: str = defaults.RERANKER
    scorer: str = defaults.SCORER
    utility: str = defaults.RERANKER
    window: int | None = None
    cache: Path | None = None
    prompts: Path | None = None
    second_source: Path | None = None

    def by_role(self) -> dict[str, str]:
        """Return the specs of all models except the embedder."""
        return {name: getattr(self, name) for name in ("chat", "causal", "reranker", "scorer", "utility")}

    def utility_predictor(self) -> Reranker | None:
        return _reranker(self.utility)

    @contextmanager
    def loaded(self, open_index: Callable[..., Index]) -> Iterator[tuple[Models, Callable[..., Index]]]:
        """Yield the models, and a function that opens an index with them. They are released at the end."""
        chat, causal = load_chat(self.chat, self.window), load_causal(self.causal)
        reranker, scorer = _reranker(self.reranker), load_scorer(self.scorer)
        opening = partial(
            open_index,
            embedder=self.embedder,
            reranker=reranker or defaults.RERANKER,
            scorer=scorer or defaults.SCORER,
            chat=chat or defaults.CHAT,
            causal=causal or defaults.CAUSAL,
            cache=self.cache,
            prompts=self.prompts,
            second_source=self.second_source,
        )
        try:
            yield Models(count_tokens, None, chat, reranker, scorer, causal or causal_of(chat)), opening
        finally:
            for model in (chat, causal, scorer):
                release(model)


@frozen
class SetIndexes:
    """A set, its indexes with their methods, and what each method needs and lacks."""

    task: QuestionSet
    indexes: Sequence[tuple[Index, MethodCells]]
    needs: Mapping[str, str]


@cache
def _reranker(spec: str) -> Reranker | None:
    """Load a reranker once for all sets."""
    return load_reranker(spec)


def existing_index(task: QuestionSet, existing: Path, open_index: Callable[..., Index]) -> Index:
    """Open the index of a set without documents: `existing`, or the index of the set's name in this folder."""
    own = existing / task.name
    return open_index(existing if (existing / NAME).exists() or not (own / NAME).exists() else own, create=False)


def task_index(
    task: QuestionSet,
    place: Path,
    open_index: Callable[..., Index],
    progress: Callable[[str], AbstractContextManager[Progress]],
    **options: Any,
) -> Index:
    """Index the documents of a set at `place`. Raises UsageError if this index has other documents."""
    with progress(f"Indexing {task.name}") as advance:
        index = open_index(place, progress=advance, **options)
        if others := {one.id for one in index.documents()} - {one.id for one in task.documents}:
            raise UsageError(
                f"{len(others):,} documents in the index at {place} do not belong to {task.name}",
                "name another folder of indexes (--index)",
            )
        index.add(task.documents, progress=advance)
    return index


@dataclass(slots=True)
class SharedIndex:
    """An index of a set, and the methods that use it. `settings` are those of its views."""

    place: Path
    views: dict[str, Json]
    methods: list[tuple[Method, int]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


def shared_indexes(folder: Path, name: str, methods: MethodCells) -> list[SharedIndex]:
    """Assign methods to the indexes of a set. Methods with equal settings of their views share an index.

    Standing indexes are used again. A view without any settings of a method is used as it is.
    """
    found: list[SharedIndex] = []
    while (manifest := place_of(_place(folder, name, len(found))).known()) is not None:
        views = {view: state.settings for view, state in manifest.views.items()}
        found.append(SharedIndex(_place(folder, name, len(found)), views))
    varied = {view for method, _ in methods for view in method.view_settings()}
    for method, budget in methods:
        own = method.view_settings()
        settings = {view: own.get(view) or VIEWS[view].settings() for view in method.all_views if view in varied}
        wanted = stored_settings(settings)
        # each of these views is missing in the index, or has these stored settings
        fitting = [
            one
            for one in found
            if all(view not in one.views or VIEWS[view].is_same(one.views[view], own) for view, own in wanted.items())
        ]
        if not fitting:
            found.append(SharedIndex(_place(folder, name, len(found)), {}))
            fitting = found[-1:]
        # the first index with most of the views
        best = max(fitting, key=lambda one: sum(view in one.views for view in wanted))
        best.views = {**{view: VIEWS[view].dump() for view in method.all_views}, **wanted, **best.views}
        best.settings |= settings
        best.methods.append((method, budget))
    return [one for one in found if one.methods]


def _place(folder: Path, name: str, number: int) -> Path:
    return folder / (f"{name}.{number + 1}" if number else name)
