"""FlashRAG (Jin et al. 2024): JSON lines with `question`, `golden_answers` and the `metadata` of the set that they come from.

Where the metadata holds the paragraphs of HotpotQA or 2Wiki, these are the pool. Else the questions are asked of an index that
stands.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mergewise.evaluate.loaders import hotpotqa
from mergewise.evaluate.loaders.rows import Loader, Pool, Record, Sample, SetReader, bare_name, texts
from mergewise.evaluate.question_sets import Question, QuestionSet


def load(path: Path, rows: SetReader) -> QuestionSet:
    pool = Pool()
    numbered = ((place, (place, row)) for place, row in rows.records(path))
    questions = tuple(rows.questions(path, numbered, lambda one: _question(*one, pool)))
    return rows.task(path, bare_name(path), pool.documents, questions)


def _question(place: str, row: Record, pool: Pool) -> Question:
    own, answers = str(row.get("id") or place), texts(row["golden_answers"])
    known = row.get("metadata") or {}
    if "context" in known and "supporting_facts" in known:
        found = hotpotqa.question_of({**known, "id": own, "question": row["question"]}, pool)
        return replace(found, answers=answers)
    return Question(own, row["question"], answers, None, kind=str(known.get("type") or ""))


def _sniff(sample: Sample) -> bool:
    return {"question", "golden_answers"} <= sample.record.keys()


LOADER = Loader(_sniff, load, "FlashRAG, as JSON lines")
