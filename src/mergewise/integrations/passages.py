"""What all frameworks get of a passage, and what their retrievers take of the arguments of `Index.context`."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from typing import Any

from mergewise.engine import Index
from mergewise.types import Context, Passage, Span

ARGUMENTS = ("strategy", "budget", "where", "parameters", "rounds")


def with_metadata(context: Context, index: Index) -> list[tuple[Passage, dict[str, Any]]]:
    """Each passage with the metadata of its document, and `source`, `title`, `headings` and `spans` added.

    The spans are `{"doc", "start", "end"}`, in characters of the document. A passage that was merged from several documents
    has `source` and the metadata of none of them.
    """
    document = cache(index.store.reader().document)
    described: list[tuple[Passage, dict[str, Any]]] = []
    for passage in context.passages:
        spans = [{"doc": span.doc_id, "start": span.start, "end": span.end} for span in passage.spans]
        metadata: dict[str, Any] = {"title": passage.title, "headings": list(passage.headings), "spans": spans}
        sources = {span.doc_id for span in passage.spans}
        if len(sources) == 1:
            (source,) = sources
            known = document(source)
            metadata = {**({} if known is None else known.metadata), "source": source, **metadata}
        described.append((passage, metadata))
    return described


def id_of(passage: Passage, span: Span | None = None) -> str:
    """A name of the passage, or of one span of it, that stays the same as long as the text does."""
    spans = passage.spans if span is None else (span,)
    places = ",".join(f"{one.doc_id}:{one.start}-{one.end}" for one in spans)
    return places if passage.verbatim else f"{places}#{blake2b(passage.text.encode(), digest_size=4).hexdigest()}"
