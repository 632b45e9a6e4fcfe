"""Markdown for the pages of the reference: tables, wrapped text and docstrings in Google style."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from docstring_parser import Docstring
from docstring_parser.google import GoogleParser

from mergewise.ranges import range_of

WIDTH = 100
_PARSER = GoogleParser()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def wrapped(text: str) -> str:
    return "\n\n".join(p if p.startswith("#") else _filled(p) for p in text.strip().split("\n\n")) + "\n"


def _filled(paragraph: str) -> str:
    """Fill lines of up to `WIDTH` characters. Code between backticks stays on one line."""
    whole = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), " ".join(paragraph.split()))
    return textwrap.fill(whole, WIDTH, break_on_hyphens=False, break_long_words=False).replace("\0", " ")


def code_block(text: str, language: str = "python") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


# -- docstrings


def documented(thing: Any) -> str:
    """Return the docstring as Markdown: paragraphs and code, then its sections as lists."""
    parsed = _PARSER.parse(inspect.getdoc(thing) or "")
    return "\n".join((*_prose(parsed), *_sections(parsed)))


def _prose(parsed: Docstring) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", parsed.description or ""):
        lines = paragraph.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            yield code_block(textwrap.dedent(paragraph))
        elif any(re.match(r"\s*(?:[-*]|\d+\.) ", line) for line in lines[1:]) or re.match(r"\s*[-*] ", paragraph):
            yield paragraph + "\n"
        elif lines:
            yield wrapped(paragraph)


def _sections(parsed: Docstring) -> Iterator[str]:
    arguments = [(f"`{one.arg_name}`", one.description) for one in parsed.params if one.args[0] != "attribute"]
    attributes = [(f"`{one.arg_name}`", one.description) for one in parsed.params if one.args[0] == "attribute"]
    raises = [(f"`{one.type_name}`", one.description) for one in parsed.raises]
    for title, listed in (("Arguments", arguments), ("Attributes", attributes)):
        yield from _list(title, listed)
    for returned in parsed.many_returns:
        title = "Yields" if returned.is_generator else "Returns"
        text = f"{returned.type_name}: {returned.description}" if returned.type_name else returned.description
        yield wrapped(f"**{title}**: {text}")
    yield from _list("Raises", raises)


def _list(title: str, listed: list[tuple[str, str | None]]) -> Iterator[str]:
    if listed:
        lines = (f"- {name}: {' '.join((text or '').split())}" for name, text in listed)
        yield f"**{title}**:\n\n" + "\n".join(lines) + "\n"


def summary(thing: Any) -> str:
    """Return the first sentence of the docstring."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", text)[0]


def signature(name: str, function: Any) -> str:
    """Return the call as code, on one line if it fits."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    written = [_parameter(p) for p in parameters]
    first = next((i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), None)
    if first is not None and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        written.insert(first, "*")
    returns = inspect.signature(function).return_annotation
    gives = "" if returns is inspect.Signature.empty else f" -> {_type(returns)}"
    short = f"{name}({', '.join(written)}){gives}"
    lines = [f"{name}(", *(f"    {w}," for w in written), f"){gives}"] if len(short) > WIDTH else [short]
    return code_block("\n".join(lines))


def _parameter(parameter: inspect.Parameter) -> str:
    star = (
        "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    )
    kind = "" if parameter.annotation is parameter.empty else f": {_type(parameter.annotation)}"
    default = "" if parameter.default is parameter.empty else f" = {_code(parameter.default)}"
    return f"{star}{parameter.name}{kind}{default}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _code(default: Any) -> str:
    return str(default.__name__) if inspect.isfunction(default) else repr(default)


# -- dataclasses of settings


def settings_table(kind: type, settings: Any = None) -> str:
    """Return the fields of a dataclass with types, defaults and the meanings that their types give.

    Args:
        kind: The dataclass.
        settings: A record with the defaults. Without it, the defaults of the class are shown.
    """
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError:  # a name that only type checkers import
        hints = {f.name: f.type for f in fields(kind)}
    rows = [(f"`{f.name}`", *_typed(hints[f.name]), _default(f, settings)) for f in fields(kind)]
    if not any(meaning for _, _, meaning, _ in rows):
        return table(("name", "type", "default"), ((name, what, default) for name, what, _, default in rows))
    return table(
        ("name", "type", "default", "meaning"),
        ((name, what, default, meaning) for name, what, meaning, default in rows),
    )


def _default(field: Any, settings: Any) -> str:
    if settings is not None:
        return f"`{written_value(getattr(settings, field.name))}`"
    if field.default is not MISSING:
        return "" if field.default in (None, "", ()) else f"`{written_value(field.default)}`"
    return "" if field.default_factory is not MISSING else "required"


def written_value(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _typed(hint: Any) -> tuple[str, str]:
    """Return the type in words with its range, and the meaning, the last text of an `Annotated` type."""
    meaning, limits = "", range_of(hint)
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        meaning = next((note for note in reversed(notes) if isinstance(note, str)), "")
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint)), meaning
    kind = {bool: "switch", int: "whole number", float: "number"}.get(hint, f"`{_short(hint)}`")
    return kind if limits is None else f"{kind}, {limits}", meaning


def _short(hint: Any) -> str:
    """Return a type without the modules of its names."""
    if isinstance(hint, str):
        return hint
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", _type(hint) if not isinstance(hint, type) else hint.__name__)
