"""The methods that the papers compare. Each is a strategy, a mode, a judge and the settings of its views.

A method with the judge "reranker" or "utility" needs this model. Without it the method does not run: cosines would be another
method.

The file `methods.toml` lists them. The variants of `aed` start from its preset `paper`. Differences from the paper:

- Passages are those of `aed`. The paper's have 100 words.
- Retrieval is the index's own search. The paper's is Contriever.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mergewise import MODES, STRATEGIES, VIEWS, Models, designs
from mergewise.errors import UsageError, install_command, one_of
from mergewise.extend import (
    CAUSAL,
    RERANKER,
    Lazy,
    Need,
    assignments,
    merge_parts,
    plugins,
    resolve,
    search_settings,
    split_spec,
    split_specs,
    view_settings,
    weights_of,
)
from mergewise.extend import CHAT as NO_CHAT
from mergewise.protocols import Reranker
from mergewise.types import JsonDict, frozen

Judge = Literal["given", "none", "reranker", "utility"]
"""The reranker of a method: the index's own if it has one ("given"), none, a required reranker, or a required predictor."""

NEEDS: Mapping[str, Need[Any]] = {
    "reranker": RERANKER,
    "utility": Need(
        "utility",
        lambda models: models.reranker,
        "a utility predictor",
        "train one with `mergewise train utility`, and set MERGEWISE_UTILITY=cross-encoder:PATH",
    ),
    "causal": CAUSAL,
    "chat": designs.CHAT,
    "scorer": Need("scorer", lambda models: models.scorer, "a scorer", "set MERGEWISE_SCORER=hf:PATH"),
    "umap": Need(
        "umap",
        lambda models: all(map(find_spec, ("umap", "sklearn"))) or None,
        "umap-learn",
        f"run `{install_command('raptor')}`",
    ),
}
"""Models and packages that a row can require, by the name in its `requires`. A judge is the reranker of the method's models."""

ALL = "all"
"""The spec that stands for all strategies."""
OF_SEARCH = "search."
"""Prefix of a search setting among the parameters of a strategy."""


@frozen
class Method:
    """A method: a strategy spec, a mode, a judge and settings of views.

    `mode` is a name in `MODES`, or None for the strategy's preferred mode. `views` lists the views it needs besides those of its
    strategy. A method that `reads_one_prompt` needs no next-token probabilities, even if its mode does. `search` holds settings
    in the form of that setting, and `weights` those of weave's features. Both default to the index's own. `settings` are
    assignments `VIEW.NAME=VALUE`, which override the user's `given` ones. Those of views that the method does not read are
    ignored. Without `is_written`, views have default settings instead of rows by a chat model. `requires` are names in `NEEDS`.
    `probe` is a name in `judged.PROBES`, or empty for a method that answers.
    """

    name: str
    strategy: str
    mode: str | None = None
    judge: Judge = "given"
    about: str = ""
    views: tuple[str, ...] = ()
    reads_one_prompt: bool = False
    search: str = ""
    weights: Mapping[str, float] | None = None
    settings: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    is_written: bool = True
    requires: tuple[str, ...] = ()
    probe: str = ""

    @property
    def all_views(self) -> tuple[str, ...]:
        """The views that the index needs for this method."""
        return tuple(dict.fromkeys(("leaf", *resolve(self.strategy)[0].views, *self.views)))

    @property
    def assigned(self) -> list[str]:
        """The assignments of the views that the method reads, in increasing order of precedence."""
        return [*self._read(self.given), *self._read(self.settings)]

    def _read(self, assigned: Sequence[str]) -> list[str]:
        views = self.all_views
        return [one for one in assigned if one.partition(".")[0].strip() in views]

    def view_settings(self) -> dict[str, Any]:
        """Return the settings of the views that the method reads, by name, for views with assignments."""
        given = view_settings((), self._read(self.given), NO_CHAT)
        known = view_settings((), self._read(self.settings), NO_CHAT, given)
        return {name: own for name, own in known.items() if self.is_written or not is_written(name, own)}

    def with_judge(self, models: Models, utility: Reranker | None = None) -> Models:
        """Return the models with the method's judge as the reranker. Scores are those that a user of --reranker gets."""
        if self.judge in ("given", "reranker"):
            return models
        return replace(models, reranker=utility if self.judge == "utility" else None)

    def with_settings(self, search: str | None, weights: Path | None, given: Sequence[str] = ()) -> Method:
        """Return a copy with these defaults for its own settings. Raises UsageError for an invalid spec, setting or file."""
        own = _assigned({**assignments(search or "", "search"), **assignments(self.search, self.name)})
        search_settings(own)
        view_settings((), given, NO_CHAT)
        resolve(self.strategy)
        return replace(self, search=own, weights=self.weights or weights_of(weights), given=tuple(given))


MethodCells: TypeAlias = Sequence[tuple[Method, int]]
"""Methods, each at a token budget."""


def stored_settings(settings: Mapping[str, Any]) -> dict[str, JsonDict]:
    """Return settings of views as a manifest stores them, with the content of the files that they name."""
    read = {name: with_files(own) if (with_files := VIEWS[name].with_files) else own for name, own in settings.items()}
    return {name: VIEWS[name].dump(own) for name, own in read.items()}


