"""Estimate of a chat model's cost for writing the rows of views, computed from the real prompts before the first call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mergewise.errors import ReadError
from mergewise.index.pipeline import rows_of
from mergewise.index.plan import batches, plan
from mergewise.inputs import Input
from mergewise.models.record import Models
from mergewise.protocols import StoreReader
from mergewise.store.views import Estimate, Registry, View
from mergewise.types import DocumentRows, Json

AT_ONCE = 64
"""Number of documents in memory at once."""


def forecast(
    inputs: Sequence[Input],
    reader: StoreReader,
    registry: Registry,
    settings: Mapping[str, Json],
    missing: Mapping[str, Sequence[str]],
    models: Models,
) -> Estimate:
    """Estimate the cost of adding inputs to an index with these `settings` of all its views.

    `missing` maps views to the existing documents that lack them. Unreadable files cost nothing.
    """
    asking = [registry[name] for name in registry if name in settings and registry[name].asks_chat(settings[name])]
    total = Estimate()
    if not asking:
        return total
    tasks = plan(inputs, reader).tasks

    def read_rows() -> Iterator[DocumentRows]:
        """Read documents, and build the rows of the first view without vectors."""
        first = next(iter(registry))
        for task in tasks:
            try:
                document, digest, _ = task.given.read(task.id)
            except ReadError:
                continue
            yield from rows_of([(document, digest)], registry, {first: settings[first]}, Models(models.count_tokens))

    def cost(view: View, rows: Sequence[DocumentRows]) -> Estimate:
        assert view.writing is not None
        return view.writing.estimate(rows, view.load(settings[view.name]), models)

    for batch in batches(read_rows(), AT_ONCE):
        for view in asking:
            total += cost(view, batch)
    replaced = {task.id for task in tasks}
    for view in asking:
        assert view.writing is not None
        unfinished = view.writing.unfinished(reader) if view.name in reader.views else ()
        due = dict.fromkeys([*missing.get(view.name, ()), *unfinished])
        for ids in batches((doc_id for doc_id in due if doc_id not in replaced), AT_ONCE):
            total += cost(view, reader.document_rows(ids))
    return total
