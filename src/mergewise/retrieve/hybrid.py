"""Hybrid search: full text and vectors at the same time, fused into one ranking by reciprocal ranks or a convex sum.

The end looks up the names of a question that occur in no document.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from mergewise.concurrency import check_time
from mergewise.errors import UsageError
from mergewise.index.tree import TreeReader
from mergewise.index.tree.tables import LEAF
from mergewise.models.calibration import evidence_of
from mergewise.protocols import (
    Embedder,
    FloatArray,
    OrderedBy,
    Ranking,
    Reranker,
    SearchKind,
    StoreReader,
    languages_known,
)
from mergewise.ranges import MOST_ROWS, SHARE, CheckedFields, Range
from mergewise.store.views import Registry
from mergewise.text.exact import asked_exactly, exact_keys, neighbours
from mergewise.text.languages import ENGLISH, question_languages, question_words, script_of, shares_of_forms
from mergewise.text.sections import search_key
from mergewise.tracing import span
from mergewise.types import Context, Hit, Leaf, frozen

if TYPE_CHECKING:
    from mergewise.text.question import AskedName

log = logging.getLogger("mergewise")


# Weights of vectors in languages that the embedder does not know.
WEIGHT_OF_LATIN, WEIGHT_OF_OTHERS = 0.2, 0.1

# Leaves of a sample that tells how common a term is, and the fewest that can tell.
SAMPLE, FEWEST = 300, 60

# Log-odds that a leaf is needed, by the logarithm of its rank, fitted on the first halves of the question sets.
FIRST_ODDS, ODDS_BY_RANK = 0.43, -1.91
HAIR = 1e-6
EXACT = 0.3
"""Weight of the search for exact names, if it finds some.

Of 60 exact questions, `topk` at 640 tokens holds 57 with 0.4, 55 with 0.25 and 47 with 0.15. Questions over a hop prefer less.
"""


@frozen
class SearchSettings(CheckedFields):
    """Parameters of the fusion of the two rankings.

    If the embedder does not know the question's language, the vectors weigh at most `WEIGHT_OF_LATIN`, or `WEIGHT_OF_OTHERS` in
    scripts other than Latin.

    Attributes:
        fusion: The method, a convex sum or reciprocal ranks.
        weight: Weight of the vectors in the convex sum, from 0 to 1.
        depth: Rows of each ranking.
    """

    fusion: Literal["convex", "reciprocal-rank"] = "convex"
    weight: Annotated[float, SHARE] = 0.4
    depth: Annotated[int, Range(1, MOST_ROWS)] = 100


ReaderArguments: TypeAlias = tuple[
    StoreReader, Embedder | None, Registry, str | None, SearchSettings, Reranker | None, str | None
]
"""The arguments of `HybridReader`, without the kind of search."""


Rankings: TypeAlias = tuple[Ranking, Ranking, Ranking]
"""The rankings of a question by text, by vectors and by exact names."""


class QuestionMemory:
    """A cache of the vectors of recent questions, up to `most` for each embedder in use. Thread-safe."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._lock = Lock()
        self._known: WeakKeyDictionary[Embedder, OrderedDict[str, FloatArray]] = WeakKeyDictionary()

    def vector(self, embedder: Embedder, question: str) -> FloatArray:
        """Return the unit vector of a question, as a read-only array."""
        with self._lock:
            known = self._known.setdefault(embedder, OrderedDict())
            if question in known:
                known.move_to_end(question)
                return known[question]
        # embedded alone, not in a batch, so that the vector is always the same to the last bit
        vector = np.array(embedder.embed_queries([question])[0])
        vector.setflags(write=False)
        with self._lock:
            known[question] = vector
            if len(known) > self._most:
                known.popitem(last=False)
        return vector


QUESTIONS = QuestionMemory()
"""The cache of the process, shared by all open indexes."""