_LISTED = tomllib.loads((files("mergewise.evaluate") / "methods.toml").read_text(encoding="utf-8"))
_OWN = {
    name: Method(name, **{**given, "views": tuple(given.get("views", ()))})
    for name, given in _LISTED["methods"].items()
}
GROUPS: Mapping[str, tuple[Method, ...]] = {
    group: tuple(_OWN[name] for name in names) for group, names in _LISTED["groups"].items()
}


def _methods() -> dict[str, Method]:
    found = plugins("mergewise.methods", Method, "mergewise.evaluate.Method")
    return merge_parts(("mergewise", _OWN), *((one.origin, {one.part.name: one.part}) for one in found))


METHODS: Lazy[Method] = Lazy(_methods)
"""All methods by name, with those of other packages (entry points of the group `mergewise.methods`)."""


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a text, separated by commas."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def methods_of(names: str) -> list[Method]:
    """Return the methods of these names or groups, separated by commas. Raises UsageError for an unknown name."""
    chosen: dict[str, Method] = {}
    for name in names_in(names):
        found = GROUPS.get(name) or ((METHODS[name],) if name in METHODS else ())
        if not found:
            raise UsageError(f"unknown method: {name!r}", one_of(name, [*GROUPS, *METHODS]))
        chosen.update((method.name, method) for method in found)
    if not chosen:
        raise UsageError("missing method name", f"one of: {', '.join([*GROUPS, *METHODS])}")
    return list(chosen.values())


def strategy_methods(specs: str, mode: str | None = None) -> list[Method]:
    """Return strategies as methods that answer in this mode.

    Args:
        specs: specs of strategies, separated by commas, or "all". Besides its own parameters a strategy takes `search.NAME=VALUE`
            for a search setting, and weave takes `weights=FILE`, as `mergewise tune` prints them.
        mode: the mode of all of them, or None for their preferred modes.

    Raises:
        UsageError: if a spec or a file of weights is invalid.
    """
    # the first method is the default reference
    every = sorted(STRATEGIES, key=lambda name: name != "topk")
    names = every if specs.strip() == ALL else split_specs(specs)
    methods = []
    for spec in names:
        name, arguments = split_spec(spec)
        given = assignments(arguments, spec)
        file = given.pop("weights", None) if name == "weave" else None
        search = {key.removeprefix(OF_SEARCH): given.pop(key) for key in list(given) if key.startswith(OF_SEARCH)}
        weights = None if file is None else weights_of(str(file))
        own = spec
        if weights is not None or search:
            own = f"{name}({_assigned(given)})" if given else name
        methods.append(Method(spec, own, mode, search=_assigned(search), weights=weights))
    return methods


def _assigned(given: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items())


def mode_of(method: Method, models: Models) -> str | None:
    """Return the method's mode, or a mode for any chat model if it reads one prompt and no model gives probabilities."""
    mode = None if method.mode is None else MODES.get(method.mode)
    if mode is None or not (method.reads_one_prompt and mode.otherwise) or mode.needs.of(models) is not None:
        return method.mode
    return method.mode if MODES[mode.otherwise].needs.of(models) is None else mode.otherwise


def unmet_needs(
    method: Method, views: Mapping[str, Any], models: Models, answers: bool = True, is_built: bool = True
) -> str:
    """Describe what the method needs and lacks, for a row of a table without figures. Return an empty text if it can run.

    `models` includes the method's judge. `views` maps the views of the index to their stored settings. Needs of the mode count
    only with `answers`, and a chat model that writes views only if they are not built yet.
    """
    strategy = resolve(method.strategy)[0]
    missing = [view for view in method.all_views[1:] if view not in views]
    # the method's settings that differ from the stored ones
    other, asked = [], stored_settings(method.view_settings())
    for view in method.all_views:
        if view in views:
            stored = VIEWS[view].dump(VIEWS[view].load(views[view]))
            own = {key: value for key, value in asked.get(view, {}).items() if key != "prompt"}
            other.append(", ".join(f"{view}.{key}={value}"[:60] for key, value in own.items() if stored[key] != value))
    needs: list[Need[Any]] = [strategy.needs] if strategy.needs is not None else []
    needs += [NEEDS[name] for name in (method.judge, *method.requires) if name in NEEDS]
    whole = {} if is_built else replace(method, is_written=True).view_settings()
    needs += [designs.CHAT for name, own in whole.items() if is_written(name, own)]
    if answers:
        # a method without a mode never lacks one: its strategy's preferred mode has a fallback
        mode = mode_of(method, models)
        needs += [MODES[mode].needs] if mode else []
    absent = {need.what: need.hint for need in needs if need.of(models) is None}
    wants = [
        *(f"the view {view} (--views leaf,{view})" for view in missing),
        *(f"an index with {settings} (--set)" for settings in other if settings),
        *(f"{n} ({h})" for n, h in absent.items()),
    ]
    return f"needs {' and '.join(wants)}" if wants else ""


def is_written(view: str, settings: Any) -> bool:
    """Return whether a chat model writes the rows of a view with these settings."""
    writing = VIEWS[view].writing
    return writing is not None and writing.asks(settings)
