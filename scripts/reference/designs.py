"""The page of strategies, modes, views and models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from mergewise.defaults import CAUSAL, CHAT, EMBEDDER, RERANKER, SCORER
from mergewise.designs import MODES, STRATEGIES, VIEWS
from mergewise.models import CAUSALS, CHATS, EMBEDDERS, RERANKERS, SCORERS
from mergewise.store.views import Presets
from scripts.reference.markup import documented, settings_table, table, wrapped, written_value

SPECS = (
    ("embedder", "--embedder", EMBEDDERS, EMBEDDER),
    ("chat model", "--chat", CHATS, CHAT),
    ("reranker", "--reranker", RERANKERS, RERANKER),
    ("scorer", "MERGEWISE_SCORER", SCORERS, SCORER),
    ("causal model", "MERGEWISE_CAUSAL", CAUSALS, CAUSAL),
)


def page() -> str:
    sections = (_strategies(), _modes(), _views(), _models())
    return "\n".join(["# Strategies, modes, views and models\n", *("\n".join(section) for section in sections)])


def _strategies() -> Iterator[str]:
    yield "## Strategies\n"
    yield wrapped(
        "Write parameters in brackets, as in `auto-merge(mode=always, k=24)`, or pass them as `parameters` in Python. A switch "
        "is `on` or `off`."
    )
    for kind, names in _by_parameters().items():
        yield f"### {', '.join(f'`{name}`' for name in names)}\n"
        for name in names:
            yield wrapped(f"`{name}`: {STRATEGIES[name].summary}{_own(name, kind)}.")
        yield settings_table(kind, kind())
        yield from _presets(STRATEGIES[names[0]].presets)


def _by_parameters() -> dict[type, list[str]]:
    """Group the names of strategies by the class of their parameters."""
    found: dict[type, list[str]] = {}
    for name, strategy in STRATEGIES.items():
        found.setdefault(type(strategy.parameters), []).append(name)
    return found


def _own(name: str, kind: type) -> str:
    """Return the defaults and views that set a strategy apart from others with the same parameters."""
    chosen, usual = STRATEGIES[name].parameters, kind()
    own = [f.name for f in fields(kind) if getattr(chosen, f.name) != getattr(usual, f.name)]
    notes = [f"`{field}` is `{getattr(chosen, field)}`" for field in own]
    notes += [f"needs the view `{view}`" for view in STRATEGIES[name].views]
    return "".join(f"; {note}" for note in notes)


def _modes() -> Iterator[str]:
    yield "## Modes\n"
    rows = ((f"`{name}`", mode.summary, mode.needs.name) for name, mode in MODES.items())
    yield table(("mode", "source of the answer", "model it needs"), rows)


def _views() -> Iterator[str]:
    yield "## Views\n"
    yield wrapped(
        'Add a view with `--views`, or `views=` of `open`. In Python, `settings={"slice": SliceSettings(...)}` changes its '
        "settings. They are fixed once an index has the view."
    )
    for name, view in VIEWS.items():
        yield f"### View `{name}`\n"
        tables = ", ".join(f"`{one.name}`" for one in view.tables(view.settings()))
        yield wrapped(f"Tables: {tables}. Settings: `mergewise.{view.settings.__name__}`.")
        yield documented(view.settings)
        yield settings_table(view.settings, view.settings())
        yield from _presets(view.presets)


def _presets(presets: Presets) -> Iterator[str]:
    for name, sets in presets.items():
        listed = ", ".join(f"`{parameter}={written_value(value)}`" for parameter, value in sets.items())
        yield wrapped(f"`preset={name}` sets {listed}.")


def _models() -> Iterator[str]:
    yield "## Models\n"
    yield "An option takes a spec: a kind, and for most kinds a colon and a name or a path.\n"
    rows = (
        (what, f"`{option}`", ", ".join(f"`{form}`" for form in sorted(forms)), f"`{default}`")
        for what, option, forms, default in SPECS
    )
    yield table(("model", "option", "forms", "default"), rows)
