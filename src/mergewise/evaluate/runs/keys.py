"""Digests: short texts that are equal where what they stand for is."""

from __future__ import annotations

import json
from hashlib import blake2b

from mergewise.evaluate.question_sets import Question


def digest(value: object) -> str:
    """Return the digest of a value as JSON; other objects count by their text."""
    return blake2b(json.dumps(value, sort_keys=True, default=str).encode("utf-8", "replace"), digest_size=6).hexdigest()


def question_digest(question: Question, with_gold: bool) -> str:
    """Of a question as it is asked. `with_gold` also of what it is judged by: without it the gold may be mended, and nothing is
    asked again.
    """
    evidence = question.evidence
    spans = None if evidence is None else [(span.doc_id, span.start, span.end, text) for span, text in evidence]
    gold = [list(question.answers), spans, list(question.gold_docs), list(question.grades)]
    return digest([question.id, question.text, list(question.scope), *(gold if with_gold else ())])
