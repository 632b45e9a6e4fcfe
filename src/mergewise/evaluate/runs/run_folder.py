"""The reader of run folders, which `eval --out` writes. A run may be finished or in progress.

run.toml            the resolved plan (`runs.run_plan`)
rows/*.jsonl        the rows of a run in progress (`runs.lines`), deleted when it finishes
rows.parquet        all rows, in the order of the plan (`runs.run_schema`)
questions.parquet   the questions with their gold
texts.parquet       the documents that rows and evidence refer to
trec/*.run          the ranked documents of each method and budget, and trec/gold.qrels
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mergewise.errors import UsageError
from mergewise.evaluate.question_sets import Evidence, Question, clusters
from mergewise.evaluate.runs.lines import known_lines
from mergewise.evaluate.runs.run_plan import PlannedMethod, PlannedRows, PlannedSet, RunPlan, read_plan
from mergewise.evaluate.runs.run_row import RowKey, RunPassage, RunRow, row_of, span_of
from mergewise.evaluate.runs.run_schema import (
    QUESTIONS,
    ROWS,
    TEXTS,
    check_values,
    rows_schema,
    rows_table,
    score_order,
    scores_of,
)
from mergewise.extend import regular_bytes, span_json, write_whole
from mergewise.types import GAP, Json, JsonDict, Span

if TYPE_CHECKING:
    from mergewise.evaluate.means import MethodMeans

PLAN, ROWS_FILE, QUESTIONS_FILE, TEXTS_FILE = "run.toml", "rows.parquet", "questions.parquet", "texts.parquet"
LINES, RANKINGS = "rows", "trec"
_LONGEST_PLAN = 64_000_000
GROUP = 4096
"""Rows per group of a Parquet file."""
DocumentText: TypeAlias = tuple[str, str, str, str]
"""A document: its set, id, title and text."""


@dataclass(frozen=True)
class Run:
    """A run in a folder, or in memory with its `tables`. Tables are read on first use."""

    folder: Path
    plan: RunPlan
    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    def rows(self) -> pa.Table:
        """Return the rows of the plan, in its order, including failed rows: `run_schema.ROWS` and a column for each score.

        Rows of older settings are left out (`left_out`). A run in progress has the rows written so far.
        """
        return self._rows

    def questions(self) -> pa.Table:
        """Return the questions of each set with their gold (`run_schema.QUESTIONS`). The table is empty for a run in progress."""
        return self._table(QUESTIONS_FILE, QUESTIONS)

    def texts(self) -> pa.Table:
        """Return the documents that contexts and evidence refer to (`run_schema.TEXTS`). A run in progress has none yet."""
        return self._table(TEXTS_FILE, TEXTS)

    def run_rows(self) -> Iterator[RunRow]:
        """Yield the rows of the plan as records."""
        return rows_of(self._rows)

    def means(self) -> list[MethodMeans]:
        """Return the mean scores of each set, method and budget."""
        from mergewise.evaluate.means import method_means
        from mergewise.evaluate.measured import measured_runs

        return list(method_means(self, measured_runs([self])))

    def _repr_html_(self) -> str:
        """Return the report for a notebook, without single questions."""
        from mergewise.evaluate.drawing import evaluation_page
        from mergewise.evaluate.measured import measured_runs
        from mergewise.evaluate.report import evaluation_report
        from mergewise.extend import frame

        report = evaluation_report(measured_runs([self]), limit=0)
        return frame(evaluation_page(report), report.title)

    def set_questions(self, name: str) -> list[Question]:
        """Return the questions of one set, in its order."""
        chosen = self.questions().filter(pc.equal(self.questions()["set"], name))
        try:
            return [_question(values) for values in chosen.to_pylist()]
        except ValueError as error:
            place = self.folder / QUESTIONS_FILE
            raise UsageError(f"invalid row in {place}: {error}", "run `mergewise eval` again in a new folder") from None

    def passage_text(self, set_name: str, passage: RunPassage) -> str:
        """Return the text of a passage of this set. Raises UsageError if its document is not in the folder."""
        if passage.text is not None:
            return passage.text
        return GAP.join(self.span_text(set_name, span) for span in passage.spans)

    def span_text(self, set_name: str, span: Span) -> str:
        """Return the text of a span of this set. Raises UsageError if its document is not in the folder."""
        document = self.documents.get((set_name, span.doc_id))
        if document is None:
            raise UsageError(f"text of {span.doc_id} of {set_name} missing in {self.folder}", "finish the run first")
        return document[1][span.start : span.end]

    @cached_property
    def documents(self) -> Mapping[tuple[str, str], tuple[str, str]]:
        """The title and text of each document, by set and id."""
        columns = (self.texts()[name].to_pylist() for name in ("set", "doc", "title", "text"))
        return {(own, doc): (title or "", text) for own, doc, title, text in zip(*columns, strict=True)}

    def left_out(self) -> Mapping[str, int]:
        """Count the stored rows of earlier settings that `rows` leaves out, by method, except contexts measured again."""
        names = ("set", "question", "method", "budget", "mode", "spec")
        shown, stored = (
            list(zip(*(table[name].to_pylist() for name in names), strict=True)) for table in (self._rows, self._stored)
        )
        known = {*shown, *(key[:4] for key in shown)}
        return Counter(key[2] for key in stored if key not in known and (key[4] or key[:4] not in known))

    @cached_property
    def _stored(self) -> pa.Table:
        return self.tables[ROWS_FILE] if self.tables else all_rows(self.folder)

    @cached_property
    def _rows(self) -> pa.Table:
        questions = self.questions()
        asked = zip(questions["set"].to_pylist(), questions["question"].to_pylist(), strict=True)
        places = {question: place for place, question in enumerate(asked)}
        return planned_rows(self._stored, self.plan, places or None)

    def _table(self, name: str, schema: pa.Schema) -> pa.Table:
        if self.tables:
            return self.tables[name]
        return existing_table(self.folder / name, schema)


def memory_run(
    rows: Sequence[RunRow],
    questions: Mapping[str, Sequence[Question]],
    texts: Iterable[DocumentText] = (),
    plan: RunPlan | None = None,
) -> Run:
    """Return a run of these rows in memory.

    Args:
        rows: the rows of all questions.
        questions: the questions by set.
        texts: the documents that rows and evidence refer to, as (set, id, title, text).
        plan: the plan of the rows. By default each method is a strategy of its name.
    """
    tables = {ROWS_FILE: rows_table([row.as_dict() for row in rows]), QUESTIONS_FILE: questions_table(questions)}
    tables[TEXTS_FILE] = texts_table(texts)
    return Run(Path(), plan or plan_of(rows, questions), tables)


def plan_of(rows: Sequence[RunRow], questions: Mapping[str, Sequence[Question]]) -> RunPlan:
    """Return a plan of rows whose methods are strategies of the same names."""
    return RunPlan(
        sets=tuple(PlannedSet(name, questions=len(asked), asked=len(asked)) for name, asked in questions.items()),
        methods=tuple(PlannedMethod(name, name) for name in dict.fromkeys(row.method for row in rows)),
        budgets=tuple(dict.fromkeys(row.budget for row in rows)),
        repeats=1 + max((row.repeat for row in rows), default=0),
        answers=any(row.mode is not None for row in rows),
        rows=tuple(dict.fromkeys(PlannedRows(row.set, row.method, row.spec, mode=row.mode or "") for row in rows)),
    )


def rows_of(table: pa.Table) -> Iterator[RunRow]:
    """Yield the rows of a table as records. Raises LookupError, TypeError or ValueError for an invalid value."""
    names = scores_of(table)
    for batch in table.to_batches(GROUP):
        for values in batch.to_pylist():
            scores = {name: values.pop(name) for name in names}
            yield row_of({**values, "scores": scores})


def open_run(folder: str | Path) -> Run:
    """Open the run in a folder, finished or in progress.

    Args:
        folder: the run folder, as written by `eval --out`.

    Returns:
        The run. Its tables are read on first use.

    Raises:
        UsageError: if the folder has no readable plan.
    """
    folder = Path(folder)
    path = folder / PLAN
    try:
        text = regular_bytes(path, _LONGEST_PLAN).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"no run in {folder}: {path.name}: {reason}", "run `mergewise eval SETS... --out RUN` first"
        ) from None
    return Run(folder, read_plan(text, str(path)))


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a table of a run folder. Raises UsageError unless its columns are those of the schema, then columns of numbers."""
    try:
        with path.open("rb") as file:
            table = pq.read_table(file)
        if table.schema.names[: len(schema)] != schema.names:
            raise ValueError("unexpected columns")
        more = table.schema.names[len(schema) :]
        table = table.cast(pa.schema([*schema, *(pa.field(name, pa.float64()) for name in more)]))
        check_values(table, schema)
        return table
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(
            f"cannot read {path}: {error}", "delete the file, so that its content is computed again"
        ) from None


