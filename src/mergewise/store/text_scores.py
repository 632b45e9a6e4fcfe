"""The terms of texts, and BM25 scores over shards for a table without postings (`store.postings`), as a very large one.

LanceDB searches such a table with the table's own statistics. The hits are scored again with those of all shards.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mergewise.store.lance_import import Sessions, connect_for_reading
from mergewise.store.numbers import EVERYTHING
from mergewise.store.postings import K1, B, Postings, TextFrequencies, TextIndex, make_postings
from mergewise.store.snapshot import run
from mergewise.store.tables import NUMBER
from mergewise.text.terms import STOP_WORDS

if TYPE_CHECKING:
    from lancedb.index import FTS
    from lancedb.table import AsyncTable

# Split words by Unicode's rules, so that scripts without spaces can be searched too. The built-in stop words of this tokenizer
# include all languages, and so "cat" and "dog". Our own list replaces them.
TEXT_TOKENIZER = "icu/split"
_WORD = re.compile(r"\w+")


def text_index() -> FTS:
    """Return the configuration of a full text index."""
    from lancedb.index import FTS

    return FTS(base_tokenizer=TEXT_TOKENIZER, custom_stop_words=sorted(STOP_WORDS))


def text_terms(text: str, table: AsyncTable | None = None, column: str = "text") -> list[str]:
    """Return the terms of a text like the index of a table's column, or without a table like a new index."""
    table = _empty_table() if table is None else table
    # LanceDB rejects lone surrogates, so they are replaced
    tokens = run(table.tokenize(text.encode("utf-8", "replace").decode("utf-8"), column=column))
    return [token.text for token in tokens]


@lru_cache(1000)
def question_terms(question: str) -> tuple[str, ...]:
    """Return the terms of a question. They are cached, because each shard needs them."""
    return tuple(text_terms(question))


@cache
def _empty_table() -> AsyncTable:
    """Return a table with a text index, whose tokenizer makes the terms of all postings."""
    from lancedb.table import AsyncTable

    async def create() -> AsyncTable:
        database = await connect_for_reading("memory://", Sessions())
        table = AsyncTable(await database.create_empty_table("questions", "create", pa.schema({"text": pa.string()})))
        await table.create_index("text", config=text_index())
        return table

    return run(create())


class SearchedText:
    """The text of a table that LanceDB searches, in one state. Each term is counted once."""

    def __init__(self, table: AsyncTable, column: str, rows: int) -> None:
        self._table, self.column, self._rows = table, column, rows
        self._mean_length = 0.0
        self._counts: dict[str, int] = {}

    def _terms(self, text: str) -> list[str]:
        return text_terms(text, self._table, self.column)

    def frequencies(self, question: str) -> TextFrequencies:
        """Return the table's own statistics for a question."""
        terms = dict.fromkeys(self._terms(question))
        if not terms.keys() <= self._counts.keys():
            # a term without a word of its own, as in scripts without spaces, stands for itself
            words = {own[0]: word for word in _WORD.findall(question) if len(own := self._terms(word)) == 1}
            self._counts |= {
                term: self._count(term, words.get(term, term)) for term in terms if term not in self._counts
            }
        return TextFrequencies(
            self._rows, round(self._mean_length * self._rows), {one: self._counts[one] for one in terms}
        )

    def _count(self, term: str, word: str) -> int:
        """Return the number of rows with a term. The first count also finds the mean length of all rows, from a score."""
        query = self._table.query().nearest_to_text(word, columns=self.column)
        best = run(query.select(["id", NUMBER, self.column, "_score"]).limit(1).to_arrow())
        if not len(best):
            return 0
        count = len(run(query.select(["_score"]).limit(self._rows).to_arrow()))
        hit = Postings(make_postings(best, self.column, self._terms))
        times, weight = hit.rows_and_counts(term)[1].sum(), TextFrequencies(self._rows, 0, {term: count}).weight(term)
        part = weight * times / best["_score"][0].as_py() - times - K1 * (1 - B)
        self._mean_length = self._mean_length or float(K1 * B * hit.lengths[0] / part)
        return count

    def scores(self, question: str, rows: pa.Table, frequencies: TextFrequencies) -> dict[int, float]:
        """Score rows with the given statistics."""
        index = TextIndex([Postings(make_postings(rows, self.column, self._terms))], len(rows), np.zeros_like)
        ids, scores = index.scores(Counter(self._terms(question)), frequencies, EVERYTHING)
        return dict(zip(ids.tolist(), scores.tolist(), strict=True))
