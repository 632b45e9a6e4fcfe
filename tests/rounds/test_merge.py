"""Merge(C_(t-1), Retrieve(q_t)), against contexts as literal sets of characters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.memory_store import MemoryStore
from tests.support import ScriptedReader, memory_store

from mergewise.designs.strategies import assemble
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.rounds import merge
from mergewise.types import Context, Document, Passage, Span, Usage

DOCUMENTS = [
    Document(
        name,
        "\n\n".join(
            f"# Part {p} of {name}\n\n" + " ".join(f"Line {i} of part {p} tells of {name} and more." for i in range(6))
            for p in range(4)
        ),
        title=name,
    )
    for name in ("alpha", "beta")
]
STORE: MemoryStore = memory_store(DOCUMENTS)
LEAVES = [leaf for rows in STORE.reader().document_rows(["alpha", "beta"]) for leaf in rows["leaf"]]
TEXTS = {document.id: document.text for document in DOCUMENTS}
MODELS = Models(count_tokens)


def retrieve(scores: dict[int, float], budget: int, strategy: str = "topk", question: str = "q") -> Context:
    known = {LEAVES[i % len(LEAVES)].id: score for i, score in scores.items()}
    return assemble(strategy, question, ScriptedReader(STORE, known), budget, MODELS)


def characters(context: Context) -> list[tuple[str, int]]:
    """Return every character of the documents that the context shows, with repeats."""
    return [(s.doc_id, i) for p in context.passages for s in p.spans for i in range(s.start, s.end)]


def visible(found: set[tuple[str, int]]) -> set[tuple[str, int]]:
    return {(doc_id, i) for doc_id, i in found if not TEXTS[doc_id][i].isspace()}


scored = st.dictionaries(st.integers(0, 40), st.floats(0.01, 1.0), min_size=1, max_size=8)
strategies = st.sampled_from(["topk", "auto-merge", "topk(order=score)"])


@given(scored, scored, strategies)
def test_with_room_enough_the_merge_is_the_union_of_characters(
    old: dict[int, float], new: dict[int, float], strategy: str
) -> None:
    c1, r2 = retrieve(old, 5000, strategy), retrieve(new, 5000, strategy, "next")
    merged = merge(c1, r2, MODELS)
    shown = characters(merged)
    assert len(shown) == len(set(shown))  # nothing doubled
    assert visible(set(shown)) == visible(set(characters(c1)) | set(characters(r2)))  # nothing lost, nothing invented


def test_a_passage_scores_by_its_turn_alone() -> None:
    old, new = retrieve({0: 0.2, 20: 0.1}, 5000), retrieve({9: 90.0, 30: 80.0}, 5000, question="next")
    merged = merge(old, new, MODELS)
    assert sorted((passage.score for passage in merged.passages), reverse=True) == [1, 1 / 2, 1 / 3, 1 / 4]
    by_score = sorted(merged.passages, key=lambda passage: -passage.score)
    starts = [
        passage.spans[0] for context in (old, new) for passage in sorted(context.passages, key=lambda p: -p.score)
    ]
    assert [passage.spans[0] for passage in by_score] == [starts[0], starts[2], starts[1], starts[3]]


@given(scored, scored, strategies, st.integers(20, 400))
def test_within_one_budget_nothing_is_doubled_or_invented(
    old: dict[int, float], new: dict[int, float], strategy: str, budget: int
) -> None:
    c1, r2 = retrieve(old, budget, strategy), retrieve(new, budget, strategy, "next")
    merged = merge(c1, r2, MODELS)
    assert merged.tokens == (count_tokens([merged.text])[0] if merged.text else 0) <= budget
    shown = characters(merged)
    assert len(shown) == len(set(shown))
    assert visible(set(shown)) <= visible(set(characters(c1)) | set(characters(r2)))
    for passage in merged.passages:
        for span, text in passage.parts():
            assert TEXTS[span.doc_id][span.start : span.end] == text
    assert (merged.question, merged.strategy, merged.budget) == ("q", strategy, budget)


def test_old_and_new_are_taken_in_turn() -> None:
    """Each round found three leaves, and the budget holds three: the two best, and the next of the old ones."""
    found = [i for i, leaf in enumerate(LEAVES) if leaf.doc_id == "alpha"]
    c1 = retrieve({found[0]: 0.9, found[4]: 0.8, found[8]: 0.7}, 5000)
    r2 = retrieve({found[2]: 0.3, found[6]: 0.2, found[10]: 0.1}, 5000, question="next")
    merged = merge(replace(c1, budget=60), r2, MODELS)
    held = set(characters(merged))

    def holds(i: int) -> bool:
        leaf = LEAVES[found[i]]
        return all((leaf.doc_id, at) in held for at in range(leaf.body, leaf.start + len(leaf.text.rstrip())))

    assert [i for i in (0, 2, 4, 6, 8, 10) if holds(i)] == [0, 2, 4]
    assert merged.trace[len(c1.trace)].action == "round" and merged.trace[len(c1.trace)].reason == "next"


def test_the_usage_of_both_rounds_is_added() -> None:
    c1, r2 = retrieve({0: 1.0}, 99), retrieve({3: 1.0}, 99)
    c1 = replace(c1, usage=Usage(1, 10, 3))
    r2 = replace(r2, usage=Usage(2, 20, 4))
    assert merge(c1, r2, MODELS).usage == Usage(3, 30, 7)


def test_passages_that_a_model_wrote_cannot_be_merged() -> None:
    written = Context("q", "fused", 99, "x", 1, (Passage("x", 1.0, (Span("alpha", 0, 9),), verbatim=False),))
    with pytest.raises(UsageError, match="fused writes its own passages"):
        merge(written, retrieve({0: 1.0}, 99), MODELS)