class HybridReader(TreeReader):
    """The `IndexReader` of the strategies: one state of a store, an optional embedder, and a condition for all searches.

    It is also the `RowReader` that the readers of views and of the tree work with. With `counted`, another condition, the scores
    of full text count only those documents.
    """

    def __init__(
        self,
        store: StoreReader,
        embedder: Embedder | None,
        registry: Registry,
        where: str | None = None,
        settings: SearchSettings = SearchSettings(),
        reranker: Reranker | None = None,
        counted: str | None = None,
        kind: SearchKind = "hybrid",
    ) -> None:
        super().__init__(self)
        self._given: ReaderArguments = store, embedder, registry, where, settings, reranker, counted
        self._store = store
        self._registry = registry
        self._embedder = embedder
        self._where = where
        self._search = settings
        self._reranker = reranker
        self._counted, self._kind = counted, kind
        # The parts of a `RowReader` that the condition does not change.
        self.rows, self.whole, self.once = store.rows, store.whole, store.once
        self.sorted_columns, self.leaf_ranges = store.sorted_columns, store.leaf_ranges
        self._readers: dict[str, Any] = {}

    # -- IndexReader

    def search(self, question: str, k: int, by: OrderedBy = "both") -> list[Hit]:
        """Return the `k` best leaves, best first. Without an embedder, only full text is searched.

        With a reranker, `by` chooses the order: "both" combines the search with the reranker's evidence, "reranker" uses its
        scores alone.
        """
        rankings = self._searches(question, k, None, "vector")
        ranking = self._fuse(question, rankings, k)
        leaves = self.leaves([row for row, _ in ranking])
        bm25, cosine, _ = map(dict, rankings)
        hits = [Hit(leaves[row], score, bm25.get(row), cosine.get(row)) for row, score in ranking if row in leaves]
        if by == "search" or self._reranker is None or not hits:
            return hits
        texts = [search_key(hit.row.title, hit.row.headings, hit.row.text).strip() for hit in hits]
        if by == "reranker":
            scores = self._reranker.score(question, texts)
            scored = [replace(hit, score=float(score)) for hit, score in zip(hits, scores, strict=True)]
            return sorted(scored, key=lambda hit: (-hit.score, hit.row.doc_id, hit.row.id))
        # The hits move to other ranks, as logarithms. Each gets the score that the search has at its new rank. Hits above the
        # first place get scores within `HAIR` of the first score, so that they keep their order.
        places = np.log(np.arange(1, len(hits) + 1, dtype=np.float32))
        odds = np.asarray(FIRST_ODDS + ODDS_BY_RANK * places, np.float32)
        ranks = places + evidence_of(self._reranker, question, texts, odds) / ODDS_BY_RANK
        known = np.array([hit.score for hit in hits])
        if ranks.min() < 0:
            places = np.append(ranks.min(), places)
            known = np.append(known[0], np.minimum(known, known[0] * (1 - HAIR)))
        moved = np.interp(ranks, places, known)
        return [replace(hits[i], score=float(moved[i])) for i in np.argsort(ranks, kind="stable").tolist()]

    def rank(self, question: str, k: int, by: OrderedBy = "both") -> list[tuple[int, float]]:
        if by != "search" and self._reranker is not None:
            return [(hit.row.id, hit.score) for hit in self.search(question, k, by)]
        return super().rank(question, k)

    def searching_by(self, kind: SearchKind) -> HybridReader:
        if kind == "vectors" and self._embedder is None:
            raise UsageError("this index has no vectors", "search by full text, or index with an embedder")
        return self if kind == self._kind else HybridReader(*self._given, kind)

    def documents(self) -> list[str]:
        return self._store.ids(self._where)

    def question_vector(self, question: str) -> FloatArray | None:
        return self._vector(question) if self._knows(question) else None

    def languages(self, question: str) -> tuple[str, ...]:
        """Return the languages of the index that the question may be in, or () in an index without languages."""
        return question_languages(question, self._store.languages())

    def word_shares(self, question: str) -> dict[str, Mapping[str, float]]:
        def shares(language: str) -> Mapping[str, float]:
            sample = self._store.sample(language, SAMPLE).tolist()
            texts = (leaf.text for leaf in self.leaves(sample).values())
            return shares_of_forms(texts, language) if len(sample) >= FEWEST else {}

        return {
            language: {} if language == ENGLISH else self._store.once(f"words of {language}", partial(shares, language))
            for language in self.languages(question)
        }

    def _knows(self, question: str) -> bool:
        """Return true if the embedder knows a language that the question may be in."""
        known = None if self._embedder is None else languages_known(self._embedder)
        return known is None or not known.isdisjoint(self.languages(question) or known)

    def _vector(self, question: str) -> FloatArray | None:
        if self._embedder is None:
            return None
        check_time()
        return QUESTIONS.vector(self._embedder, question)

    def has(self, view: str) -> bool:
        return view in self._store.views

    def view(self, name: str) -> Any:
        if not self.has(name):
            raise UsageError(f"this index has no {name} view", f"build it: mergewise index PATH... --views leaf,{name}")
        if name not in self._readers:
            self._readers[name] = self._registry[name].reader(self)
        return self._readers[name]

    # -- RowReader

    def rank_rows(self, question: str, k: int, table: str, column: str = "vector") -> Ranking:
        return self._fuse(question, self._searches(question, k, table, column), k, table)

    def rank_by_vectors(self, question: str, k: int, table: str) -> Ranking:
        query = self._vector(question)
        if query is None:
            raise UsageError("this index has no vectors", "search by full text, or index with an embedder")
        found = self._store.vector_search(query, max(k, self._search.depth), self._where, table).result()
        return _ranked(spread(found))[:k]

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        return self._store.vectors(ids, table, column)

    def numbers(self) -> Set[int] | None:
        """Return the ids of the documents to search. Copies of a document are left out, as in the searches."""
        copies = self._store.copies(self._where)
        if not copies:
            return None if self._where is None else self._store.numbers(self._where)
        return self._store.once("first numbers", lambda: self._store.numbers(self._where) - copies.keys(), self._where)

    def settings(self, view: str) -> Mapping[str, Any]:
        return self._store.views[view]

    def folder(self) -> Path | None:
        return self._store.directory

    # -- the searches

    @span("mergewise.search")
    def _searches(self, question: str, k: int, table: str | None, column: str) -> Rankings:
        """Return the rankings by text, by vectors and by exact names. A search that is left out has an empty ranking.

        Full text is searched while the question is embedded and while its vector is searched.
        """
        began = perf_counter()
        depth = max(k, self._search.depth)
        begin = partial(
            self._store.text_search, question=question, k=depth, where=self._where, table=table, counted=self._counted
        )
        text = None if self._kind == "vectors" else begin()
        keys = " ".join(name.key for name in asked_exactly(question))
        exact = begin(exactly=True, question=keys) if keys and text is not None else None
        # Documents in languages other than English, if the question may be in one of them.
        others = [] if text is None else [one for one in self.languages(question) if one != ENGLISH]
        words = None
        if others:
            words = self._store.text_search(question_words(question, others), depth, self._where, table, words=True)
        query = None if self._kind == "text" else self._vector(question)
        vector = None if query is None else self._store.vector_search(query, depth, self._where, table, column)
        of_text = [] if text is None else text.result()
        if words is not None:
            pair = (of_text, words.result())
            of_text = combine(*(pair if ENGLISH in self.languages(question) else pair[::-1]), depth)
        found = of_text, [] if vector is None else vector.result(), [] if exact is None else exact.result()
        line = "searched: %d rows by text, %d by vectors, %.1f ms"
        log.debug(line, *map(len, found[:2]), 1000 * (perf_counter() - began))
        return found

    def _fuse(self, question: str, rankings: Rankings, k: int, table: str | None = None) -> list[tuple[int, float]]:
        text, vector, exact = rankings
        if self._search.fusion == "reciprocal-rank" and self._embedder is not None:
            fused = reciprocal_rank([text, vector])
        else:
            weight = self._search.weight
            if self._embedder is None or self._kind != "hybrid":
                weight = float(self._kind == "vectors")
            elif not self._knows(question):
                latin = any(script_of(language) == "latin" for language in self.languages(question))
                weight = min(weight, WEIGHT_OF_LATIN if latin else WEIGHT_OF_OTHERS)
            fused = convex(text, vector, weight)
        # Rows that are not embedded yet get scores by text alone.
        waiting = self._store.unembedded(table)
        if len(waiting) and text and self._embedder is not None:
            scores = reciprocal_rank([text]) if self._search.fusion == "reciprocal-rank" else over_largest(text)
            waits = np.isin([row for row, _ in text], waiting)
            fused |= {row: scores[row] for (row, _), one in zip(text, waits.tolist(), strict=True) if one}
        if exact:
            fused = mixed(fused, over_largest(exact), EXACT)
        return _ranked(fused)[:k]


