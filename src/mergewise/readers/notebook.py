"""Notebooks (.ipynb): Markdown cells as Markdown, code cells fenced, and their printed output up to a limit. No pictures.

The format is plain JSON, and four of its fields matter. nbformat would add a validator of schemas for them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mergewise.errors import ReadError
from mergewise.readers.builder import Builder, Parsed
from mergewise.readers.decoding import decode
from mergewise.readers.markdown import parse_markdown
from mergewise.readers.metadata import metadata_from
from mergewise.types import JsonDict

# characters of a cell's output
MAX_OUTPUT = 2_000
# A match contains no second `![`, so that each character is looked at twice at most.
_EMBEDDED = re.compile(r"!\[((?:[^\]!]|!(?!\[))*+)\]\(data:(?:[^)!]|!(?!\[))*+\)")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_REPR = re.compile(r"<[\w.]+ (?:object )?at 0x[0-9a-f]+>|<Figure size .*>|Figure\(.*\)")


def read_notebook(data: bytes) -> Parsed:
    try:
        notebook = json.loads(decode(data))
        # version 4, or the first worksheet of version 3
        cells = [*(notebook if "cells" in notebook else notebook["worksheets"][0])["cells"]]
    except json.JSONDecodeError as error:
        raise ReadError(f"not a notebook: invalid JSON in line {error.lineno}") from error
    except (KeyError, IndexError, TypeError) as error:
        raise ReadError("JSON, but not a notebook") from error
    described = _dict(notebook.get("metadata"))
    language = _dict(described.get("kernelspec")).get("language") or _dict(described.get("language_info")).get("name")
    builder = Builder()
    for cell in _dicts(cells):
        _cell(cell, str(language or "").lower(), builder)
    authors = described.get("authors")
    names = (_source_text(own) or _dict(own).get("name", "") for own in (authors if isinstance(authors, list) else ()))
    metadata = metadata_from([*(("author", name) for name in names), ("date", described.get("date") or "")])
    return builder.build(_source_text(described.get("title")), metadata)


def _cell(cell: JsonDict, language: str, builder: Builder) -> None:
    source = _source_text(cell.get("source", cell.get("input")))
    kind = cell.get("cell_type")
    if kind == "markdown":
        markdown = "\n".join(line.rstrip() for line in _EMBEDDED.sub(r"![\1]", source).split("\n"))
        builder.part(parse_markdown(decode(markdown.encode("utf-8", "replace")).strip("\n")))
    elif kind == "heading":
        # only in version 3
        level = cell.get("level")
        builder.heading(level if isinstance(level, int) and 1 <= level <= 6 else 1, source)
    elif kind == "code" and source.strip():
        builder.verbatim(_code_block(source, language))
        printed = "".join(map(_output_text, _dicts(cell.get("outputs"))))
        if printed.strip():
            printed = printed.strip("\n")
            if len(printed) > MAX_OUTPUT:
                start = printed[:MAX_OUTPUT]
                printed = f"{start.rpartition(chr(10))[0] or start}\n..."
            builder.verbatim(_code_block(printed, "text"))
    elif kind == "raw":
        builder.verbatim(source)


def _output_text(output: JsonDict) -> str:
    if output.get("output_type") in ("error", "pyerr"):
        return f"{output.get('ename', '')}: {output.get('evalue', '')}\n"
    holder = output.get("data")
    text = holder.get("text/plain") if isinstance(holder, dict) else output.get("text")
    text = _ANSI.sub("", _source_text(text))
    return "" if _REPR.fullmatch(text.strip()) else text.rstrip("\n") + "\n"


def _code_block(source: str, language: str) -> str:
    fence = "```" if "```" not in source else "~~~~"
    return f"{fence}{language}\n{source.strip(chr(10))}\n{fence}"


def _source_text(source: Any) -> str:
    """Return a text, which may be written as a list of lines."""
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _dicts(value: Any) -> list[JsonDict]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _dict(value: Any) -> JsonDict:
    return value if isinstance(value, dict) else {}
