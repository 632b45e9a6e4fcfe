"""How well an answer cites: beside the marked evidence, else beside the gold documents.

    citation_precision   the share of the citations that overlap gold
    citation_recall      the share of the gold that some citation overlaps

A citation overlaps evidence where both stand in the same place of a document, or one holds the words of the other: question sets
that people write name no places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.words import normalise
from mergewise.types import Citation, Span

CITATION_SCORES = ("citation_precision", "citation_recall")


def score_citations(citations: Sequence[Citation], question: Question) -> Mapping[str, float | None]:
    """Both scores by name. None where nothing is gold, and the precision of no citations."""
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
    shared = _stretch(citation.text, citation.span, gold)
    return bool(shared) and shared == _stretch(text, gold, citation.span)


def _stretch(text: str, own: Span, other: Span) -> str:
    """What a text has of the stretch that both spans share. It is the same for both where both places are of one document."""
    start, end = max(own.start, other.start), min(own.end, other.end)
    return normalise(text[start - own.start : max(0, end - own.start)]).strip()
