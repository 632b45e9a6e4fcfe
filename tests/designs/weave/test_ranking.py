"""The scores of passages and the order given by a chain, on films and people with an obvious order."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs.strategies import assemble
from mergewise.designs.weave import strategy
from mergewise.designs.weave.completeness import (
    SECTION_FEATURES,
    SECTION_WEIGHTS,
    best_by_section,
    scored_passages,
    section_features,
)
from mergewise.designs.weave.evidence import Candidates, Link, PoolSignals, QuestionAspects, SentencePool
from mergewise.evaluate.ranking import ranked_documents
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.text.names import names_of_title
from mergewise.types import Context, Document, Passage, Span
from tests.conftest import examples
from tests.designs.weave.support import reader_of

MODELS = Models(count_tokens, stored_tokens=True)
PAGES = tuple(
    Document(title.lower().replace(" ", "-"), text, title)
    for title, text in {
        "Silent Rain": "Silent Rain is a drama directed by Ada Moor.",
        "Loud Snow": "Loud Snow is a comedy directed by Ben Cole.",
        "Ada Moor": "Ada Moor grew up in Faro. She liked to sail.",
        "Ben Cole": "Ben Cole grew up in Bath. He liked to walk.",
        "Silent Night": "Silent Night is a film of 1950 whose director was born in Rome. The director was born there.",
    }.items()
)


def ranks(question: str, *documents: Document) -> list[str]:
    context = assemble("weave", question, reader_of(*documents), 4000, MODELS)
    return [document for document, _ in ranked_documents(context)]


def test_both_ends_of_a_bridge_come_before_lookalikes() -> None:
    question = "Where was the director of Silent Rain born?"
    assert set(ranks(question, *PAGES)[:2]) == {"silent-rain", "ada-moor"}


def test_a_comparison_has_both_named_pages_first() -> None:
    question = "Whose director was born first, that of Silent Rain or that of Loud Snow?"
    assert set(ranks(question, *PAGES)[:2]) == {"silent-rain", "loud-snow"}
    assert set(ranks(question, *PAGES)[:4]) == {"silent-rain", "loud-snow", "ada-moor", "ben-cole"}


def test_a_question_of_one_page_has_that_page_first() -> None:
    assert ranks("What did Ben Cole like to do?", *PAGES)[0] == "ben-cole"


@pytest.mark.parametrize("budget", [20, 60, 200])
def test_the_scores_do_not_change_the_text(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def context() -> Context:
        question = "Where was the director of Silent Rain born?"
        return assemble("weave", question, reader_of(*PAGES), budget, MODELS)

    scored = context()
    monkeypatch.setattr(strategy, "scored_passages", lambda passages, candidates, chosen: passages)
    plain = context()
    assert scored.text == plain.text and scored.evidence == plain.evidence and scored.trace == plain.trace
    assert [one.spans for one in scored.passages] == [one.spans for one in plain.passages]
    assert plain.passages and all(0 <= one.score <= 1 for one in scored.passages)


def test_a_passage_without_its_headings_has_the_score_of_its_document() -> None:
    question, page = "How long do cats sleep?", Document("a", "# Animals\n\n## Long sleep\n\nCats sleep sixteen hours.")
    whole = assemble("weave", question, reader_of(page), 60, MODELS)
    bare = assemble("weave", question, reader_of(page), whole.tokens - 1, MODELS)
    assert bare.passages[0].headings == () != whole.passages[0].headings
    assert bare.passages[0].score == whole.passages[0].score


SNOW = Document("snow", "# Snow\n\nSnow falls in winter.\n\n# Silent Rain\n\nRain falls in spring.", "Weather")

# -- the features against a slow transcription

READER = reader_of(*PAGES, SNOW)
LEAVES = list(READER.sentences(range(60)).values())
COUNT = sum(len(leaf.sentences) for leaf in LEAVES)
shares = st.floats(0, 1, width=32)


@st.composite
def judged(draw: st.DrawFn) -> Candidates:
    """Build all sentences with any relevance, any named sections, and any links between sentences and sections."""
    question = draw(st.sampled_from(["Where was she born?", "Which is older, Silent Rain or Loud Snow?"]))
    pool = SentencePool(QuestionAspects.of(question, None), {})
    pool.add(LEAVES)
    draws = np.random.default_rng(draw(st.integers(0, 999)))
    relevance = np.clip(draws.uniform(-0.1, 1.1, COUNT), 0, 1).astype(np.float32)
    sections = st.sampled_from(list(pool.members))
    named = draw(st.dictionaries(sections, st.sampled_from(["silent rain", "older rain", "x"]), max_size=3))
    names = st.sampled_from(["ada moor", "silent rain", "snow", "loud snow", "elsewhere"])
    links = st.builds(Link, st.integers(0, COUNT - 1), names, shares, st.booleans())
    chains = draw(st.dictionaries(sections, st.lists(links, min_size=1, max_size=4), max_size=5))
    return Candidates(pool, PoolSignals(named, chains), relevance)


def slow_named(candidates: Candidates, section: tuple[str, tuple[str, ...]]) -> float:
    """Compute the feature as its comment describes it."""
    name, members = candidates.signals.named.get(section), candidates.pool.members[section]
    if name is None or min(candidates.pool.sentences[i].leaf.start for i in members) > 0:
        return 0.0
    asked = candidates.pool.asked.text.replace(",", " ").replace("?", " ").split()
    with_capital = {word.lower() for word in asked if not word[0].islower()}
    return len([word for word in name.split() if word in with_capital]) / len(name.split())


def slow_led(candidates: Candidates, target: tuple[str, tuple[str, ...]]) -> float:
    """Compute the feature as its comment describes it."""

    def names_whole(link: Link, section: tuple[str, tuple[str, ...]]) -> bool:
        leaf = candidates.pool.sentences[candidates.pool.members[section][0]].leaf
        titles = [leaf.title, *leaf.headings[-1:]]
        return " " in link.name and any(link.name in names_of_title(title) for title in titles)

    def leads(source: object, section: tuple[str, tuple[str, ...]]) -> bool:
        return any(
            candidates.pool.sentences[link.evidence].section == source and names_whole(link, section)
            for link in candidates.signals.links.get(section, [])
        )

    trusts = [0.0]
    for source, members in candidates.pool.members.items():
        if source[0] != target[0] and leads(source, target):
            named = [other for other in candidates.signals.links if other[0] != source[0] and leads(source, other)]
            trusts.append(max(float(candidates.relevance[i]) for i in members) / len(named))
    return max(trusts)


@settings(max_examples=examples(40))
@given(judged())
def test_features_match_the_slow_transcription(candidates: Candidates) -> None:
    shown = best_by_section(candidates, range(COUNT))
    found = section_features(candidates, shown)
    assert found.shape == (len(shown), len(SECTION_FEATURES)) and list(shown) == list(candidates.pool.members)
    for row, (section, members) in zip(found.tolist(), candidates.pool.members.items(), strict=True):
        sure = min(max(max(float(candidates.relevance[i]) for i in members), 1e-4), 1 - 1e-4)
        named = slow_named(candidates, section)
        compared = named * (candidates.pool.asked.kind == "comparison")
        assert row == pytest.approx(
            [log(sure / (1 - sure)), named, compared, slow_led(candidates, section)], rel=1e-4, abs=1e-5
        )


@settings(max_examples=25)
@given(judged(), st.data())
def test_scores_are_probabilities_that_grow_with_the_evidence_and_ignore_the_order(
    candidates: Candidates, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=12, unique=True))
    sections = dict.fromkeys(candidates.pool.sentences[i].section for i in chosen)
    passages = [Passage("", 0.0, (Span(doc_id, 0, 1),), headings=headings) for doc_id, headings in sections]
    scores = [one.score for one in scored_passages(passages, candidates, chosen)]
    assert all(0 < score < 1 for score in scores)
    links = {section: links[::-1] for section, links in reversed(dict(candidates.signals.links).items())}
    candidates = replace(candidates, signals=replace(candidates.signals, links=links))
    assert scores == [one.score for one in scored_passages(passages, candidates, chosen[::-1])]
    candidates = replace(candidates, relevance=np.minimum(candidates.relevance + np.float32(0.1), 1))
    assert all(
        one.score >= score for one, score in zip(scored_passages(passages, candidates, chosen), scores, strict=True)
    )


def test_the_weights_are_positive_and_named_after_the_features() -> None:
    assert set(SECTION_WEIGHTS) == {"bias", *SECTION_FEATURES} and all(SECTION_WEIGHTS[f] > 0 for f in SECTION_FEATURES)
    page = PAGES[2]
    pool = SentencePool(QuestionAspects.of("Where did she grow up?", None), {})
    pool.add(reader_of(page).sentences([0]).values())
    candidates = Candidates(pool, PoolSignals(), np.array([0.5, 0.2], np.float32))
    (passage,) = assemble("weave", "Where did Ada Moor grow up?", reader_of(page), 100, MODELS).passages
    (scored,) = scored_passages([passage], candidates, [0, 1])
    assert scored.score == pytest.approx(1 / (1 + exp(-SECTION_WEIGHTS["bias"])), abs=1e-3)
