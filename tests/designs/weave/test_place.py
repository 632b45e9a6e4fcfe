"""The worth of sentences in their place, against a slow transcription."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.weave.evidence import Candidates
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.place import FAR, HELD, fitted_weights, place_features, records_of, relevance_in_place
from mergewise.designs.weave.selection import select
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Document, Step
from tests.designs.weave.support import FILMS, MANUAL
from tests.designs.weave.test_selection import at, candidates_of

QUESTION = "Which valve is stuck?"


def judged(odds: list[float]) -> Candidates:
    candidates = candidates_of(QUESTION, FILMS, MANUAL)
    z = np.resize(np.array(odds), len(candidates.pool))
    return replace(candidates, relevance=(1 / (1 + np.exp(-z))).astype(np.float32))


@given(st.lists(st.floats(-8, 4), min_size=1, max_size=16))
def test_features_are_those_of_a_slow_transcription(odds: list[float]) -> None:
    candidates = judged(odds)
    found, sentences = place_features(candidates), candidates.pool.sentences
    p = candidates.relevance.astype(float)
    z = [log(one / (1 - one)) for one in p]
    everywhere = range(len(sentences))
    for i in everywhere:
        own = sentences[i]
        document = [j for j in everywhere if sentences[j].leaf.doc_id == own.leaf.doc_id]
        section = [j for j in document if sentences[j].section == own.section]
        above = [j for j in section if sentences[j].span.start < own.span.start]
        below = [j for j in section if sentences[j].span.start > own.span.start]
        at_place = document.index(i)
        expected = {
            "z": z[i],
            "above": max((z[j] for j in above), default=FAR),
            "below": max((z[j] for j in below), default=FAR),
            "section": max(z[j] for j in section),
            "section_tokens": log1p(sum(sentences[j].tokens for j in section)),
            "left": log1p(sum(sentences[j].tokens for j in below)),
            "best_of_document": max(z[j] for j in document),
            "sum_of_document": log(sum(exp(z[j]) for j in document) + 1e-4),
            "surest": max(z),
        }
        for step in (1, 2):
            before, after = at_place - step, at_place + step
            expected[f"before{step}"] = z[document[before]] if before >= 0 else FAR
            expected[f"after{step}"] = z[document[after]] if after < len(document) else FAR
        assert {name: found[name][i] for name in expected} == pytest.approx(expected, abs=1e-4)
        assert found["p_above"][i] == pytest.approx(1 / (1 + exp(-expected["above"])), abs=1e-4)
    places = np.exp(found["place"]) - 1
    assert sorted(places.round().astype(int)) == list(everywhere)
    assert all(z[i] >= z[j] - 1e-6 for i in everywhere for j in everywhere if places[i] < places[j])
    assert [name for name in found if name not in HELD] == fitted_weights()["place_names"].tolist()


def test_the_text_below_a_likely_sentence_is_worth_more_until_the_sentence_is_sure() -> None:
    after = {}
    for relevance in (0.03, 0.9):
        candidates = candidates_of(QUESTION, FILMS, MANUAL, relevance=0.005)
        first, following, elsewhere = at(candidates, "Turn the knurled", "Never use", "Use grade")
        candidates.relevance[first] = relevance
        judged = relevance_in_place(candidates)
        after[relevance] = judged[following]
        assert judged[following] > judged[elsewhere]
    assert after[0.03] > 2 * after[0.9]


def test_nothing_is_judged_without_candidates() -> None:
    assert relevance_in_place(candidates_of(QUESTION)).shape == (0,)


RECORDS = [
    "CHANGES.md",
    "docs/changelog.rst",
    "docs/release-notes.md",
    "docs/whatsnew/3.2.txt",
    "tests/api.md",
    "old/archive/a.md",
]


@pytest.mark.parametrize("file", RECORDS)
def test_change_logs_and_tests_are_records_unless_the_question_asks_for_changes(file: str) -> None:
    log_of_changes = Document(id=file, title="Pump", text="# Valve\n\nThe valve opens later.\n")
    for question, expected in {QUESTION: {file}, "What changed in the valve?": set(), "Is 2.1 stuck?": set()}.items():
        assert {doc for doc, _ in records_of(candidates_of(question, log_of_changes, MANUAL))} == expected
    (found,) = {*candidates_of(QUESTION, log_of_changes).pool.members}
    weights = HELD["record"]
    assert found[0] == file and weights < 0


def test_headings_with_versions_are_records_and_other_words_are_not() -> None:
    notes = Document(
        id="notes.md", title="Notes", text="# 2.1.0\n\nThe valve opens.\n\n# Exchange of valves\n\nOpen it.\n"
    )
    assert [headings for _, headings in records_of(candidates_of(QUESTION, notes))] == [("2.1.0",)]


def test_the_trace_says_what_is_from_a_change_log() -> None:
    changes = Document(id="CHANGES.md", title="Pump", text="# Valve\n\nThe stuck valve opens later.\n")
    trace: list[Step] = []
    select(candidates_of(QUESTION, changes, MANUAL), 500, Models(count_tokens), Weave(), trace)
    told = {step.inputs[0].doc_id for step in trace if "from a change log" in step.reason}
    assert told == {"CHANGES.md"}
