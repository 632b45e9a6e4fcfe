"""Parsing of strategy specs, `name` or `name(parameter=value, ...)`, and of view settings, `VIEW.NAME=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from mergewise.defaults import CHAT
from mergewise.designs import VIEWS
from mergewise.errors import UsageError, did_you_mean
from mergewise.ranges import hints_of, short_repr, value_of
from mergewise.store.views import Presets, views_of

if TYPE_CHECKING:
    from mergewise.retrieve.hybrid import SearchSettings

_SPEC = re.compile(r"(?P<name>[\w-]+)\s*(?:\((?P<arguments>[^()]*)\))?")
_COMMA = re.compile(r",(?![^()]*\))")


def split_specs(text: str) -> list[str]:
    """Split a list of specs at its commas. Commas in parentheses separate parameters and do not split."""
    return [spec.strip() for spec in _COMMA.split(text) if spec.strip()]


def split_spec(spec: str) -> tuple[str, str]:
    """Split a spec into its name and the text in parentheses. An invalid spec is returned as a name, unchanged."""
    match = _SPEC.fullmatch(spec.strip())
    return (match["name"], match["arguments"] or "") if match else (spec, "")


def assignments(arguments: str, spec: str) -> dict[str, object]:
    """Parse the `arguments` in the parentheses of `spec` into a dictionary. Values stay text."""
    given: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in arguments.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"invalid assignment in {spec!r}: {part!r}", "write name(parameter=value, ...)")
        given[key.strip()] = value.strip()
    return given


def with_parameters(defaults: Any, given: Mapping[str, object], name: str, presets: Presets | None = None) -> Any:
    """Return `defaults` with the `given` parameters, converted to their types and checked against their ranges.

    `preset=NAME` sets all parameters of this preset. A parameter that is also given on its own overrides the preset.
    """
    if presets and "preset" in given:
        preset = given["preset"]
        if not isinstance(preset, str) or preset not in presets:
            raise UsageError(f"{name} has no preset {short_repr(preset)}", f"it has: {', '.join(presets)}")
        given = {**presets[preset], **{key: value for key, value in given.items() if key != "preset"}}
    if not given:
        return defaults
    hints = hints_of(type(defaults))
    known = [field.name for field in fields(defaults)]
    for key in given:
        if key not in known:
            named = f"; presets: {', '.join(presets)}" if presets else ""
            hint = f"{did_you_mean(key, known)}it has: {', '.join(known)}{named}"
            raise UsageError(f"{name} has no parameter {short_repr(key)}", hint)
    return replace(defaults, **{key: value_of(f"{key} of {name}", value, hints[key]) for key, value in given.items()})


def search_settings(text: str, what: str = "the search", standing: SearchSettings | None = None) -> SearchSettings:
    """Parse search settings such as `weight=0.5, depth=200`. Settings not in the text keep their `standing` values."""
    from mergewise.retrieve.hybrid import SearchSettings

    chosen: SearchSettings = with_parameters(standing or SearchSettings(), assignments(text, text), what)
    return chosen


def view_settings(
    views: Sequence[str], assignments: Sequence[str], chat: str, standing: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return settings of views by name, from assignments `VIEW.NAME=VALUE`. With a chat model a view may have other defaults.

    A view without an assignment has no entry: it keeps its `standing` settings, its settings in an index, or the defaults.
    """
    values: dict[str, dict[str, object]] = {}
    for assignment in assignments:
        view, dot, setting = assignment.partition(".")
        name, equals, value = setting.partition("=")
        if not (dot and equals):
            raise UsageError(f"invalid setting: {assignment!r}", "write --set VIEW.NAME=VALUE, such as slice.chunk=300")
        values.setdefault(view.strip(), {})[name.strip()] = value.strip()
    settings = dict(standing or {})
    for known in views_of(VIEWS, [*views, *values]):
        chosen = {**(known.with_chat if chat != CHAT else {}), **values.get(known.name, {})}
        if chosen:
            before = settings.get(known.name) or known.settings()
            settings[known.name] = with_parameters(before, chosen, f"the view {known.name}", known.presets)
    return settings
