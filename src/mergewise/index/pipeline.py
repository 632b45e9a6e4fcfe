"""The way of documents into an index: read, made into the rows of all views, written batch by batch.

Whoever has a store and makers can run it; each batch is one change of the index, so that a kill costs a batch at most.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Any

from mergewise.errors import ReadError
from mergewise.inputs import Input
from mergewise.protocols import Store
from mergewise.store.views import Makers, Progress, Registry, View, views_of
from mergewise.types import AddReport, Document, DocumentRows, Failure

log = logging.getLogger("mergewise")

BATCH_CHARACTERS = 1_000_000
BATCH_DOCUMENTS = 512
NAMES_AT_ONCE = 1000


def rows_of(
    documents: Sequence[tuple[Document, str]],
    registry: Registry,
    settings: Mapping[str, Mapping[str, Any]],
    makers: Makers,
) -> list[DocumentRows]:
    """The rows of documents, given with their digests, in all views that have settings."""
    rows = [DocumentRows(document, digest) for document, digest in documents]
    for view in views_of(registry, list(settings)):
        rows = _with_view(rows, view, settings[view.name], makers)
    return rows


def _with_view(
    rows: Sequence[DocumentRows], view: View, settings: Mapping[str, Any], makers: Makers
) -> list[DocumentRows]:
    built = view.build(rows, view.load(settings), makers)
    return [replace(row, tables={**row.tables, **tables}) for row, tables in zip(rows, built, strict=True)]


def add(
    inputs: Sequence[Input], store: Store, registry: Registry, makers: Makers, progress: Progress | None = None
) -> AddReport:
    """Add what is new or changed. What cannot be read is named in the report with its reason, and the others go on."""
    began = perf_counter()
    standing = _digests(store, [given.name for given in inputs])
    report = AddReport()
    batch: list[tuple[Document, str]] = []
    for done, given in enumerate(inputs, 1):
        digest = given.digest()
        if standing.get(given.name) == digest:
            report += AddReport(unchanged=1)
        else:
            try:
                batch.append((given.document(), digest))
            except ReadError as error:
                report += AddReport(failed=(Failure(given.name, error.message),))
                log.debug("%s was not read: %s", given.name, error.message)
        if batch and (_is_full(batch) or done == len(inputs)):
            report += store.write(rows_of(batch, registry, store.settings, makers))
            batch = []
        if progress is not None:
            progress(done, len(inputs), given.name)
    if report.added or report.replaced:
        store.optimize()
    log.info("added: %s, %.1f s", report, perf_counter() - began)
    return report


def rebuild(store: Store, registry: Registry, makers: Makers, doc_ids: Sequence[str]) -> None:
    """Make the rows of these documents again, from the texts that the index holds."""
    reader = store.reader()
    for doc_id, digest in reader.digests(doc_ids).items():
        document = reader.document(doc_id)
        if document is not None:
            store.write(rows_of([(document, digest)], registry, store.settings, makers), force=True)
    store.optimize()


def add_view(store: Store, view: View, makers: Makers, progress: Progress | None = None) -> None:
    """Give every document that stands the view, which the store has begun, in batches."""
    done = 0
    while not store.finish_view(view.name):
        missing = store.missing(view.name)
        total = done + len(missing)
        for batch in _batches(missing, view.batch):
            rows = store.reader().stored(batch)
            store.write_view(view.name, _with_view(rows, view, store.settings[view.name], makers))
            done += len(rows)
            if progress is not None and rows:
                progress(done, total, rows[-1].document.id)


def _batches(ids: Sequence[str], size: int) -> Iterator[list[str]]:
    rest = iter(ids)
    while batch := list(islice(rest, size)):
        yield batch


def _digests(store: Store, names: Sequence[str]) -> dict[str, str]:
    """What the index holds of these documents, asked in large batches: each question costs a query."""
    reader = store.reader()
    digests: dict[str, str] = {}
    for batch in _batches(names, NAMES_AT_ONCE):
        digests |= reader.digests(batch)
    return digests


def _is_full(batch: Sequence[tuple[Document, str]]) -> bool:
    return len(batch) >= BATCH_DOCUMENTS or sum(len(document.text) for document, _ in batch) >= BATCH_CHARACTERS
