"""The second judgement of sentences, given those chosen before, against a slow transcription."""

from __future__ import annotations

from math import exp, log, tanh

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from mergewise.designs.weave import given
from mergewise.designs.weave.evidence import Link, PoolSignals
from mergewise.designs.weave.given import ALONE, HEADS, LACKING, LIMIT, Beside, output, relevance_given
from mergewise.designs.weave.place import HELD, fitted_weights, place_features
from mergewise.text.terms import content_terms
from tests.designs.weave.support import FILMS, MANUAL
from tests.designs.weave.test_selection import at, candidates_of

QUESTION = "Where was the director of Silent Rain born?"


@drawn(st.data())
def test_features_are_those_of_a_slow_transcription(data: st.DataObject) -> None:
    candidates = candidates_of(QUESTION, FILMS, MANUAL)
    pool = candidates.pool
    best = data.draw(st.permutations(range(len(pool))))[: data.draw(st.integers(1, len(pool)))]
    place, sure = data.draw(st.integers(0, len(best) - 1)), data.draw(st.floats(0, 1))
    chosen = best[place]
    target = pool.sentences[data.draw(st.sampled_from(best))].section
    signals = PoolSignals(
        links={target: [Link(chosen, "Ada Moor", 0.4, near=True), Link(chosen + 1, "Faro", 0.9, near=True)]}
    )
    found = Beside(candidates.__class__(pool, signals, candidates.relevance), best).features(place, sure)

    words = [content_terms(pool.sentences[i].text) for i in best]
    rare = words[place] - pool.asked.terms
    lacks = pool.share(pool.asked.terms - pool.covered_terms[chosen])
    for row, i in enumerate(best):
        own = pool.sentences[i]
        # a term that all have is worth least: log((n + 1) / n) of log(n + 1)
        worths = [
            log((len(best) + 1) / sum(term in other for other in words)) / log(len(best) + 1)
            for term in rare & words[row]
        ]
        expected = {
            "document": float(own.leaf.doc_id == pool.sentences[chosen].leaf.doc_id),
            "new": pool.share(pool.covered_terms[i] - pool.covered_terms[chosen]),
            "shared": pool.share(pool.covered_terms[i] & pool.covered_terms[chosen]),
            "new_in_text": pool.share(pool.terms[i] - pool.covered_terms[chosen]),
            "terms": sum(worths),
            "rarest": max(worths, default=0),
            "leads": 0.4 if own.section == target else 0.0,
            "chosen": 0.0,
        }
        if i == chosen:
            expected |= dict.fromkeys(ALONE, 0.0) | {"chosen": 1.0}
        expected |= {f"{name}_sure": value * sure for name, value in expected.items()}
        expected |= {f"{name}_lacking": expected[name] * lacks for name in LACKING} | {"sure": sure, "lacking": lacks}
        assert {name: float(column[row]) for name, column in found.items()} == pytest.approx(expected, abs=1e-5)
        assert list(found) == list(expected)


def test_heads_are_networks_with_one_hidden_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    sizes = {"linear1": (4,), "hidden1": (2, 4), "out1": (2,)}
    arrays = {name: draw.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    monkeypatch.setattr(given, "fitted_weights", lambda: arrays)
    features = draw.normal(size=(3, 5)).astype(np.float32)
    for column, value in zip(features.T, output(1, features), strict=True):
        x = [1.0, *column]
        inner = [tanh(sum(w * v for w, v in zip(row, x, strict=True))) for row in arrays["hidden1"]]
        linear = sum(w * v for w, v in zip(arrays["linear1"], x, strict=True))
        raw = linear + sum(w * v for w, v in zip(arrays["out1"], inner, strict=True))
        assert value == pytest.approx(max(-LIMIT, min(LIMIT, raw)), abs=1e-5)


def test_the_shipped_heads_take_the_features_that_are_computed() -> None:
    candidates = candidates_of(QUESTION, FILMS, MANUAL)
    beside = list(Beside(candidates, [0, 1]).features(0, 0.5))
    assert beside == fitted_weights()["beside_names"].tolist()
    count = len(fitted_weights()["place_names"])
    assert fitted_weights()["place"].shape == (count + 1,) and len(place_features(candidates)) == count + len(HELD)
    for number in range(1, HEADS + 1):
        count += len(beside) + (number > 1)
        linear, hidden, out = (fitted_weights()[f"{part}{number}"] for part in ("linear", "hidden", "out"))
        assert (linear.shape, hidden.shape) == ((count + 1,), (len(out), count + 1))
    assert sum(int(array.size) for array in fitted_weights().values()) < 1e5


def test_a_log_odd_more_before_is_one_more_after(monkeypatch: pytest.MonkeyPatch) -> None:
    # A reranker's scores and a user's weights count whole.
    monkeypatch.setattr(given, "output", lambda number, features: np.zeros(features.shape[1]))
    candidates = candidates_of(QUESTION, FILMS, MANUAL, relevance=0.2)
    candidates.relevance[3] = 1 / (1 + exp(-1 - log(0.2 / 0.8)))
    judged = relevance_given(candidates, candidates.relevance, [3, 0, 1])
    odds = np.log(judged / (1 - judged))
    assert odds[3] - odds[0] == pytest.approx(1, abs=1e-4)


def test_candidates_that_are_not_considered_keep_their_relevance() -> None:
    candidates = candidates_of(QUESTION, FILMS, MANUAL, relevance=0.1)
    judged = relevance_given(candidates, candidates.relevance, [2, 4, 5])
    kept = [i for i in range(len(judged)) if i not in (2, 4, 5)]
    assert judged[kept].tolist() == candidates.relevance[kept].tolist()
    assert (candidates.relevance == np.float32(0.1)).all()
    assert relevance_given(candidates, candidates.relevance, []) is candidates.relevance
    assert 0 < relevance_given(candidates, candidates.relevance, [1])[1] < 1


def test_what_shares_rare_words_with_the_chosen_one_rises_and_what_repeats_it_falls() -> None:
    candidates = candidates_of(QUESTION, FILMS, MANUAL, relevance=0.05)
    chosen, of_chain, of_other, repeats = at(candidates, "Silent Rain is", "Ada Moor (", "Ben Cole (", "Loud Snow is")
    candidates.relevance[chosen] = 0.9
    best = [chosen, *(i for i in range(len(candidates.pool)) if i != chosen)]
    judged = relevance_given(candidates, candidates.relevance, best)
    assert judged[of_chain] > 2 * judged[of_other]
    assert judged[repeats] < judged[of_chain]
