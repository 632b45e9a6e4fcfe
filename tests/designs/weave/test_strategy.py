"""weave on small handbooks with obvious answers, and its invariants on any text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs import VIEWS
from mergewise.designs.strategies import assemble
from mergewise.designs.weave.parameters import Weave
from mergewise.designs.weave.strategy import REACH, gather
from mergewise.errors import UsageError
from mergewise.index.tree import TreeSettings
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Cause, Context, Document, HopNote
from tests.designs.weave.support import FILMS, MANUAL, reader_of
from tests.support import HashEmbedder, new_store, rows_of
from tests.support import reader_of as stored

MODELS = Models(count_tokens, stored_tokens=True)


def weave(question: str, *documents: Document, budget: int = 60, spec: str = "weave") -> Context:
    return assemble(spec, question, reader_of(*documents), budget, MODELS)


def test_a_hop_follows_the_name_that_the_evidence_gives() -> None:
    question = "Where was the director of Silent Rain born?"
    found = weave(question, FILMS)
    assert "directed by Ada Moor" in found.text and "the town of Faro" in found.text
    hops = [step for step in found.trace if step.cause is Cause.LINK]
    notes = {step.note.name: step.note for step in hops if isinstance(step.note, HopNote)}
    assert notes["ada moor"].number == 1 and notes["ada moor"].gain > 0 and all(step.action == "hop" for step in hops)
    assert any(f"expected gain {notes['ada moor'].gain:.2f}" in step.reason for step in hops)
    assert Cause.HOP in {step.cause for step in found.trace if step.action == "take"}
    assert not any(step.action == "hop" for step in weave(question, FILMS, spec="weave(hops=0)").trace)


@pytest.mark.parametrize("hit", [0, 4, 8])
def test_text_around_the_first_hits_is_read_in_their_document_alone(hit: int) -> None:
    lines = [f"Part {n} is grey." if n != hit else "The red lamp blinks." for n in range(9)]
    manual = Document(id="b", title="Lamp", text="".join(f"# S{n}\n\n{line}\n\n" for n, line in enumerate(lines)))
    around = [Document(id=name, title="Other", text=f"# {name}\n\nNothing here.\n") for name in "ac"]
    found = gather("red lamp blinks", reader_of(around[0], manual, around[1]), Weave(k=1, hops=0), [])
    texts = [sentence.text for sentence in found.pool.sentences]
    assert sorted(texts) == sorted(lines[max(0, hit - REACH) : hit + REACH + 1])


def test_hops_work_in_manuals_where_headings_are_plain_words() -> None:
    found = weave("What do I do about alarm 7?", MANUAL)
    assert "relief valve is stuck" in found.text and "knurled ring" in found.text


def test_a_small_budget_drops_the_heading_and_not_the_sentence() -> None:
    question = "How long do cats sleep?"
    document = Document("a", "# Animals of the house\n\n## Long sleep\n\nCats sleep sixteen hours.")
    whole = weave(question, document)
    assert whole.text.startswith("[1] ") and "Long sleep" in whole.text
    bare = weave(question, document, budget=whole.tokens - 1)
    assert bare.text == "[1]\nCats sleep sixteen hours." and bare.evidence
    assert bare.trace[-1].cause is Cause.TAKE and bare.passages[0].spans == bare.trace[-1].inputs
    assert weave(question, document, budget=3).passages == ()


def test_both_sides_of_a_comparison_are_covered() -> None:
    found = weave("Which film came out first, Silent Rain or Loud Snow?", FILMS, budget=55)
    assert "1931" in found.text and "1940" in found.text


def test_every_selected_sentence_has_a_reason() -> None:
    found = weave("Where was the director of Silent Rain born?", FILMS)
    taken = [step for step in found.trace if step.action == "take"]
    assert taken and all(step.reason and step.inputs and step.score is not None for step in taken)
    assert any("the question names “silent rain”" in step.reason for step in taken)


def test_selection_ends_where_nothing_more_is_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.designs.weave.selection.worthwhile", lambda *given: 4)
    everything = weave("Where was the director of Silent Rain born?", FILMS, budget=400)
    little = weave("Where was the director of Silent Rain born?", FILMS, budget=400, spec="weave(price=1)")
    assert little.tokens < everything.tokens
    assert any(step.action == "stop" for step in little.trace)
    assert "Faro" in little.text


def test_a_near_duplicate_gains_nothing() -> None:
    sentence = "The knurled ring of the relief valve is turned by hand."
    copies = [
        Document(id=f"d{i}", title="", text=f"{sentence}\n\n# Part {i}\n\nIt is part {i} of it.") for i in range(3)
    ]
    embedder = HashEmbedder()
    reader = reader_of(*copies, MANUAL, embedder=embedder)
    found = assemble("weave", "How is the knurled ring of the relief valve turned?", reader, 60, MODELS)
    assert found.text.count(sentence) == 1
    twice = assemble("weave(redundancy=0)", "How is the knurled ring of the relief valve turned?", reader, 60, MODELS)
    assert twice.text.count(sentence) > 1


def test_hops_stay_within_the_condition(tmp_path: Path) -> None:
    """Names in the evidence must not lead to documents outside the condition."""
    store = new_store("lance", tmp_path)
    films = Document(id="films", title="Films", text="# Silent Rain\n\nSilent Rain was directed by Ada Moor.\n")
    people = Document(
        id="people", title="People", text="# Ada Moor\n\nAda Moor was a director. She was born in Faro.\n"
    )
    store.write(rows_of([films, people]))
    question = "Where was the director of Silent Rain born?"
    for where, leaves in ((None, True), ("id = 'films'", False)):
        found = assemble("weave", question, HybridReader(store.reader(), None, VIEWS, where), 80, MODELS)
        assert ("Faro" in found.text) is leaves, where


WORDS = st.sampled_from(
    "Ada Moor rain snow It was the director born valve. Oil ring 1931 of, été 東京 - x\n\n# A\n\n# Moor\n".split(" ")
)
TEXTS = st.lists(WORDS, min_size=1, max_size=60).map(" ".join).filter(str.strip)


@given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(1, 120), st.booleans(), TEXTS)
def test_spans_and_budget_hold_on_any_text(texts: list[str], budget: int, embedded: bool, question: str) -> None:
    documents = {f"d{i}": Document(id=f"d{i}", title="Été", text=text) for i, text in enumerate(texts)}
    embedder = HashEmbedder() if embedded else None
    reader = reader_of(*documents.values(), embedder=embedder)
    for strategy in ("weave", "sentence"):
        found = assemble(strategy, question, reader, budget, MODELS)
        assert found == assemble(strategy, question, reader, budget, MODELS)
        assert found.tokens == (count_tokens([found.text])[0] if found.text else 0) <= budget
        seen: dict[str, list[tuple[int, int]]] = {}
        for passage in found.passages:
            assert passage.verbatim and passage.spans
            for span, part in passage.parts():
                assert documents[span.doc_id].text[span.start : span.end] == part
                assert all(span.end <= a or b <= span.start for a, b in seen.get(span.doc_id, []))
                seen.setdefault(span.doc_id, []).append((span.start, span.end))


def test_definitions_in_both_stores_are_alike(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    rows = rows_of([FILMS, MANUAL], embedder, TreeSettings())
    lance = new_store("lance", tmp_path, embedder=embedder)
    memory = new_store("memory", tmp_path, embedder=embedder)
    for store in (lance, memory):
        store.write(rows)
    names = ["ada moor", "snow", "nobody", "pump manual"]
    assert stored(lance).definitions(names) == stored(memory).definitions(names)


def test_more_hops_than_three_are_refused() -> None:
    with pytest.raises(UsageError, match="invalid hops of weave: 4"):
        weave("Who directed Silent Rain?", FILMS, spec="weave(hops=4)")
    assert weave("Who directed Silent Rain?", FILMS, spec="weave(hops=3)").passages
