"""The table of scripts and languages, `languages.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).parent / "languages.toml"


class LanguageRow(NamedTuple):
    """A row of the table. The file describes the fields. A language missing there has their defaults."""

    script: str = "latin"
    names: str = ""
    stemmer: str = ""
    words: str = ""


class LanguageTable(NamedTuple):
    """Ranges of letters by script, and languages by code, both in the order of the file."""

    scripts: Mapping[str, str]
    languages: Mapping[str, LanguageRow]


@cache
def language_table() -> LanguageTable:
    """Read the table on first use. An index in English needs it only while documents are added."""
    with _FILE.open("rb") as file:
        table = tomllib.load(file)
    return LanguageTable(table["scripts"], {code: LanguageRow(**row) for code, row in table["languages"].items()})


def language_of(code: str) -> LanguageRow:
    """Return the row of a language, or an empty one if it is missing."""
    return language_table().languages.get(code, LanguageRow())
