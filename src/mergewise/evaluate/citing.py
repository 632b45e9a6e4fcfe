"""Scores of an answer's citations against the marked evidence, or else against the gold documents.

    citation_precision   the share of citations that overlap gold
    citation_recall      the share of gold that a citation overlaps

A citation overlaps evidence if their spans overlap, or if one text contains the other: hand-written question sets have no spans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.words import normalise
from mergewise.types import Citation, Span

CITATION_SCORES = ("citation_precision", "citation_recall")


def score_citations(citations: Sequence[Citation], question: Question) -> Mapping[str, float | None]:
    """Return both scores by name. They are None without gold. The precision is None without citations, too."""
    if question.evidence:
        hits = [[_overlaps(citation, *piece) for piece in question.evidence] for citation in citations]
        count = len(question.evidence)
    else:
        documents = sorted(question.documents)
        hits = [[citation.span.doc_id == document for document in documents] for citation in citations]
        count = len(documents)
    precision = sum(map(any, hits)) / len(hits) if hits and count else None
    recall = sum(any(row[place] for row in hits) for place in range(count)) / count if count else None
    return dict(zip(CITATION_SCORES, (precision, recall), strict=True))


def _overlaps(citation: Citation, gold: Span, text: str) -> bool:
    if gold.doc_id not in ("", citation.span.doc_id):
        return False
    ours, theirs = normalise(citation.text), normalise(text)
    if ours.strip() and theirs.strip() and (ours in theirs or theirs in ours):
        return True
    shared = _overlap_text(citation.text, citation.span, gold)
    # equal texts show that both spans are of the same document, as gold may lack its document
    return bool(shared) and shared == _overlap_text(text, gold, citation.span)


def _overlap_text(text: str, own: Span, other: Span) -> str:
    """Return the part of a text, whose span is `own`, that lies within the other span."""
    start, end = max(own.start, other.start), min(own.end, other.end)
    return normalise(text[start - own.start : max(0, end - own.start)]).strip()
