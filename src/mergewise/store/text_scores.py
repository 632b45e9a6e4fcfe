"""The terms of texts, and BM25 scores over shards for a table without postings (`store.postings`), as a very large one.

LanceDB searches such a table with the table's own statistics. The hits are scored again with those of all shards.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from random import getrandbits
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mergewise.store.lance_import import Sessions, connect_for_reading
from mergewise.store.numbers import EVERYTHING
from mergewise.store.postings import K1, B, Postings, TextFrequencies, TextIndex, make_postings
from mergewise.store.snapshot import call_in_loop, rows_of, run, start
from mergewise.store.tables import NUMBER
from mergewise.text import exact
from mergewise.text.languages import Terms
from mergewise.text.terms import STOP_WORDS

if TYPE_CHECKING:
    from lancedb._lancedb import Table as LanceTable

# Split words by Unicode's rules, so that scripts without spaces can be searched too. The built-in stop words of this tokenizer
# include all languages, and so "cat" and "dog". Our own list replaces them.
TEXT_TOKENIZER = "icu/split"
JOINED = 0.75
"""Weight of words of a question written as one, and of the parts of one in camelCase."""
_WORD = re.compile(r"\w+")


class FTS(SimpleNamespace):
    """The settings of a full text index. LanceDB knows them by the name of their class, and reads their attributes.

    Its own class of this name cannot be imported without all of its queries, rerankers and pydantic models.
    """


def text_index() -> FTS:
    """Return the settings of a full text index: LanceDB's defaults, but for the tokenizer and the stop words."""
    return FTS(
        base_tokenizer=TEXT_TOKENIZER,
        custom_stop_words=sorted(STOP_WORDS),
        remove_stop_words=True,
        language="English",
        stem=True,
        lower_case=True,
        ascii_folding=True,
        max_token_length=40,
        ngram_min_length=3,
        ngram_max_length=3,
        prefix_only=False,
        with_position=False,
        block_size=128,
        memory_limit=None,
        num_workers=None,
        document_granularity="row",
    )


def text_terms(text: str, table: LanceTable | None = None, column: str = "text") -> list[str]:
    """Return the terms of a text like the index of a table's column, or without a table like a new index."""
    table = _empty_table() if table is None else table
    # LanceDB rejects lone surrogates, so they are replaced
    asked = call_in_loop(table.tokenize, text.encode("utf-8", "replace").decode("utf-8"), column=column)
    return [token.text for token in start(asked).result()]


@lru_cache(1000)
def question_terms(question: str, exactly: bool = False) -> Mapping[str, float]:
    """Count the terms of a question, or weigh those of its exact names. They are cached, because each shard needs them.

    Words of the question written as one, and parts of words in camelCase, are further terms with the weight `JOINED`.
    """
    if exactly:
        return MappingProxyType(exact.question_terms(question))
    plain = unicodedata.normalize("NFKC", question)
    asked = Terms(plain)
    # one call, with a separator that no question has
    mark = str(getrandbits(64))
    terms = text_terms(" ".join([*asked.joined_words(), *asked.spellings(asked.all), mark, plain]))
    at = terms.index(mark)
    return MappingProxyType({**dict.fromkeys(terms[:at], JOINED), **Counter(terms[at + 1 :])})


@cache
def _empty_table() -> LanceTable:
    """Return a table with a text index, whose tokenizer makes the terms of all postings."""

    async def create() -> LanceTable:
        database = await connect_for_reading("memory://", Sessions())
        table = await database.create_empty_table("questions", "create", pa.schema({"text": pa.string()}))
        config: Any = text_index()
        await table.create_index("text", config, replace=True, wait_timeout=None, name=None, train=True)
        return table

    return run(create())


class SearchedText:
    """The text of a table that LanceDB searches, in one state. Each term is counted once."""

    def __init__(self, table: LanceTable, column: str, rows: int) -> None:
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
        # LanceDB searches no words written as one
        counts = {term: self._counts.get(term, 0) for term in [*question_terms(question), *terms]}
        return TextFrequencies(self._rows, round(self._mean_length * self._rows), counts)

    def _count(self, term: str, word: str) -> int:
        """Return the number of rows with a term. The first count also finds the mean length of all rows, from a score."""
        query: Any = self._table.query().nearest_to_text({"query": word, "columns": [self.column]})
        query.select_columns(["id", NUMBER, self.column, "_score"])
        query.limit(1)
        best = run(rows_of(query))
        if not len(best):
            return 0
        query.select_columns(["_score"])
        query.limit(self._rows)
        count = len(run(rows_of(query)))
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