def existing_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a table like `read_table`. A missing file is an empty table."""
    return read_table(path, schema) if path.exists() else schema.empty_table()


def all_rows(folder: Path) -> pa.Table:
    """Return all rows of the folder, first those of `rows.parquet`.

    Of several rows for the same question the last one counts, unless it failed.
    """
    tables = [existing_table(folder / ROWS_FILE, ROWS), *line_tables(folder)]
    table = pa.concat_tables(tables, promote_options="default")
    schema = rows_schema(score_order(scores_of(table)))
    # the digest `asked` is left out: the row of an altered question replaces the earlier one
    keys = zip(*(table[name].to_pylist() for name in RowKey._fields if name != "asked"), strict=True)
    chosen: dict[tuple[object, ...], int] = {}
    errors = table["error"].to_pylist()
    for place, key in enumerate(keys):
        if key not in chosen or not errors[place] or errors[chosen[key]]:
            chosen[key] = place
    return rows_at(table, list(chosen.values())).select(schema.names).cast(schema)


def line_tables(folder: Path, pattern: str = "*.jsonl") -> Iterator[pa.Table]:
    """Yield the rows in the folder's files of lines, in portions. Raises UsageError for an invalid row."""
    lines = known_lines(folder / LINES, pattern)
    try:
        while rows := list(islice(lines, GROUP)):
            table = rows_table(rows)
            check_values(table, ROWS)
            yield table
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UsageError(
            f"invalid row in {folder / LINES}: {error}", "delete the folder, or name another one"
        ) from None


