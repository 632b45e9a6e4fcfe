"""Lines of a text, numbered from 1 as editors do."""

from __future__ import annotations

from pathlib import PurePath

# Formats whose text is made from the file: a line of it is no line of the file.
CONVERTED = frozenset(
    ".csv .docx .eml .epub .htm .html .ipynb .json .jsonl .mbox .ndjson .nxml .odt .pdf .pptx .tsv .xhtml .xlsx .xml".split()
)


def has_lines(doc_id: str) -> bool:
    """Whether lines of this document are lines of its source, by the suffix of its id."""
    return PurePath(doc_id).suffix.lower() not in CONVERTED


def line_at(text: str, offset: int) -> int:
    """The number of the line that holds this offset."""
    return text.count("\n", 0, offset) + 1


def line_starts(text: str) -> list[int]:
    """The offsets at which lines begin."""
    starts = [0]
    while found := text.find("\n", starts[-1]) + 1:
        starts.append(found)
    return starts
