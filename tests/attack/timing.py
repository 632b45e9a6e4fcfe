"""A reader for the sandbox that measures its CPU time, including splitting the text into units."""

from __future__ import annotations

from pathlib import Path
from time import process_time

from mergewise.errors import ReadError
from mergewise.readers import ReadFile, read_file
from mergewise.text.units import split_units
from mergewise.types import Document


def read_timed(path: Path, *, id: str | None = None) -> ReadFile:
    """Return a document with the seconds as its text, and the text's beginning or the error as its title."""
    began = process_time()
    try:
        text = read_file(path, id=id).document.text
        split_units(text)
    except ReadError as error:
        text = error.message
    return ReadFile(Document(id or "", repr(process_time() - began), text[:80]), "")
