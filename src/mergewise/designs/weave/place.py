"""What a sentence is worth in its place: next to others, in its section, and in its document.

`evidence` judges each sentence by what it says. A passage that answers begins where the question's words are, and goes on. So the
selection judges each sentence again, with the log-odds of the sentences around it, of its section and of its document.
The weights lie in `fitted.npz`. `python -m benchmarks.fitting place` fits them, for both shipped embedders together.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from mergewise.assemble.fragments import SectionKey
from mergewise.designs.weave.evidence import DOCUMENT, FEATURES, START, TOKENS, Candidates, features_of
from mergewise.protocols import DoubleArray, FloatArray, IntArray
from mergewise.text.sections import place_of, search_key

FAR = -9.0  # log-odds of a sentence that does not exist
SURE = 1e-6  # relevance is clamped to [SURE, 1 - SURE]
APART = 64.0  # more than the difference of any two log-odds
UNRANKED = 1e-4  # the inverse rank of a leaf that the search did not find

HELD = {"z": 1.0, "exact": -4.0, "record": -0.7}
"""Weights that are not fitted. The log-odds count whole, since they hold a reranker's scores and a user's weights. Exact names
count half, so that the text after one is read on. Records such as change logs are rare in the question sets."""

_RECORD = re.compile(
    r"(?:^|[\W_])(?:chang(?:e|es|elog)|history|news|releases?|whatsnew|upgrad\w*|migrat\w*|deprecat\w*|archive\w*|tests?|conf)"
    r"(?:[\W_]|$)|what.?s[ -]new|\bv?\d+\.\d+(?:\.\d+)?\b",
    re.IGNORECASE,
)
_ASKS_FOR_RECORDS = re.compile(
    r"\b(?:chang\w+|new|version|release\w*|since|upgrad\w*|migrat\w*|deprecat\w*|removed|history|when)\b|\d\.\d",
    re.IGNORECASE,
)


def relevance_in_place(candidates: Candidates) -> FloatArray:
    """Return the probability that each candidate is needed, judged in its place, shape (candidates,)."""
    if not len(candidates.pool):
        return np.empty(0, np.float32)
    held, features = odds_and_features(candidates)
    weights = fitted_weights()["place"]
    return np.asarray(1 / (1 + np.exp(-held - weights[1:] @ features - weights[0])), np.float32)


@cache
def fitted_weights() -> dict[str, FloatArray]:
    """Read the fitted weights: "place" for this judgement, and those of the heads (`given`). Biases come first.

    "place_names" and "beside_names" are the features that they were fitted for, in order.
    """
    with np.load(Path(__file__).with_name("fitted.npz")) as file:
        return dict(file)


def odds_and_features(candidates: Candidates) -> tuple[FloatArray, FloatArray]:
    """Return the log-odds by `HELD`, shape (candidates,), and the other features, shape (features, candidates)."""
    known, parts = candidates.pool.placed
    if known is not candidates:
        found = place_features(candidates)
        held = np.array([weight * found.pop(name) for name, weight in HELD.items()], np.float32).sum(axis=0)
        parts = held, np.array([*found.values()], np.float32)
        candidates.pool.placed = candidates, parts
    return parts


def records_of(candidates: Candidates) -> set[SectionKey]:
    """Return the sections of change logs, release notes, tests, archives and configurations, by file, title and headings.

    Returns none if the question asks for changes, versions or dates.
    """
    pool = candidates.pool
    if _ASKS_FOR_RECORDS.search(pool.asked.text):
        return set()
    firsts = {section: pool.sentences[members[0]].leaf for section, members in pool.members.items() if members}
    return {section for section, leaf in firsts.items() if _is_record(leaf.title, section)}


@lru_cache(maxsize=1 << 14)
def _is_record(title: str, section: SectionKey) -> bool:
    doc_id, headings = section
    return _RECORD.search(search_key(title, headings, place_of(doc_id))) is not None


def place_features(candidates: Candidates) -> dict[str, FloatArray]:
    """Return the features of all candidates by name, each of shape (candidates,)."""
    pool, signals, count = candidates.pool, candidates.signals, len(candidates.pool)
    if not count:
        return {}
    z = clamped_log_odds(candidates.relevance)
    # In the order of the text. A section is a run, and sentences that follow each other are in leaves that do.
    order = np.lexsort((pool.places[START], pool.places[DOCUMENT]))
    leaf, section, document, _, tokens = pool.places[:, order]
    of_text = z[order]
    run, firsts = _runs(section)
    of_document, openings = _runs(document)
    in_text: dict[str, FloatArray] = {}
    for step in (1, 2):
        near = (document[step:] == document[:-step]) & (leaf[step:] - leaf[:-step] <= step)
        before, after = np.full((2, count), FAR)
        before[step:][near], after[:-step][near] = of_text[:-step][near], of_text[step:][near]
        in_text |= {f"before{step}": before, f"after{step}": after}
    # the best one above and below in the section
    same = np.diff(run) == 0
    above, below = np.full((2, count), FAR)
    above[1:][same] = (np.maximum.accumulate(of_text + APART * run) - APART * run)[:-1][same]
    rest = APART * (run[-1] - run)
    below[:-1][same] = (np.maximum.accumulate((of_text + rest)[::-1])[::-1] - rest)[1:][same]
    best = np.maximum.reduceat(of_text, firsts)
    through = np.cumsum(tokens)
    ends = np.append(firsts[1:], count) - 1
    left = through[ends][run] - through
    in_text |= {
        "above": above,
        "below": below,
        "section": best[run],
        "section_rank": np.log1p(ranks(best))[run],
        "section_tokens": np.log1p(np.add.reduceat(tokens, firsts))[run],
        "left": np.log1p(left),
        "best_of_document": np.maximum.reduceat(of_text, openings)[of_document],
        "sum_of_document": np.log(np.add.reduceat(np.exp(of_text), openings) + 1e-4)[of_document],
    }
    placed = np.empty((len(in_text), count))
    placed[:, order] = list(in_text.values())
    found = dict(zip((*FEATURES, *in_text), (*features_of(pool, signals).T, *placed), strict=True))
    records = records_of(candidates)
    led = np.zeros(count)
    led[list(pool.leads)] = 1
    found |= {
        "z": z,
        "place": np.log1p(ranks(z)),
        "tokens": np.log(np.maximum(1, pool.places[TOKENS])),
        "led": led,
        "record": np.array([sentence.section in records for sentence in pool.sentences], float),
        "leaf_rank": -np.log(np.maximum(pool.fixed[:, 1], UNRANKED)),
    }
    of_question = {
        "surest": z.max(),
        "names": bool(signals.named),
        "links": bool(signals.links),
        "vectors": pool.compares(),
    }
    found |= {name: np.broadcast_to(float(value), count) for name, value in of_question.items()}
    curved = ("z", "section", "above", "below", "before1", "before2", "after1", "after2")
    odds = np.exp(-np.array([*map(found.__getitem__, curved), z - z.max()]))
    return found | dict(zip([f"p_{name}" for name in (*curved, "gap")], 1 / (1 + odds), strict=True))


def clamped_log_odds(relevance: FloatArray) -> DoubleArray:
    """Return the log-odds of probabilities, which are clamped to [SURE, 1 - SURE]."""
    clamped = np.clip(relevance.astype(np.float64), SURE, 1 - SURE)
    return np.asarray(np.log(clamped / (1 - clamped)))


def _runs(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Number the runs of equal keys. Return the number for each key, and where each run begins."""
    opens = np.diff(keys, prepend=-1) != 0
    return np.cumsum(opens) - 1, np.flatnonzero(opens)


def ranks(scores: FloatArray | DoubleArray) -> FloatArray:
    """Return the rank of each score, from 0 for the highest. Ties keep their order."""
    found = np.empty(len(scores), np.float32)
    found[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return found
