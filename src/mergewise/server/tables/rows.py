"""Rows of the state's tables: their conversion to records and back, and parts of statements."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar

from mergewise.errors import MergewiseError, UsageError
from mergewise.extend import check_filter
from mergewise.server.database import Row, StateTables
from mergewise.server.records import CollectionRecord, DocumentState, Job, JobProgress, Token, Upload
from mergewise.types import Json, JsonDict

Record = TypeVar("Record", CollectionRecord, DocumentState, Job, Token, Upload)

ALL = 2**62
"""The limit of a query without one: SQLite wants a number before OFFSET, and Postgres none below 0."""


class Conflict(MergewiseError):
    """A request in conflict with the current state: a name in use, a reused idempotency key, or a job that has ended."""


def marks(values: Collection[object]) -> str:
    # NULL equals nothing, and Postgres refuses an empty list
    return ", ".join("?" * len(values)) or "NULL"


def selection(
    start: str, end: str = "", more: Sequence[tuple[object, ...]] = (), **among: Collection[object] | None
) -> tuple[str, list[object]]:
    """Return a statement and its values, from columns with their allowed values (None: any) and further conditions."""
    given = [(f"{name} IN ({marks(values)})", *values) for name, values in among.items() if values is not None]
    parts = [*given, *more]
    where = " AND ".join(str(part[0]) for part in parts)
    return f"{start}{where and ' WHERE '}{where}{end}", [value for part in parts for value in part[1:]]


def _stored_filter(stored: Any) -> Any:
    """Return the filter of a token. An invalid one of an older version becomes one that every question refuses."""
    try:
        check_filter(stored)
    except UsageError:
        return {"type": "invalid"}
    return stored


# the columns that hold JSON, with the types of their values
_FROM_JSON: Mapping[str, Callable[[Any], Any]] = {
    "scopes": frozenset,
    "collections": frozenset,
    "views": tuple,
    "progress": lambda values: JobProgress(**values),
    "filter": _stored_filter,
    **dict.fromkeys(("settings", "defaults", "metadata", "error", "report", "request"), dict),
}


def columns(record: Any) -> JsonDict:
    """Return the fields of a record without `number`, which the database assigns."""
    return {f.name: getattr(record, f.name) for f in fields(record) if f.name != "number"}


def column(value: Any) -> Any:
    """Convert a value for the database: collections and records to JSON."""
    if isinstance(value, JobProgress):
        value = asdict(value)
    if isinstance(value, frozenset | tuple):
        value = sorted(value)
    if isinstance(value, Mapping):
        value = dict(value)
    return json.dumps(value) if isinstance(value, dict | list) else value


def record_of(kind: type[Record], row: Row) -> Record:
    """Convert a row to a record of this kind."""
    values: dict[str, Any] = {}
    for f in fields(kind):
        value = row[f.name]
        if value is not None and f.name in _FROM_JSON:
            value = _FROM_JSON[f.name](json.loads(value))
        # f.type is a string because of postponed annotations
        values[f.name] = bool(value) if f.type == "bool" else value
    return kind(**values)


def records_of(kind: type[Record], rows: Sequence[Row]) -> list[Record]:
    return [record_of(kind, row) for row in rows]


def insert(rows: StateTables, table: str, values: Json, replacing: str = "") -> None:
    """Insert a row. It replaces the row with the same key in the columns `replacing`, if given."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in values)
    instead = f" ON CONFLICT ({replacing}) DO UPDATE SET {changes}" if replacing else ""
    rows.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks(values)}){instead}", [*map(column, values.values())]
    )


def update(rows: StateTables, table: str, key: Mapping[str, str], values: Json) -> None:
    """Change columns of the row with this key."""
    changes = ", ".join(f"{name} = ?" for name in values)
    where = " AND ".join(f"{name} = ?" for name in key)
    rows.execute(f"UPDATE {table} SET {changes} WHERE {where}", [*map(column, values.values()), *key.values()])
