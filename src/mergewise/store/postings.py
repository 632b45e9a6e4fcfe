"""BM25 text search in mapped arrays: for each term the rows that have it, and how often.

The score of a row is `sum_t n_t idf(t) f (K1 + 1) / (f + K1 (1 - B + B l / L))` (Robertson et al. 1994), with
`idf(t) = ln(1 + (N - n + 1/2) / (n + 1/2))`. n_t counts the term in the question and f in the row. l is the row's number of
terms and L the mean of l. N is the number of rows and n the number of rows with the term. Rows of deleted documents do not
count. LanceDB's tokenizer makes the terms, and its own text index has the same formula. Exact names (`text.exact`) are further
terms, which do not count in the lengths. Files of an older mergewise lack them.

A file is an Arrow table of one row, whose columns are lists. A posting is a row's position and its count of the term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from math import log
from random import getrandbits
from typing import Any, NamedTuple, TypeAlias
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mergewise.store.numbers import EVERYTHING, DocumentFilter
from mergewise.store.tables import NUMBER
from mergewise.text.exact import index_terms

K1, B = 1.2, 0.75
# Largest table with postings: positions have 20 bits, and a search reads all postings of its terms. At 300,000 and a million
# rows it takes 3.0 and 6.5 ms CPU, LanceDB 9.1 and 11.3.
MAX_ROWS = 1_000_000
# bits of the count in a posting: higher counts of a term in one row are cut to the largest
_COUNT_BITS = 12
_LARGEST = (1 << _COUNT_BITS) - 1
# For `bytes.translate` of ASCII texts: letters in lower case, and spaces for all but words, as the tokenizer has them.
_WORD_BYTES = bytes(code if code > 127 or chr(code).isalnum() else 32 for code in range(256)).lower()
_KINDS = {"terms": "u8", "starts": "u4", "packed": "u4", "ids": "i8", "documents": "i8", "lengths": "u4"}
# the metadata of a file with exact names
_EXACT = {b"exact": b"1"}
_SCHEMA = pa.schema({name: pa.list_(pa.from_numpy_dtype(np.dtype(kind))) for name, kind in _KINDS.items()}, _EXACT)

Array: TypeAlias = npt.NDArray[Any]


class TextFrequencies(NamedTuple):
    """Statistics for the scores of a question: number of rows, their terms in all, and the number of rows with each term."""

    rows: int
    tokens: int
    counts: Mapping[str, int]

    @classmethod
    def total(cls, parts: Sequence[TextFrequencies]) -> TextFrequencies:
        """Add up the statistics of parts of an index, which were asked the same question."""
        counts = {term: sum(part.counts[term] for part in parts) for part in parts[:1] for term in part.counts}
        return cls(sum(part.rows for part in parts), sum(part.tokens for part in parts), counts)

    def weight(self, term: str) -> float:
        """Return the part of a term's scores that all rows share."""
        return (K1 + 1) * log(1 + (self.rows - self.counts[term] + 0.5) / (self.counts[term] + 0.5))


class Postings:
    """The postings of one file."""

    def __init__(self, table: pa.Table) -> None:
        columns: Iterable[Array] = (column.chunk(0).flatten().to_numpy() for column in table.columns)
        self.terms, self.starts, self.packed, self.ids, self.documents, self.lengths = columns
        self.is_exact = table.schema.metadata == _EXACT

    def rows_and_counts(self, term: str) -> tuple[Array, Array]:
        """Return the positions of the rows with a term, and its counts."""
        found = self.of_term(term)
        return (found >> _COUNT_BITS).astype(np.intp), found & _LARGEST

    def of_term(self, term: str) -> Array:
        """Return the postings of a term."""
        hashed = np.uint64(term_hash(term))
        at = self.terms.searchsorted(hashed)
        end = at + (at < len(self.terms) and self.terms[at] == hashed)
        return self.packed[self.starts[at] : self.starts[end]]


class TextIndex:
    """The postings of a table in one state. `rows` is its number of rows, `exists` tells which document numbers exist."""

    def __init__(self, files: Sequence[Postings], rows: int, exists: Callable[[Array], Array]) -> None:
        # if no document was deleted, no row needs a check
        is_whole = sum(len(file.ids) for file in files) == rows
        self._files = [(file, None if is_whole else exists(file.documents)) for file in files]
        self.is_exact = all(file.is_exact for file in files)
        lengths = [file.lengths if mask is None else file.lengths[mask] for file, mask in self._files]
        self.rows = sum(map(len, lengths))
        # as in LanceDB, rows without terms do not count
        self._counted, self._tokens = (sum(int(count(own)) for own in lengths) for count in (np.count_nonzero, np.sum))

    def within(self, exists: Callable[[Array], Array]) -> TextIndex:
        """Return the postings of some documents, as if there were no others."""
        # no number of rows: each row needs a check
        return TextIndex([file for file, _ in self._files], -1, exists)

    def frequencies(self, terms: Iterable[str]) -> TextFrequencies:
        counts = dict.fromkeys(terms, 0)
        for file, mask in self._files:
            for term in counts:
                found = file.of_term(term)
                counts[term] += len(found) if mask is None else int(mask[found >> _COUNT_BITS].sum())
        return TextFrequencies(self._counted, self._tokens, counts)

    def scores(
        self, terms: Mapping[str, float], frequencies: TextFrequencies, documents: DocumentFilter, every: bool = False
    ) -> tuple[Array, Array]:
        """Return the ids and scores of the documents' rows with some of the terms, or with `every` term.

        `terms` weighs those of the question, an ordinary one by its count. With `every`, others do not count.
        """
        terms = {term: times for term, times in terms.items() if times >= every}
        mean = max(1, frequencies.tokens) / max(1, frequencies.rows)
        ids, scores = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for file, mask in self._files:
            sums = np.zeros(len(file.ids), np.float32)
            numbers = np.zeros(len(file.ids) if every else 0, np.uint32)
            for term, times in terms.items():
                rows, counts = file.rows_and_counts(term)
                parts = counts + K1 * (1 - B) + (K1 * B / mean) * file.lengths[rows]
                sums[rows] += times * frequencies.weight(term) * counts / parts
                if every:
                    numbers[rows] += 1
            # much faster than `flatnonzero(sums)`
            is_hit = numbers == max(1, len(terms)) if every else sums != 0
            found = np.flatnonzero(is_hit if mask is None else is_hit & mask)
            if documents is not EVERYTHING:
                found = found[documents.holds(file.documents[found])]
            ids.append(file.ids[found])
            scores.append(sums[found])
        return np.concatenate(ids), np.concatenate(scores)


