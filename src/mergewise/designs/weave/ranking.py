"""The probability that each section of a context is needed. It is the passage's score, and documents are ranked by it.

The best sentence alone ignores the chain to its section and from it. In "Where was the composer of film Billy Elliot born?" the
film's passage has little in common with the question, and yet both are needed. So the log odds of a section's best sentence are
combined with two features: how far the question names the section, and how surely a section of another document leads to it.
These scores change neither the order nor the text of a context.

The weights are those of a logistic regression over the sections of contexts of 4,000 tokens. `benchmarks/pools.py` fits them on
the first halves of the question sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mergewise.assemble.fragments import SectionKey
from mergewise.designs.weave.evidence import Candidates
from mergewise.protocols import FloatArray
from mergewise.text.names import names_of_title
from mergewise.types import Passage

SECTION_WEIGHTS: Mapping[str, float] = {
    "bias": 0.08,
    "evidence": 0.91,  # log odds that the best sentence shown is needed
    "named": 2.39,  # share of marked words (capital or digit) in the name by which the question names this start of a document
    "compared": 2.12,  # the same, in a comparison
    "led": 2.37,  # best relevance in a section of another document that names this one, over the sections that it names
}
SECTION_FEATURES = tuple(SECTION_WEIGHTS)[1:]

LEAST = 1e-4  # relevance is clamped to [LEAST, 1 - LEAST]


def scored_passages(
    passages: Sequence[Passage],
    candidates: Candidates,
    chosen: Iterable[int],
    weights: Mapping[str, float] = SECTION_WEIGHTS,
) -> tuple[Passage, ...]:
    """Return the passages of a context with the probability that their section is needed as their score."""
    shown = best_by_section(candidates, chosen)
    z = section_features(candidates, shown) @ np.array([weights[name] for name in SECTION_FEATURES]) + weights["bias"]
    scores: dict[SectionKey, float] = dict(zip(shown, (1 / (1 + np.exp(-z))).tolist(), strict=True))
    of_documents: dict[str, float] = {}
    for (doc_id, _), score in scores.items():
        of_documents[doc_id] = max(score, of_documents.get(doc_id, 0.0))

    def score_of(passage: Passage) -> float:
        doc_id = passage.spans[0].doc_id
        # A passage shown without its headings has no known section.
        return scores.get((doc_id, passage.headings), of_documents[doc_id])

    return tuple(replace(passage, score=score_of(passage)) for passage in passages)


def best_by_section(candidates: Candidates, chosen: Iterable[int]) -> dict[SectionKey, float]:
    """Return the best relevance of these candidates in each section."""
    best: dict[SectionKey, float] = {}
    for candidate in chosen:
        section, relevance = candidates.pool.sentences[candidate].section, float(candidates.relevance[candidate])
        best[section] = max(relevance, best.get(section, 0.0))
    return best


def section_features(candidates: Candidates, shown: Mapping[SectionKey, float]) -> FloatArray:
    """Return the features of the sections shown, shape (sections, features)."""
    named, led = _named(candidates), _led(candidates)
    comparison = candidates.pool.asked.kind == "comparison"
    rows = []
    for section, relevance in shown.items():
        sure = min(max(relevance, LEAST), 1 - LEAST)
        share = named.get(section, 0.0)
        rows.append((np.log(sure / (1 - sure)), share, share * comparison, led.get(section, 0.0)))
    return np.array(rows, np.float32).reshape(len(rows), len(SECTION_FEATURES))


def _named(candidates: Candidates) -> dict[SectionKey, float]:
    """Return the share of marked words in the names of sections that the question names.

    Plain words are headings in manuals, and "place of birth" is a page of its own: they name nothing in particular.
    """
    words = candidates.pool.asked.words
    marked = {word for word, is_marked in zip(words.folded, words.marked, strict=True) if is_marked}
    shares = {}
    for section, name in candidates.signals.named.items():
        # A section may hold only mark-up.
        members = candidates.pool.members[section]
        if members and candidates.pool.sentences[members[0]].leaf.start == 0:
            parts = name.split()
            shares[section] = sum(part in marked for part in parts) / len(parts)
    return shares


def _led(candidates: Candidates) -> dict[SectionKey, float]:
    """Return how surely a section of another document leads to each section, by the whole title as a name of several words.

    A section that names several others passes an equal part of its relevance to each, since only one of them is meant.
    """
    sources: dict[SectionKey, set[SectionKey]] = {}
    targets: defaultdict[SectionKey, set[SectionKey]] = defaultdict(set)
    for section, links in candidates.signals.links.items():
        leaf = candidates.pool.sentences[candidates.pool.members[section][0]].leaf
        titles = set[str]().union(*map(names_of_title, (leaf.title, *leaf.headings[-1:])))
        names = {name for name in titles if " " in name}
        whole = {candidates.pool.sentences[link.evidence].section for link in links if link.name in names}
        sources[section] = {source for source in whole if source[0] != section[0]}
        for source in sources[section]:
            targets[source].add(section)
    trust = {
        source: float(candidates.relevance[candidates.pool.members[source]].max()) / len(named)
        for source, named in targets.items()
    }
    return {section: max(map(trust.__getitem__, leading)) for section, leading in sources.items() if leading}
