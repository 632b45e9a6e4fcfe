"""Duplicate documents in one state of an index, updated from the state before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.store.documents import Statement, same_documents
from mergewise.store.numbers import DocumentNumbers, IntArray
from mergewise.types import Duplicate, frozen

HashArray = npt.NDArray[np.uint64]
Records = Mapping[int, tuple[str, Statement]]
"""Ids and statements by document number."""
ReadRecords = Callable[[IntArray], Iterable[tuple[int, str, Statement]]]
"""A function that reads number, id and statement of the documents with these numbers."""

# characters of a text's digest (`documents.content_of`)
_DIGEST = 32
# any large odd number, so that both halves of the digest change the hash
_ODD = np.uint64(0x9E3779B97F4A7C15)


@frozen
class RepeatedTexts:
    """Sorted hashes of all texts with the documents' `numbers` (16 bytes a document), and the `records` of repeated texts."""

    hashes: HashArray = field(default_factory=lambda: np.empty(0, np.uint64))
    numbers: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    records: Records = field(default_factory=dict)
    copies: Mapping[int, int] = field(default_factory=dict)

    def with_changes(self, added: pa.Table, gone: DocumentNumbers, read: ReadRecords) -> RepeatedTexts:
        """Drop the deleted documents and add those of a table with `_number` and `_content`."""
        stays = ~gone.holds(self.numbers)
        whole = added.filter(pc.equal(pc.binary_length(added["_content"]), _DIGEST))
        hashes, numbers = hashes_of(whole["_content"]), whole["_number"].to_numpy()
        order = np.argsort(hashes, kind="stable")
        at = np.searchsorted(self.hashes[stays], hashes[order])
        hashes = np.insert(self.hashes[stays], at, hashes[order])
        numbers = np.insert(self.numbers[stays], at, numbers[order])
        repeated = repeated_numbers(hashes, numbers)
        known = np.isin(repeated, np.fromiter(self.records, np.int64, len(self.records)))
        if known.all() and len(repeated) == len(self.records):
            return RepeatedTexts(hashes, numbers, self.records, self.copies)
        fresh = {number: (doc_id, statement) for number, doc_id, statement in read(repeated[~known])}
        records = {number: self.records[number] for number in repeated[known].tolist()} | fresh
        return RepeatedTexts(hashes, numbers, records, copies_of(records))


def repeated_numbers(hashes: HashArray, numbers: IntArray) -> IntArray:
    """Return the sorted numbers of documents whose hash occurs more than once. `hashes` must be sorted."""
    repeated = np.zeros(len(hashes), bool)
    repeated[1:] = hashes[1:] == hashes[:-1]
    repeated[:-1] |= repeated[1:]
    return np.sort(numbers[repeated])


def copies_of(records: Records, among: DocumentNumbers | None = None) -> dict[int, int]:
    """Map the number of each duplicate to the number of its original."""
    numbers = np.fromiter(records, np.int64, len(records))
    selected = numbers if among is None else numbers[among.holds(numbers)]
    return same_documents((number, records[number][1]) for number in selected.tolist())


def duplicates_of(records: Records, copies: Mapping[int, int]) -> list[Duplicate]:
    return [Duplicate(records[number][0], records[original][0]) for number, original in copies.items()]


def hashes_of(digests: pa.ChunkedArray) -> HashArray:
    """Hash stored digests of 32 characters to 64 bits, from their first halves."""
    if not len(digests):
        return np.empty(0, np.uint64)
    digests = digests.combine_chunks()
    _, offsets, content = digests.buffers()
    first = np.frombuffer(offsets, np.int32, 1, digests.offset * 4)[0]
    words = np.frombuffer(content, np.uint8, len(digests) * _DIGEST, first).reshape(-1, _DIGEST)
    halves = np.ascontiguousarray(words[:, :16]).view(np.uint64)
    return halves[:, 0] * _ODD + halves[:, 1]