def _ranked(scores: Mapping[int, float]) -> list[tuple[int, float]]:
    """Sort by score, best first. Equal scores keep their order."""
    return sorted(scores.items(), key=itemgetter(1), reverse=True)


# -- fusion


# Maximum weight of a row that only the second of two text searches finds.
SECOND = 0.5


def combine(first: Ranking, second: Ranking, k: int) -> Ranking:
    """Combine the rankings of two text searches on the scale of the first, which is in the question's own language.

    Scores are divided by the largest of their ranking, and those of the second are multiplied by `SECOND`. A row keeps its
    better score.
    """
    if not first:
        return second[:k]
    scores = over_largest(first)
    for row, score in over_largest(second).items():
        scores[row] = max(scores.get(row, 0.0), SECOND * score)
    return [(row, score * first[0][1]) for row, score in _ranked(scores)[:k]]


def reciprocal_rank(rankings: Sequence[Ranking], constant: float = 60.0) -> dict[int, float]:
    """Sum 1 / (constant + rank) over the rankings, ranks from 1 (Cormack et al. 2009). A row that is first in all scores 1."""
    best = len(rankings) / (constant + 1)
    fused: dict[int, float] = {}
    for ranking in rankings:
        for rank, (row, _) in enumerate(ranking, 1):
            fused[row] = fused.get(row, 0.0) + 1 / (constant + rank) / best
    return fused


