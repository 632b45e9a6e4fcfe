"""Checks of one state of an index on LanceDB: damaged files, unreadable rows, and ids in use."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from mergewise.errors import CorruptIndex
from mergewise.store import documents as d
from mergewise.store.damage import REINDEX_HINT, raising_store_errors, reading
from mergewise.store.mapped import FOLDER
from mergewise.store.snapshot import ADDRESS, ID, Snapshot, load_indexes, run, scan
from mergewise.store.tables import NUMBER
from mergewise.types import Problem

if TYPE_CHECKING:
    from lancedb._lancedb import Table as LanceTable


@raising_store_errors
class Inspection:
    """The damage of one state."""

    def __init__(self, state: Snapshot) -> None:
        self.state, self.place = state, state.place

    def problems(self) -> list[Problem]:
        """Return the problems of damaged and altered files, with the affected documents."""
        tables = self.damage()
        problems = []
        for name, message in tables.items():
            lost = name == d.DOCUMENTS
            problems.append(Problem(f"{message}; {REINDEX_HINT}", kind="lost") if lost else Problem(message))
            # not with wrong versions or deletions
            if d.DOCUMENTS not in tables and (".lance/" not in message or ".lance/data/" in message):
                problems += [Problem(f"unreadable rows in table {name!r}", doc) for doc in self.unreadable(name)]
        if d.DOCUMENTS not in tables:
            what = "its text has changed since it was written: index it again"
            problems += [Problem(what, doc, "altered") for doc in self.altered_documents()]
        problems = problems or [Problem(message) for message in self.damaged_search().values()]
        named = [problem.what for problem in problems]
        others = (file for file in self.damaged_files() if not any(file in what for what in named))
        return problems + [Problem(f"damaged file: {file}") for file in others]

    def addresses_match(self, table: str) -> bool:
        """Return whether all row addresses in mapped files are right."""
        opened = self.state.table(table)
        if opened is None:
            return True
        rows = run(scan(opened, [ID], addresses=True))
        ids = self.state.mapped_rows(table).ids_at(rows[ADDRESS].to_numpy().astype(np.int64))
        return bool(((ids == rows[ID].to_numpy()) | (ids < 0)).all())

    def damage(self) -> dict[str, str]:
        """Map the damaged tables to messages. Documents count only if their rows cannot be read or found."""

        async def read_through(table: LanceTable) -> None:
            async for batch in await table.query().execute(None, None):
                batch.validate(full=True)

        files = (file for file in self.damaged_files() if not file.startswith((f"{d.DOCUMENTS}.lance/data/", FOLDER)))
        return self._failures("table {!r}", read_through, [file for file in files if "/_indices/" not in file])

    def damaged_search(self) -> dict[str, str]:
        """Map the tables with damaged search indexes to messages."""
        files = [file for file in self.damaged_files() if "/_indices/" in file]
        return self._failures("search indexes of table {!r}", load_indexes, files)

    def damaged_files(self) -> list[str]:
        """Return the missing files, and those whose digest is not the one in the manifest."""
        digests = self.state.manifest.digests

        def is_damaged(file: str) -> bool:
            try:
                return self.place.digest(file) != digests[file]
            except OSError:
                return True

        return self.state.kept.once("damaged files", lambda: list(filter(is_damaged, digests)))

    def _failures(
        self, what: str, use: Callable[[LanceTable], Coroutine[Any, Any, None]], damaged: Sequence[str]
    ) -> dict[str, str]:
        """Map the tables with `damaged` files, and those on which `use` fails, to messages.

        Damaged files are not used, because LanceDB ends the process for some damage.
        """
        parts = ((file, *file.split(".lance/")) for file in damaged)
        messages = {table: f"damaged {what.format(table)}: {file}" for file, table, _ in parts}
        for name in (name for name in (d.DOCUMENTS, *self.state.specs) if name not in messages):
            try:
                with reading(self.place, what.format(name)):
                    if (table := self.state.table(name)) is not None:
                        run(use(table))
            except CorruptIndex as error:
                messages[name] = error.message
        return messages

    def unreadable(self, name: str) -> list[str]:
        """Return the documents with unreadable rows in a table, found by bisection."""
        documents = self.state.whole(d.DOCUMENTS, ["_number", "id"]).to_pylist()
        by_number = {row["_number"]: row["id"] for row in documents}
        return [by_number[number] for number in self._unreadable(name, sorted(by_number))]

    def _unreadable(self, name: str, numbers: Sequence[int]) -> list[int]:
        try:
            with self.state.reading(self.place):
                if numbers:
                    self.state.whole(name, None, f"{NUMBER} >= {numbers[0]} and {NUMBER} <= {numbers[-1]}")
        except CorruptIndex:
            if len(numbers) == 1:
                return [numbers[0]]
            half = len(numbers) // 2
            return self._unreadable(name, numbers[:half]) + self._unreadable(name, numbers[half:])
        return []

    def first_free(self) -> tuple[int, int]:
        """Return the first id and document number above all in the tables, including rows of deleted documents."""

        def end(name: str, column: str) -> int:
            numbers = self.state.whole(name, [column])[column]
            return 1 + pc.max(numbers).as_py() if len(numbers) else 0

        ids = (end(name, ID) for name, spec in self.state.specs.items() if spec.table.has_ids)
        return max(ids, default=0), end(d.DOCUMENTS, "_number")

    def altered_documents(self) -> list[str]:
        """Return the documents whose text has changed since it was written, or whose pages or headings are unreadable."""

        async def altered(table: LanceTable) -> list[str]:
            batches = await table.query().execute(None, None)
            return [row["id"] async for batch in batches for row in batch.to_pylist() if not d.is_as_written(row)]

        table = self.state.table(d.DOCUMENTS)
        return [] if table is None else run(altered(table))
