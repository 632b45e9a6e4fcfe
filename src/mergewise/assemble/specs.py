"""Specs: a strategy and its parameters as text, `name` or `name(parameter=value, ...)`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mergewise.errors import UsageError

_SPEC = re.compile(r"(?P<name>[\w-]+)\s*(?:\((?P<arguments>[^()]*)\))?")
_SWITCHES = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
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


def with_new_names(given: Mapping[str, object], renamed: Mapping[str, str], name: str) -> dict[str, object]:
    """The parameters under their present names; an old name is accepted with a warning."""
    for old in given.keys() & renamed.keys():
        message = f"{name}: the parameter {old!r} is now called {renamed[old]!r}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
    return {renamed.get(key, key): value for key, value in given.items()}


def with_parameters(defaults: Any, given: Mapping[str, object], name: str) -> Any:
    """The parameters of the strategy `name`, checked and converted to their types."""
    hints = get_type_hints(type(defaults))
    known = [field.name for field in fields(defaults)]
    for key in given:
        if key not in known:
            raise UsageError(f"{name} has no parameter {key!r}", f"it has: {', '.join(known)}")
    return replace(defaults, **{key: _converted(key, value, hints[key], name) for key, value in given.items()})


def _converted(key: str, value: object, wanted: Any, name: str) -> object:
    """The value converted to the parameter's type; a switch may be written in words."""
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            raise UsageError(f"{name}: {key} cannot be {value!r}", f"one of: {', '.join(get_args(wanted))}")
        return value
    if wanted is bool:
        return _switch(key, value, name)
    if get_origin(wanted) is tuple:
        return tuple(value.split("+")) if isinstance(value, str) else value
    try:
        converted = wanted(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name}: {key} cannot be {value!r}", f"it is of type {wanted.__name__}") from None
    if converted < 0:
        raise UsageError(f"{name}: {key} cannot be negative", "give 0 or more")
    return converted


def _switch(key: str, value: object, name: str) -> bool:
    switch = _SWITCHES.get(str(value).lower())
    if switch is None:
        raise UsageError(f"{name}: {key} cannot be {value!r}", "true or false")
    return switch
