"""Strategies with parameters as text, `name` or `name(parameter=value, ...)`, and settings of views, `VIEW.NAME=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from mergewise.defaults import CHAT
from mergewise.designs import VIEWS
from mergewise.errors import UsageError
from mergewise.ranges import hints_of, short_repr, value_of
from mergewise.store.views import Presets, views_of

if TYPE_CHECKING:
    from mergewise.retrieve.hybrid import SearchSettings

_SPEC = re.compile(r"(?P<name>[\w-]+)\s*(?:\((?P<arguments>[^()]*)\))?")
_COMMA = re.compile(r",(?![^()]*\))")


def split_specs(text: str) -> list[str]:
    """Specs separated by commas; commas between brackets separate parameters."""
    return [spec.strip() for spec in _COMMA.split(text) if spec.strip()]


def split_spec(spec: str) -> tuple[str, str]:
    """The name, and what stands between the brackets. A text that is no spec is taken for a name as it is."""
    match = _SPEC.fullmatch(spec.strip())
    return (match["name"], match["arguments"] or "") if match else (spec, "")


def assignments(arguments: str, spec: str) -> dict[str, object]:
    """The `arguments` between the brackets of `spec` as a dictionary, the values as they are written."""
    given: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in arguments.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"{part!r} in {spec!r} sets nothing", "write name(parameter=value, ...)")
        given[key.strip()] = value.strip()
    return given


def with_parameters(defaults: Any, given: Mapping[str, object], name: str, presets: Presets | None = None) -> Any:
    """The parameters of the strategy or view `name`, converted to their types and held to their ranges.

    `preset=NAME` sets all that the preset of this name does; what is given beside it wins.
    """
    given = _unfolded(given, name, presets or {})
    if not given:
        return defaults
    hints = hints_of(type(defaults))
    known = [field.name for field in fields(defaults)]
    for key in given:
        if key not in known:
            named = f"; presets: {', '.join(presets)}" if presets else ""
            raise UsageError(f"{name} has no parameter {short_repr(key)}", f"it has: {', '.join(known)}{named}")
    chosen = {key: value_of(f"{name}: {key} cannot be", value, hints[key]) for key, value in given.items()}
    return replace(defaults, **chosen)


def search_settings(text: str, what: str = "the search", standing: SearchSettings | None = None) -> SearchSettings:
    """Settings of the search from a text as `weight=0.5, depth=200`; what it does not name is as in those that stand."""
    from mergewise.retrieve.hybrid import SearchSettings

    chosen: SearchSettings = with_parameters(standing or SearchSettings(), assignments(text, text), what)
    return chosen


def _unfolded(given: Mapping[str, object], name: str, presets: Presets) -> dict[str, object]:
    own = dict(given)
    if not presets or "preset" not in own:
        return own
    preset = own.pop("preset")
    if not isinstance(preset, str) or preset not in presets:
        raise UsageError(f"{name} has no preset {short_repr(preset)}", f"it has: {', '.join(presets)}")
    return {**presets[preset], **own}


def view_settings(views: Sequence[str], assignments: Sequence[str], chat: str) -> dict[str, Any]:
    """Settings of views by name, from assignments `VIEW.NAME=VALUE`. With a chat model a view may have other defaults.

    A view without an assignment has no entry: it keeps its settings, or gets the default ones.
    """
    values: dict[str, dict[str, object]] = {}
    for assignment in assignments:
        view, dot, setting = assignment.partition(".")
        name, equals, value = setting.partition("=")
        if not (dot and equals):
            raise UsageError(f"{assignment!r} sets nothing", "write --set VIEW.NAME=VALUE, such as slice.chunk=300")
        values.setdefault(view.strip(), {})[name.strip()] = value.strip()
    settings = {}
    for known in views_of(VIEWS, [*views, *values]):
        chosen = {**(known.with_chat if chat != CHAT else {}), **values.get(known.name, {})}
        if chosen:
            settings[known.name] = with_parameters(known.settings(), chosen, f"the view {known.name}", known.presets)
    return settings
