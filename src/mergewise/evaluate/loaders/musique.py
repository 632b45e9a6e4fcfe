"""MuSiQue (Trivedi et al. 2022): JSON lines, each question with twenty paragraphs and the hops that lead to its answer.

Where every question can be answered, all paragraphs of a file are one pool. Where some cannot (MuSiQue-Full has each question
twice, once without a paragraph that it needs), each question is asked of its own paragraphs, since its twin's would answer it. A
pair is one cluster.

Gold are the supporting paragraphs. Evidence is, for each hop, the sentence of its paragraph that holds the hop's answer; where a
paragraph does not hold it, no evidence is marked.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mergewise.evaluate.loaders.rows import (
    BadRow,
    Loader,
    Pool,
    Record,
    Sample,
    SetReader,
    bare_name,
    sentence_at,
    texts,
)
from mergewise.evaluate.question_sets import Evidence, Question, QuestionSet


def load(path: Path, rows: SetReader) -> QuestionSet:
    pool = Pool()
    records = list(rows.records(path))
    is_full = any(row.get("answerable") is False for _, row in records)
    questions = tuple(rows.questions(path, records, lambda row: question_of(row, pool, is_full)))
    return rows.task(path, bare_name(path), pool.documents, questions)


def question_of(row: Record, pool: Pool, is_full: bool = False) -> Question:
    """A question whose paragraphs are in the pool then; `is_full` where it is asked of these alone."""
    ids = {one.get("idx", place): _add(one, pool) for place, one in enumerate(row["paragraphs"])}
    own, kind = str(row["id"]), str(row["id"]).split("__")[0]
    question = Question(
        own,
        row["question"],
        (),
        None,
        kind=kind,
        hops=int(kind[0]) if kind[:1].isdigit() else None,
        scope=tuple(dict.fromkeys(ids.values())) if is_full else (),
        cluster=own,
    )
    if row.get("answerable") is False:
        return replace(question, id=f"{own}#unanswerable")
    answers = texts([row["answer"], *(row.get("answer_aliases") or ())])
    if not answers:
        raise BadRow("has no answer")
    supporting = [one.get("idx", place) for place, one in enumerate(row["paragraphs"]) if one.get("is_supporting")]
    gold = tuple(dict.fromkeys(ids[place] for place in supporting))
    return replace(question, answers=answers, evidence=_evidence(row, ids, pool), gold_docs=gold)


def _add(paragraph: Record, pool: Pool) -> str:
    return pool.add(paragraph["title"], paragraph.get("paragraph_text") or paragraph.get("text") or "")


def _evidence(row: Record, ids: dict[int, str], pool: Pool) -> Evidence | None:
    pieces = {}
    for hop in row.get("question_decomposition") or ():
        document = pool.document(ids[hop["paragraph_support_idx"]])
        at = document.text.find(hop["answer"])
        if at < 0:
            return None
        span, text = sentence_at(document, at, at + len(hop["answer"]))
        pieces[span] = text
    return tuple(pieces.items()) or None


def _sniff(sample: Sample) -> bool:
    return {"question", "paragraphs"} <= sample.record.keys()


LOADER = Loader(_sniff, load, "MuSiQue, as JSON lines")
