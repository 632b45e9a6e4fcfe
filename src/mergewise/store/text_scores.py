"""BM25 scores over shards for a table without postings (`store.postings`), such as a very large one.

LanceDB searches with the table's own statistics. Boosts in the query make its ranking nearly that of all shards. Then the texts
of the hits are tokenized by LanceDB, and scored with the given statistics.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mergewise.store.postings import K1, B, TextFrequencies

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

# a separator between texts that are tokenized together
_BETWEEN = "qzvxkjwq"
_WORD = re.compile(r"\w+")


class TextScorer:
    """The searched text of a table in one state. It counts each term once."""

    def __init__(self, table: AsyncTable, column: str, rows: int) -> None:
        self.column, self._table, self._rows = column, table, rows
        self._mean_length = 0.0
        self._counts: dict[str, int] = {}

    async def terms(self, texts: Sequence[str]) -> list[Counter[str]]:
        """Count the terms of each text like the index."""
        parts: list[Counter[str]] = [Counter()]
        for token in await self._tokens(f"\n{_BETWEEN}\n".join(texts)):
            if token == _BETWEEN:
                parts.append(Counter())
            else:
                parts[-1][token] += 1
        # a text may contain the separator itself
        return parts if len(parts) == len(texts) else [Counter(await self._tokens(text)) for text in texts]

    async def _tokens(self, text: str) -> list[str]:
        tokens = await self._table.tokenize(text, column=self.column) if text else ()
        return [token.text for token in tokens]

    async def frequencies(self, question: str) -> TextFrequencies:
        """Return the table's own statistics for a question."""
        counts = {}
        for term, word in (await self._words(question)).items():
            if term not in self._counts:
                self._counts[term] = await self._count(term, word)
            counts[term] = self._counts[term]
        return TextFrequencies(self._rows, round(self._mean_length * self._rows), counts)

    async def _words(self, question: str) -> dict[str, str]:
        """Map each term of the question to a text that has this term only."""
        terms, words = (await self.terms([question]))[0], list(dict.fromkeys(_WORD.findall(question)))
        single = {
            term: word
            for word, own in zip(words, await self.terms(words), strict=True)
            if own.total() == 1
            for term in own
        }
        # a term without its own word, as in scripts without spaces, stands for itself
        return {term: single.get(term, term) for term in terms}

    async def _count(self, term: str, word: str) -> int:
        """Return the number of rows with a term. The first count also finds the mean length of all rows, from a score."""
        query = self._table.query().nearest_to_text(self._match(word, 1.0), self.column)
        rows = await query.select([self.column, "_score"]).limit(1).to_arrow()
        count = len(await query.select(["_score"]).limit(max(1, self._rows)).to_arrow()) if len(rows) else 0
        if len(rows) and not self._mean_length:
            own = (await self.terms(rows[self.column].to_pylist()))[0]
            weight = TextFrequencies(self._rows, 0, {term: count}).weight(term)
            parts = weight * own[term] / rows["_score"][0].as_py() - own[term] - K1 * (1 - B)
            self._mean_length = K1 * B * own.total() / parts
        return count

    def _match(self, word: str, boost: float) -> Any:
        from lancedb.query import MatchQuery

        make: Any = MatchQuery
        return make(word, self.column, boost=boost)

    async def query(self, question: str, frequencies: TextFrequencies) -> Any:
        """Return a query that ranks rows nearly by the given statistics."""
        from lancedb.query import BooleanQuery, Occur

        own, asked = await self.frequencies(question), (await self.terms([question]))[0]
        make: Any = BooleanQuery
        return make(
            [
                (Occur.SHOULD, self._match(word, asked[term] * frequencies.weight(term) / own.weight(term)))
                for term, word in (await self._words(question)).items()
            ]
        )

    async def scores(self, question: str, texts: Sequence[str], frequencies: TextFrequencies) -> list[float]:
        """Score texts with the given statistics."""
        asked, *rows = await self.terms([question, *texts])
        weights = {term: times * frequencies.weight(term) for term, times in asked.items()}
        mean = frequencies.tokens / max(1, frequencies.rows)
        parts = [K1 * (1 - B + B * row.total() / mean) for row in rows]
        return [
            sum(weight * row[term] / (row[term] + part) for term, weight in weights.items())
            for row, part in zip(rows, parts, strict=True)
        ]