def planned_rows(table: pa.Table, plan: RunPlan, asked: Mapping[tuple[str, str], int] | None = None) -> pa.Table:
    """Return the rows of the plan, sorted by set, method, budget and repeat. Rows of other settings are left out.

    `asked` maps the set and id of each planned question to its place. Without it the rows of a method stay in their order.
    """
    return rows_at(table, planned_places(table, plan, asked))


def planned_places(table: pa.Table, plan: RunPlan, asked: Mapping[tuple[str, str], int] | None = None) -> list[int]:
    """Return the row numbers of the planned rows in a table, in the plan's order."""
    specs = plan.specs()
    sets, methods = _places(one.name for one in plan.sets), _places(one.name for one in plan.methods)
    columns = [table[name].to_pylist() for name in "set question method spec budget mode repeat".split()]
    found, answered = [], set()
    for place, (set_name, question, method, spec, budget, mode, repeat) in enumerate(zip(*columns, strict=True)):
        order = place if asked is None else asked.get((set_name, question))
        if (set_name, method, spec) in specs and order is not None:
            key = sets[set_name], methods[method], budget, repeat, order
            found.append((key, place, mode))
            answered |= {key} if mode else set()
    # a row with an answer has the context, too
    return [place for key, place, mode in sorted(found) if mode or key not in answered]


def rows_at(table: pa.Table, places: Sequence[int]) -> pa.Table:
    """Return the rows with these numbers, in this order."""
    return table.take(pa.array(places, pa.int64())).combine_chunks()


def _places(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table atomically. The same rows give the same bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.combine_chunks(), sink, compression="zstd", row_group_size=GROUP)
    write_whole(path, sink.getvalue().to_pybytes())


def texts_table(texts: Iterable[DocumentText]) -> pa.Table:
    """Return a table of documents, given as (set, id, title, text)."""
    columns = list(zip(*texts, strict=True)) or [()] * len(TEXTS)
    return pa.table(dict(zip(TEXTS.names, columns, strict=True)), TEXTS)


def questions_table(questions: Mapping[str, Sequence[Question]]) -> pa.Table:
    """Return a table of questions by set, with their clusters."""
    rows = [
        _question_dict(name, question, cluster)
        for name, asked in questions.items()
        for question, cluster in zip(asked, clusters(asked), strict=True)
    ]
    return pa.Table.from_pylist(rows, QUESTIONS)


# the fields that have the same name in a question and in a row of the table
_PLAIN_FIELDS, _LIST_FIELDS = ("text", "kind", "hops"), ("answers", "gold_docs", "grades", "scope")


def _question_dict(set_name: str, question: Question, cluster: int) -> JsonDict:
    evidence = question.evidence
    return {
        "set": set_name,
        "question": question.id,
        "evidence": None if evidence is None else [{**span_json(span), "text": text} for span, text in evidence],
        "cluster": cluster,
        "group": question.cluster,
        **{name: getattr(question, name) for name in ("answerable", *_PLAIN_FIELDS, *_LIST_FIELDS)},
    }


def _question(values: Json) -> Question:
    evidence: Evidence | None = None
    if values["evidence"] is not None:
        evidence = tuple((span_of(one), one["text"]) for one in values["evidence"])
    same: dict[str, Any] = {name: values[name] for name in _PLAIN_FIELDS}
    same |= {name: tuple(values[name]) for name in _LIST_FIELDS}
    return Question(id=values["question"], evidence=evidence, cluster=values["group"], **same)
