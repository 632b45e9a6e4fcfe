"""Digests: short texts that are equal where what they stand for is."""

from __future__ import annotations

import json
from hashlib import blake2b

from mergewise.evaluate.tasks import Question


def digest(value: object) -> str:
    """Of anything that JSON holds."""
    return blake2b(json.dumps(value, sort_keys=True).encode("utf-8", "replace"), digest_size=6).hexdigest()


def question_digest(question: Question) -> str:
    """Of a question as it is asked: its gold may be mended without asking it again."""
    return digest([question.id, question.text])