@lru_cache(100_000)
def term_hash(term: str) -> int:
    """Hash a term to 64 bits. The result must never change between versions."""
    return int.from_bytes(blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "little")


# -- writing


def make_postings(rows: pa.Table, column: str, tokenize: Callable[[str], Sequence[str]]) -> pa.Table:
    """Make the postings of rows by a column of texts, in the form of a file. Each distinct word is tokenized once."""
    plain = [normalize("NFKC", text or "") for text in rows[column].to_pylist()]
    encoded = [text.encode("utf-8", "replace") for text in plain]
    texts = [(text.translate(_WORD_BYTES) if text.isascii() else text).split() for text in encoded]
    words = pa.array(chain.from_iterable(texts), pa.binary()).dictionary_encode()
    # a separator that no text contains
    mark = str(getrandbits(64))
    found = tokenize(f" {mark} ".join(word.decode() for word in words.dictionary.to_pylist()))
    codes = {term: code for code, term in enumerate(dict.fromkeys(found))}
    coded = np.fromiter(map(codes.__getitem__, found), np.int64, len(found))
    is_term = coded != codes.get(mark, -1)
    # most words have one term, stop words none, and words of scripts without spaces many
    counts = np.bincount(np.cumsum(~is_term)[is_term], minlength=len(words.dictionary))
    starts = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    terms = pa.ListArray.from_arrays(starts, pa.array(coded[is_term])).take(words.indices)
    row_of = np.repeat(np.repeat(np.arange(len(texts)), list(map(len, texts))), terms.value_lengths())
    coded = terms.flatten().to_numpy()
    lengths = np.bincount(row_of, minlength=len(texts))
    named = [(row, codes.setdefault(name, len(codes))) for row, text in enumerate(plain) for name in index_terms(text)]
    row_of, coded = np.hstack([(row_of, coded), np.array(named, np.int64).reshape(-1, 2).T])
    hashes = np.array(list(map(term_hash, codes)), np.uint64)
    order = np.argsort(hashes)
    keys = np.sort(np.argsort(order)[coded] << (32 - _COUNT_BITS) | row_of)
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    packed = keys[firsts] << _COUNT_BITS | np.minimum(np.diff(firsts, append=len(keys)), _LARGEST)
    return _table(hashes[order], packed, rows["id"].to_numpy(), rows[NUMBER].to_numpy(), lengths)


def join_postings(files: Sequence[Postings], exists: Callable[[Array], Array]) -> pa.Table | None:
    """Join files to one, without the rows of documents that no longer exist. Return None if no row is left."""
    terms = np.unique(np.concatenate([file.terms for file in files]))
    parts, kept, first = [], [], 0
    for file in files:
        mask = exists(file.documents)
        positions = first + np.cumsum(mask) - 1
        ranks = np.repeat(np.searchsorted(terms, file.terms), file.starts[1:] - file.starts[:-1])
        rows = file.packed >> _COUNT_BITS
        packed = ranks << 32 | positions[rows] << _COUNT_BITS | (file.packed & _LARGEST)
        parts.append(packed[mask[rows]])
        kept.append([column[mask] for column in (file.ids, file.documents, file.lengths)])
        first += len(kept[-1][0])
    columns = [np.concatenate(column) for column in zip(*kept, strict=True)]
    joined = _table(terms, np.sort(np.concatenate(parts)), *columns) if first else None
    return joined if joined is None or all(file.is_exact for file in files) else joined.replace_schema_metadata()


def _table(terms: Array, packed: Array, ids: Array, documents: Array, lengths: Array) -> pa.Table:
    """Make the table of a file. `packed` are the sorted postings, each with the rank of its term in the upper 32 bits."""
    counts = np.bincount(packed >> 32, minlength=len(terms))
    starts = np.concatenate([[0], np.cumsum(counts[counts > 0])])
    columns = (terms[counts > 0], starts, packed & 0xFFFFFFFF, ids, documents, lengths)
    kinds = zip(columns, _KINDS.items(), strict=True)
    return pa.table({name: [column.astype(kind)] for column, (name, kind) in kinds}, schema=_SCHEMA)
