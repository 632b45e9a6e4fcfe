"""The tables of a run folder: their columns and types.

rows.parquet       a row for each set, question, method, budget and repeat, in the order of the plan: `ROWS`, then a column of
                   numbers for each score, by its name (null if it does not apply to the question)
questions.parquet  the questions of each set, in its order: `QUESTIONS`
texts.parquet      each document that a context or the evidence refers to, once: `TEXTS`

The names of the scores are in the metadata of `rows.parquet`, under `scores`, a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc

from mergewise.evaluate.answers import ANSWER_SCORES
from mergewise.evaluate.citing import CITATION_SCORES
from mergewise.evaluate.metrics import CONTEXT_SCORES
from mergewise.evaluate.ranking import RANKING_SCORES
from mergewise.evaluate.runs.run_row import RunRow
from mergewise.types import Json, Span

_TEXT, _TEXTS, _COUNT = pa.string(), pa.list_(pa.string()), pa.int32()
SPAN = pa.struct([("doc", _TEXT), ("start", _COUNT), ("end", _COUNT)])
EVIDENCE = pa.struct([*SPAN, ("text", _TEXT)])


def _column_type(hint: Any) -> pa.DataType:
    """Return the type of the column for a field of `RunRow`, as `RunRow.as_dict` writes it."""
    if hint is Span:
        return SPAN
    if is_dataclass(hint):
        return pa.struct([(name, _column_type(own)) for name, own in get_type_hints(hint).items()])
    if get_origin(hint) is tuple:
        return pa.list_(_column_type(get_args(hint)[0]))
    if get_origin(hint) is Mapping:
        return pa.list_(pa.struct([("stream", _TEXT), ("weight", pa.float64())]))
    kind = get_args(hint)[0] if get_args(hint) else hint
    return _TEXT if issubclass(kind, str) else _NUMBERS[kind]


_NUMBERS = {bool: pa.bool_(), int: _COUNT, float: pa.float64()}
ROWS = pa.schema([(name, _column_type(hint)) for name, hint in get_type_hints(RunRow).items() if name != "scores"])
SECONDS = ("search_seconds", "assembly_seconds", "answer_seconds")
QUESTIONS = pa.schema(
    [
        ("set", _TEXT),
        ("question", _TEXT),
        ("text", _TEXT),
        ("answers", _TEXTS),
        # null if the set marks no evidence
        ("evidence", pa.list_(EVIDENCE)),
        ("answerable", pa.bool_()),
        # questions of the same cluster are not independent; `group` is the set's own grouping, from which clusters are made
        ("cluster", _COUNT),
        ("group", _TEXT),
        ("kind", _TEXT),
        ("hops", _COUNT),
        ("scope", _TEXTS),
        ("gold_docs", _TEXTS),
        ("grades", pa.list_(_COUNT)),
    ]
)
TEXTS = pa.schema([("set", _TEXT), ("doc", _TEXT), ("title", _TEXT), ("text", _TEXT)])
_OPTIONAL = frozenset(
    {*SECONDS, "tokens", "mode", "prediction", "refused", "sure", "passages.text", "found.line", "found.page"}
    | {"evidence", "kind", "hops", "group", "title"}
)
"""Columns, and fields of nested columns, that may lack a value."""


def check_values(table: pa.Table, schema: pa.Schema) -> None:
    """Raise ValueError for a text that is not UTF-8, and for a value that is missing in a column of the schema."""
    table.validate(full=True)
    for name in schema.names:
        _check_column(name, table[name])


def _check_column(name: str, column: pa.ChunkedArray) -> None:
    if column.null_count and name not in _OPTIONAL:
        raise ValueError(f"a value of {name} is missing")
    if pa.types.is_list(column.type):
        _check_column(name, pc.list_flatten(column))
    elif pa.types.is_struct(column.type):
        for field, values in zip(column.type, column.flatten(), strict=True):
            _check_column(f"{name}.{field.name}", values)


def rows_table(rows: Sequence[Json]) -> pa.Table:
    """Return a table of rows from `RunRow.as_dict`. Raises pa.ArrowException, TypeError or ValueError for an invalid value."""
    scores = score_order(name for row in rows for name in row["scores"])
    if reserved := set(scores) & set(ROWS.names):
        raise ValueError(f"{min(reserved)} is not the name of a score")
    return pa.Table.from_pylist([{**row, **row["scores"]} for row in rows], rows_schema(scores))


def rows_schema(scores: Sequence[str]) -> pa.Schema:
    fields = [*ROWS, *(pa.field(name, pa.float64()) for name in scores)]
    return pa.schema(fields, metadata={"scores": json.dumps(list(scores))})


def score_order(scores: Iterable[str]) -> list[str]:
    """Sort the names of scores, each once: those of contexts, rankings, answers and citations, then others by name."""
    known = (*CONTEXT_SCORES, *RANKING_SCORES, *ANSWER_SCORES, *CITATION_SCORES)
    return sorted(set(scores), key=lambda name: (known.index(name) if name in known else len(known), name))


def scores_of(table: pa.Table) -> list[str]:
    """Return the names of the scores of a table of rows."""
    return [name for name in table.column_names if name not in ROWS.names]
