"""Metadata and ids of passages, and the options of `Index.context`, for all frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

from mergewise import Index, Query
from mergewise.extend import MOST_ROWS, Range, options_of, whole
from mergewise.types import Context, Passage, Span

QUERY_OPTIONS = {option.name: option for option in options_of(Query)}
"""The options of `Index.context`. Retrievers accept the same names."""


def with_metadata(context: Context, index: Index, most: int | None = None) -> list[tuple[Passage, dict[str, Any]]]:
    """Pair each passage with the metadata of its document, plus `source`, `title`, `headings` and `spans`.

    The spans are `{"doc", "start", "end"}`, in characters of the document. A passage that was merged from several documents
    has neither `source` nor their metadata.

    Args:
        context: The context with the passages.
        index: The index that assembled the context.
        most: Maximum number of passages. The passages with the highest scores remain, in the order of the context.

    Raises:
        UsageError: if `most` is not a positive integer.
    """
    document = cache(index.store.reader().document)
    described: list[tuple[Passage, dict[str, Any]]] = []
    for passage in _best(context.passages, most):
        spans = [{"doc": span.doc_id, "start": span.start, "end": span.end} for span in passage.spans]
        metadata: dict[str, Any] = {"title": passage.title, "headings": list(passage.headings), "spans": spans}
        sources = {span.doc_id for span in passage.spans}
        if len(sources) == 1:
            (source,) = sources
            known = document(source)
            metadata = {**({} if known is None else known.metadata), "source": source, **metadata}
        described.append((passage, metadata))
    return described


def _best(passages: Sequence[Passage], most: int | None) -> Sequence[Passage]:
    if most is None:
        return passages
    most = whole("limit of passages", most, Range(1, MOST_ROWS))
    ranked = sorted(range(len(passages)), key=lambda at: -passages[at].score)
    return [passages[at] for at in sorted(ranked[:most])]


def id_of(passage: Passage, span: Span | None = None) -> str:
    """Return an id of the passage, or of one of its spans. The id stays the same as long as the text does."""
    spans = passage.spans if span is None else (span,)
    places = ",".join(f"{one.doc_id}:{one.start}-{one.end}" for one in spans)
    return places if passage.verbatim else f"{places}#{blake2b(passage.text.encode(), digest_size=4).hexdigest()}"
