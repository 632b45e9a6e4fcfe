"""A run folder, finished: the rows of all sets as tables, the documents that they point into, and files for other tools.

What the folder holds beyond the plan stays: rows of sets that were not asked this time, and of other settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from mergewise.engine import Index
from mergewise.evaluate.runs.folder import (
    LINES,
    PLAN,
    QUESTIONS_FILE,
    RANKINGS,
    ROWS_FILE,
    TEXTS_FILE,
    all_rows,
    open_run,
    planned_rows,
    questions_table,
    read_table,
    write_table,
)
from mergewise.evaluate.runs.plan import RunPlan, plan_text
from mergewise.evaluate.runs.schema import QUESTIONS, TEXTS
from mergewise.evaluate.tasks import Question
from mergewise.files import write_whole


def earlier_plan(folder: Path) -> RunPlan:
    """The plan of the run in the folder; an empty one where there is none yet."""
    return open_run(folder).plan if (folder / PLAN).exists() else RunPlan()


def write_plan(folder: Path, plan: RunPlan) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / PLAN, plan_text(plan).encode())


class FinishedTables:
    """The questions and texts of the sets of a run, gathered set by set while their indexes are open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._questions = _table_of(folder / QUESTIONS_FILE, QUESTIONS)
        self._texts = _table_of(folder / TEXTS_FILE, TEXTS)

    def add_set(self, index: Index, name: str, questions: Sequence[Question]) -> None:
        """All questions of a set, and the documents that rows and evidence point into. Those that the index no longer has stay."""
        rows = all_rows(self._folder, name)
        wanted = {span.doc_id for question in questions for span, _ in question.evidence or ()}
        for column in ("passages", "ranking"):
            wanted |= _documents_in(rows[column])
        found = index.store.reader().texts(sorted(wanted))
        texts = [(name, one.id, one.title, one.text) for one in (found[doc] for doc in sorted(found))]
        gone = pc.and_(
            pc.equal(self._texts["set"], name),
            pc.is_in(self._texts["doc"], pa.array(sorted(wanted - found.keys()), pa.string())),
        )
        others = pc.not_equal(self._texts["set"], name)
        self._texts = pa.concat_tables([self._texts.filter(pc.or_(others, gone)), _texts_table(texts)])
        asked = questions_table({name: questions})
        kept = self._questions.filter(pc.not_equal(self._questions["set"], name))
        self._questions = pa.concat_tables([kept, asked])

    def write(self, plan: RunPlan) -> None:
        """The folder, finished. The files of lines go last: a kill before that leaves rows twice, and one of them is passed over."""
        lines = sorted((self._folder / LINES).glob("*.jsonl"))
        rows = all_rows(self._folder)
        names = zip(self._questions["set"].to_pylist(), self._questions["question"].to_pylist(), strict=True)
        places = {key: place for place, key in enumerate(names)}
        planned = planned_rows(rows, plan, places)
        write_table(self._folder / QUESTIONS_FILE, self._questions)
        write_table(self._folder / TEXTS_FILE, self._texts.sort_by([("set", "ascending"), ("doc", "ascending")]))
        write_table(self._folder / ROWS_FILE, pa.concat_tables([planned, _others(rows, planned)]))
        write_rankings(self._folder / RANKINGS, planned, self._questions)
        write_plan(self._folder, plan)
        for path in lines:
            path.unlink()


def _table_of(path: Path, schema: pa.Schema) -> pa.Table:
    return read_table(path, schema) if path.exists() else schema.empty_table()


def _texts_table(texts: Sequence[tuple[str, str, str, str]]) -> pa.Table:
    columns = list(zip(*texts, strict=True)) or [()] * len(TEXTS)
    return pa.table(dict(zip(TEXTS.names, columns, strict=True)), TEXTS)
