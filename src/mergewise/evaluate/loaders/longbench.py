"""LongBench (Bai et al. 2024): JSON lines with `input`, `context` and `answers`; each question is asked of its own context.

A context of numbered passages ("Passage 1:") becomes a document for each, with its first line as the title. Any other
context is one document. Rows of the same context are one cluster. Which passages answer is not known.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path

from mergewise.evaluate.loaders.rows import Loader, Pool, Record, Sample, SetReader, bare_name, texts
from mergewise.evaluate.question_sets import Question, QuestionSet

_PASSAGE = re.compile(r"^(?:Passage |段落|文章)\d+[:：]?[ \t]*\n", re.MULTILINE)


def load(path: Path, rows: SetReader) -> QuestionSet:
    pool = Pool()
    numbered = ((place, (place, row)) for place, row in rows.records(path))
    questions = tuple(rows.questions(path, numbered, lambda one: _question(*one, pool)))
    return rows.task(path, bare_name(path), pool.documents, questions)


def _question(place: str, row: Record, pool: Pool) -> Question:
    context = row["context"]
    scope = tuple(dict.fromkeys(pool.add(title, text) for title, text in passages_of(context)))
    cluster = blake2b(context.encode("utf-8", "replace"), digest_size=6).hexdigest()
    name = str(row.get("_id") or place)
    return Question(
        name, row["input"], texts(row["answers"]), None, kind=row.get("dataset") or "", scope=scope, cluster=cluster
    )


def passages_of(context: str) -> list[tuple[str, str]]:
    """Titles and texts of the passages of a context, in order."""
    bounds = [(match.start(), match.end()) for match in _PASSAGE.finditer(context)]
    if not bounds or context[: bounds[0][0]].strip():
        return [("", context)]
    ends = [start for start, _ in bounds[1:]] + [len(context)]
    pieces = [context[start:end].strip().partition("\n") for (_, start), end in zip(bounds, ends, strict=True)]
    return [(title, text or title) for title, _, text in pieces if title]


def _sniff(sample: Sample) -> bool:
    return {"input", "context", "answers"} <= sample.record.keys()


LOADER = Loader(_sniff, load, "LongBench, as JSON lines")
