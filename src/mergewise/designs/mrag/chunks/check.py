"""What `check` demands of a document's chunks: they tile it, and their texts are those of their spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from mergewise.designs.mrag.chunks.records import TextChunk
from mergewise.types import DocumentRows


def problems(table: str, rows: DocumentRows, settings: Any, dimension: int) -> Iterator[str]:
    """What is wrong with one document's chunks in this table."""
    text = rows.document.text
    chunks: Sequence[TextChunk] = rows[table]
    if not chunks:
        yield f"has no {table} chunks"
        return
    ends = [0, *(chunk.end for chunk in chunks)]
    if (
        [chunk.start for chunk in chunks] != ends[:-1]
        or ends[-1] != len(text)
        or any(a >= b for a, b in pairwise(ends))
    ):
        yield f"the {table} chunks do not tile the document"
    if any(text[chunk.start : chunk.end] != chunk.text for chunk in chunks):
        yield f"a {table} chunk's text is not the text of its span"
    if any(not chunk.start <= chunk.body <= chunk.end for chunk in chunks):
        yield f"a {table} chunk begins outside of itself"
