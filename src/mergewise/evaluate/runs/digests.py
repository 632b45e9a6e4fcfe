"""Digests: short texts that are equal for equal values."""

from __future__ import annotations

import json
from hashlib import blake2b

from mergewise.evaluate.question_sets import Question


def digest(value: object) -> str:
    """Return the digest of a value as JSON. Objects that JSON lacks are converted by `str`."""
    return blake2b(json.dumps(value, sort_keys=True, default=str).encode("utf-8", "replace"), digest_size=6).hexdigest()


def question_digest(question: Question, with_gold: bool) -> str:
    """Return the digest of a question, and of its gold if `with_gold`.

    Without the gold, a corrected gold answer does not invalidate the model's answer.
    """
    evidence = question.evidence
    spans = None if evidence is None else [(span.doc_id, span.start, span.end, text) for span, text in evidence]
    gold = [list(question.answers), spans, list(question.gold_docs), list(question.grades)]
    return digest([question.id, question.text, list(question.scope), *(gold if with_gold else ())])