def convex(text: Ranking, vector: Ranking, weight: float) -> dict[int, float]:
    """Return weight * vector score + (1 - weight) * text score, each normalised to [0, 1] (Bruch et al. 2023, section 4).

    BM25 scores are divided by their maximum, since their lower bound is 0. Cosines are scaled so that the smallest becomes 0
    and the largest 1, since their range differs between embedders. A row missing from a ranking has the score 0 in it.
    """
    return mixed(over_largest(text), spread(vector), weight)


def mixed(first: Mapping[int, float], second: Mapping[int, float], weight: float) -> dict[int, float]:
    """Return weight * second + (1 - weight) * first score of each row in one of them."""
    rows = dict.fromkeys([*first, *second])
    return {row: (1 - weight) * first.get(row, 0.0) + weight * second.get(row, 0.0) for row in rows}


def over_largest(ranking: Ranking) -> dict[int, float]:
    largest = max((score for _, score in ranking), default=0.0)
    return {row: score / largest if largest > 0 else 0.0 for row, score in ranking}


def spread(ranking: Ranking) -> dict[int, float]:
    scores = [score for _, score in ranking]
    if not scores:
        return {}
    low, high = min(scores), max(scores)
    return {row: (score - low) / (high - low) if high > low else 1.0 for row, score in ranking}


# -- absent names

MOST_LEAVES = 64
"""Maximum leaves with all words of a name that are read. With more, the name counts as occurring."""
NEAR = 8  # numbers below and above an absent one that are searched first
LONGEST_WORD = 40  # characters: the text index leaves out longer words


def absent_names(context: Context, store: StoreReader, where: str | None) -> tuple[AskedName, ...]:
    """Return the names of the context's question that occur in no document that meets the condition.

    The names that the context shows are not searched. For each other name, one text search returns the leaves with all its words,
    or with the exact name. An absent exact name gets the nearest ones of its form.
    """
    from mergewise.text.question import asked_names
    from mergewise.text.support.names import initials

    if not context.passages and not store.ids(where):
        return ()
    has_exact = store.has_exact_names()
    shown = [search_key(passage.title, passage.headings, passage.text) for passage in context.passages]

    def leaves_with(spelling: str, *, exactly: bool = False) -> list[str]:
        """Return the texts of up to `MOST_LEAVES` leaves with all words of a name, or with one of several exact names."""
        found = store.text_search(spelling, MOST_LEAVES, where, every=not exactly, exactly=exactly).result()
        leaves = store.rows(LEAF.name, Leaf, [row for row, _ in found]).values()
        return [search_key(leaf.title, leaf.headings, leaf.text) for leaf in leaves]

    def is_absent(name: AskedName) -> bool:
        if has_exact and name.exact is not None:
            searches = iter([leaves_with(name.exact.key, exactly=True)])
        else:
            # an index keeps camelCase as one word, and divides words at other signs
            spellings = dict.fromkeys((name.text, " ".join(name.parts), "".join(name.parts)))
            if any(len(word) > LONGEST_WORD for spelling in spellings for word in re.findall(r"[^\W_]+", spelling)):
                return False
            searches = map(leaves_with, spellings)
        if any(len(texts) >= MOST_LEAVES or any(map(name.match, texts)) for texts in searches):
            return False
        if name.exact is None:
            return not any(map(name.match, store.ids(where)))
        return not name.exact.match(
            store.once("exact names in ids", lambda: set[str]().union(*map(exact_keys, store.ids(where))), where)
        )

    def with_nearest(name: AskedName) -> AskedName:
        if name.exact is None or name.exact.is_date:
            return name
        nearest = []
        for spellings in neighbours(name.text):
            # few at a time, so that many leaves with another one hide none
            for few in (spellings[:1], spellings[1:NEAR], spellings[NEAR:]):
                keys = exact_keys("\n".join(leaves_with(" ".join(few), exactly=True)))
                if near := next((one for one in few if exact_keys(one) & keys), None):
                    nearest.append(near)
                    break
        return name._replace(nearest=tuple(nearest))

    searched = (
        name for name in asked_names(context.question) if name.is_searchable and not any(map(name.is_in, shown))
    )
    absent = [name for name in searched if name.text not in initials(shown) and is_absent(name)]
    # of two adjacent names, one that is absent says it
    words = {name.text for name in absent}
    return tuple(with_nearest(name) for name in absent if name.kind != "names" or words.isdisjoint(name.text.split()))
