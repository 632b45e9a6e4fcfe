"""Global BM25 scores over shards: hits are rescored with the document frequencies of all shards.

LanceDB scores a row by `sum_t n_t idf(t) f (K1 + 1) / (f + K1 (1 - B + B l / L))` (Robertson et al. 1994), with
`idf(t) = ln(1 + (N - n + 1/2) / (n + 1/2))`. n_t counts the term in the question and f in the row. l is the row's number of
tokens and L the mean of l. N is the number of rows and n the number of rows with the term, all in one index.

This module counts f and l with LanceDB's own tokenizer. It derives n and L of each shard from its scores: n from a row with the
term, L from rows of different lengths. Both are cached for each state of a shard.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import exp, log
from statistics import fmean, median

from mergewise.protocols import Ranking
from mergewise.store.lance_reader import LanceReader
from mergewise.store.lance_state import run
from mergewise.store.tables import Table

K1, B = 1.2, 0.75
# number of rows for the estimate of the mean length, and number of their frequent terms to try
SAMPLE, FREQUENT = 64, 8
# a separator between texts that are tokenized together
_BETWEEN = "qzvxkjwq"
_WORD = re.compile(r"\w+")

Terms = Counter[str]


@dataclass(frozen=True, slots=True)
class TextRow:
    """A row that a search found: its local score and its terms."""

    id: int
    score: float
    terms: Terms


def share(count: int, length: int, mean_length: float) -> float:
    """Return a term's part of a row's score, without its idf."""
    return (K1 + 1) * count / (count + K1 * (1 - B + B * length / mean_length))


def idf(rows: int, frequency: float) -> float:
    return log(1 + (rows - frequency + 0.5) / (frequency + 0.5))


def frequency_of(rows: int, value: float) -> float:
    """Return the document frequency for an idf value."""
    odds = exp(value) - 1
    return max(0.0, (rows + 0.5 - 0.5 * odds) / (1 + odds))


def mean_length_of(first: tuple[float, int, int], second: tuple[float, int, int]) -> float | None:
    """Derive the mean length L from two rows' scores for one term. A row is (score, count of the term, length).

    It follows from share(f1, l1) / share(f2, l2) = s1 / s2, which is linear in 1 / L. Returns None if L is undetermined.
    """
    (s1, f1, l1), (s2, f2, l2) = first, second
    inverse = s2 * f1 * (f2 + K1 * (1 - B)) - s1 * f2 * (f1 + K1 * (1 - B))
    scale = K1 * B * (s1 * f2 * l1 - s2 * f1 * l2)
    return scale / inverse if abs(inverse) > 0.01 * (s1 + s2) and scale / inverse > 0 else None


class ShardTexts:
    """The text column of a table in one state of one shard."""

    def __init__(self, reader: LanceReader, table: Table) -> None:
        self._reader, self._table, self._column = reader, table, str(table.text)
        self.rows = reader.row_counts()[table.name]
        self._frequencies: dict[str, float] = {}

    def terms(self, texts: Sequence[str]) -> list[list[str]]:
        """Tokenize texts like the index."""
        parts: list[list[str]] = [[]]
        for token in self._tokens(f"\n{_BETWEEN}\n".join(texts)):
            if token == _BETWEEN:
                parts.append([])
            else:
                parts[-1].append(token)
        # a text may contain the separator itself
        return parts if len(parts) == len(texts) else [self._tokens(text) for text in texts]

    def _tokens(self, text: str) -> list[str]:
        opened = self._reader._table(self._table.name)
        if opened is None or not text:
            return []
        return [token.text for token in run(opened.tokenize(text, column=self._column))]

    def read(self, ranking: Ranking) -> list[TextRow]:
        """Read the rows of a ranking with their terms."""
        ids = [row for row, _ in ranking]
        texts: dict[int, str] = {}
        for rows in self._reader._parts(self._table.name, [self._column], ids):
            texts |= zip(rows["id"].to_pylist(), rows[self._column].to_pylist(), strict=True)
        known = [(row, score) for row, score in ranking if row in texts]
        terms = self.terms([texts[row] for row, _ in known])
        return [TextRow(row, score, Counter(own)) for (row, score), own in zip(known, terms, strict=True)]

    @cached_property
    def mean_length(self) -> float:
        """The mean length of all rows in tokens, estimated from the scores of rows with a frequent term."""
        texts = run(self._first_texts())
        sample = self.terms(texts)
        frequent = Counter(chain.from_iterable(map(set, sample))).most_common(FREQUENT)
        for term, _ in frequent:
            hits = self.read(self._reader.text_search(term, SAMPLE, None, self._table.name).result())
            of_term = [(hit.score, hit.terms[term], hit.terms.total()) for hit in hits if hit.terms[term]]
            longest = max(of_term, key=lambda row: row[2] / row[1], default=None)
            means = [] if longest is None else [mean_length_of(longest, row) for row in of_term]
            known = [mean for mean in means if mean is not None]
            if known:
                return median(known)
        # no difference in length was found, so use the mean of the sample
        return fmean(map(len, sample)) if any(sample) else 1.0

    async def _first_texts(self) -> list[str]:
        opened = self._reader._table(self._table.name)
        if opened is None:
            return []
        rows = await opened.query().select([self._column]).limit(SAMPLE).to_arrow()
        return rows[self._column].to_pylist()  # type: ignore[no-any-return]

    def frequency(self, term: str, probe: str) -> float:
        """Return the number of rows with the term. `probe` is a text with this term only."""
        if term not in self._frequencies:
            hits = self.read(self._reader.text_search(probe, 1, None, self._table.name).result())
            known = [hit for hit in hits if hit.terms[term]]
            self._frequencies[term] = 0.0
            for hit in known:
                part = share(hit.terms[term], hit.terms.total(), self.mean_length)
                self._frequencies[term] = frequency_of(self.rows, hit.score / part)
        return self._frequencies[term]


def probes(texts: ShardTexts, question: str) -> dict[str, str]:
    """Map each term of the question to a word whose search tells its frequency."""
    words = list(dict.fromkeys(_WORD.findall(question)))
    single = {terms[0]: word for word, terms in zip(words, texts.terms(words), strict=True) if len(terms) == 1}
    # a term without its own word, as in scripts without spaces, is its own probe
    return {term: single.get(term, term) for term in texts.terms([question])[0]}


def rescore(question: str, shards: Sequence[ShardTexts], rankings: Sequence[Ranking]) -> list[list[tuple[int, float]]]:
    """Replace the scores in the shards' rankings of one question by those of a single index. The order stays."""
    largest = max(shards, key=lambda shard: shard.rows)
    asked = Counter(largest.terms([question])[0])
    if not asked or not any(rankings):
        return [list(ranking) for ranking in rankings]
    words = probes(largest, question)
    rows = sum(shard.rows for shard in shards)
    frequencies = [{term: shard.frequency(term, words[term]) for term in asked} for shard in shards]
    idfs = {term: idf(rows, sum(known[term] for known in frequencies)) for term in asked}
    mean = fmean([shard.mean_length for shard in shards], [shard.rows for shard in shards])
    return [
        [(hit.id, score_of(hit.terms, asked, idfs, mean)) for hit in shard.read(ranking)]
        for shard, ranking in zip(shards, rankings, strict=True)
    ]


def score_of(terms: Terms, asked: Mapping[str, int], idfs: Mapping[str, float], mean_length: float) -> float:
    length = terms.total()
    return sum(n * idfs[term] * share(terms[term], length, mean_length) for term, n in asked.items() if terms[term])
