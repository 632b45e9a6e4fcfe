"""The end of a run: write its rows and documents as tables, and its rankings for other tools.

Rows outside the plan stay in the folder: rows of other sets, and rows of other settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from mergewise import Index
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.runs.digests import digest
from mergewise.evaluate.runs.run_folder import (
    LINES,
    PLAN,
    QUESTIONS_FILE,
    RANKINGS,
    ROWS_FILE,
    TEXTS_FILE,
    DocumentText,
    all_rows,
    existing_table,
    planned_places,
    questions_table,
    rows_at,
    texts_table,
    write_table,
)
from mergewise.evaluate.runs.run_plan import RunPlan, plan_text
from mergewise.evaluate.runs.run_schema import QUESTIONS, TEXTS
from mergewise.extend import write_whole


def write_plan(folder: Path, plan: RunPlan) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / PLAN, plan_text(plan).encode())


def document_texts(
    index: Index, name: str, questions: Sequence[Question], documents: Iterable[str]
) -> list[DocumentText]:
    """Return the gold documents of the questions, and these `documents`, as (set, id, title, text)."""
    gold = {span.doc_id for question in questions for span, _ in question.evidence or ()}
    found = index.store.reader().texts(sorted(gold | set(documents)))
    return [(name, doc, found[doc].title, found[doc].text) for doc in sorted(found)]


class RunTables:
    """The questions and texts of a run, collected set by set while the indexes are open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._questions = existing_table(folder / QUESTIONS_FILE, QUESTIONS)
        self._texts = existing_table(folder / TEXTS_FILE, TEXTS)

    def add_questions(self, name: str, questions: Sequence[Question]) -> None:
        """Add and write the questions of a set, so that `report` can read the run before it ends."""
        others = self._questions.filter(pc.not_equal(self._questions["set"], name))
        self._questions = pa.concat_tables([others, questions_table({name: questions})])
        write_table(self._folder / QUESTIONS_FILE, self._questions)

    def add_texts(self, index: Index, name: str, questions: Sequence[Question], documents: Iterable[str]) -> None:
        """Add the documents that rows of a set refer to. Earlier documents stay if the index lost them."""
        texts = document_texts(index, name, questions, documents)
        found = pa.array([doc for _, doc, _, _ in texts], pa.string())
        replaced = pc.and_(pc.equal(self._texts["set"], name), pc.is_in(self._texts["doc"], found))
        self._texts = pa.concat_tables([self._texts.filter(pc.invert(replaced)), texts_table(texts)])

    def write(self, plan: RunPlan) -> None:
        """Write the tables, then delete the files of lines. A kill in between only leaves duplicate rows, which count once."""
        lines = sorted((self._folder / LINES).glob("*.jsonl"))
        rows = all_rows(self._folder)
        keys = list(zip(self._questions["set"].to_pylist(), self._questions["question"].to_pylist(), strict=True))
        places = planned_places(rows, plan, {key: place for place, key in enumerate(keys)})
        planned = rows_at(rows, places)
        asked = set(zip(planned["set"].to_pylist(), planned["question"].to_pylist(), strict=True))
        questions = self._questions.filter(pa.array([key in asked for key in keys], pa.bool_()))
        others = rows_at(rows, sorted(set(range(len(rows))) - set(places)))
        write_table(self._folder / TEXTS_FILE, self._texts.sort_by([("set", "ascending"), ("doc", "ascending")]))
        write_table(self._folder / QUESTIONS_FILE, questions)
        write_table(self._folder / ROWS_FILE, pa.concat_tables([planned, others]))
        write_rankings(self._folder / RANKINGS, planned, questions)
        write_plan(self._folder, plan)
        for path in lines:
            path.unlink()


def write_rankings(folder: Path, rows: pa.Table, questions: pa.Table) -> None:
    """Write a file of ranked documents for each method and budget, `qid Q0 doc rank score tag`, and the gold, `qid 0 doc gain`.

    Tools that read such files (trec_eval, ranx, ir_measures) expect one run per file. The id of a question is `set/id`.
    """
    folder.mkdir(exist_ok=True)
    lines: dict[str, list[str]] = {}
    columns = [rows[name].to_pylist() for name in ("set", "question", "method", "budget", "repeat", "ranking")]
    for set_name, question, method, budget, repeat, ranking in zip(*columns, strict=True):
        tag = _word(f"{method}@{budget}")
        for rank, one in enumerate(ranking if repeat == 0 else (), 1):
            found = f"{_word(set_name)}/{_word(question)} Q0 {_word(one['doc'])} {rank} {one['score']!r} {tag}\n"
            lines.setdefault(tag, []).append(found)
    for tag, ranked in lines.items():
        name = re.sub(r"[^\w.@=,()+-]+", "-", tag)[:100]
        write_whole(folder / f"{name}.{digest(tag)}.run", "".join(ranked).encode("utf-8", "replace"))
    gold: list[str] = []
    for one in questions.select(["set", "question", "gold_docs", "grades", "evidence"]).to_pylist():
        marked = dict.fromkeys(piece["doc"] for piece in one["evidence"] or () if piece["doc"])
        documents = one["gold_docs"] or list(marked)
        gains = one["grades"] or [1] * len(documents)
        name = f"{_word(one['set'])}/{_word(one['question'])}"
        gold += [f"{name} 0 {_word(doc)} {gain}\n" for doc, gain in zip(documents, gains, strict=True)]
    write_whole(folder / "gold.qrels", "".join(gold).encode("utf-8", "replace"))


def _word(text: str) -> str:
    """Encode the blanks of a text, because blanks separate columns."""
    return re.sub(r"[\s%]", lambda blank: quote(blank[0]), text)
