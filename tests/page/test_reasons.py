"""Reasons of stretches, read from the steps of strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from mergewise.models.record import Models
from mergewise.page.reasons import Marks, Reason, Stretch, kinds_in
from mergewise.types import Cause, Context, Document, Note, Span, Step
from tests.page.support import CATS, KIBBLE, at, context, hopping, passage

SLEEP = "Cats sleep a lot. They sleep sixteen hours a day. Kittens sleep more."


def kinds(context: Context) -> list[tuple[str, str]]:
    marks = Marks(context)
    parts = [part for passage in context.passages for part in passage.parts()]
    return [(s.kind, s.text.strip()) for span, text in parts for s in marks.stretches(span, text) if s.kind]


def test_a_sentence_reached_by_a_hop_is_a_hop() -> None:
    assert kinds(hopping()) == [("hit", "Cats eat Kibble."), ("hop", "Kibble was invented in 1860.")]


def test_named_ranks_below_hop_and_above_neighbour() -> None:
    made = at(KIBBLE, "It was made in London.")
    steps = [Step("take", "", (made,), cause=cause) for cause in (Cause.HOP, Cause.NAMED, Cause.NEIGHBOUR)]
    assert kinds(context([passage(KIBBLE, "It was made in London.")], steps[:2])) == [("hop", "It was made in London.")]
    assert kinds(context([passage(KIBBLE, "It was made in London.")], steps[1:])) == [
        ("named", "It was made in London.")
    ]


@pytest.mark.parametrize("words", ["neighbour", "a hop by “kibble”", "the question names “kibble”"])
def test_words_of_the_question_in_a_reason_mark_nothing(words: str) -> None:
    """The reasons of weave quote terms of the question, which may look like the name of a kind."""
    taken = Step("take", f"it holds {words}", (at(KIBBLE, "It was made in London."),))
    assert kinds(context([passage(KIBBLE, "It was made in London.")], [taken])) == [("hit", "It was made in London.")]


def test_hits_of_a_question_about_neighbours_are_hits() -> None:
    from mergewise.designs.strategies import assemble
    from mergewise.models.tokens import count_tokens
    from tests.support import memory_store, reader_of

    text = "# Streets\n\nA neighbour is whoever lives beside you. Most streets have trees.\n"
    reader = reader_of(memory_store([Document("streets.md", text, "Streets")]))
    made = assemble("weave", "Who counts as a neighbour?", reader, 60, Models(count_tokens), None)
    (taken,) = (step for step in made.trace if step.action == "take" and "neighbour" in step.reason)
    assert taken.reason == "covers: neighbour"
    assert ("hit", "A neighbour is whoever lives beside you.") in kinds(made)


FIRST, MIDDLE, LAST = (at(CATS, f"{sentence}.") for sentence in SLEEP.removesuffix(".").split(". "))
WHOLE = at(CATS, SLEEP)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([Step("search", "", (FIRST, LAST)), Step("merge", "", (FIRST, LAST), WHOLE, 0.9)], "hit merged hit"),
        (
            [Step("search", "", (FIRST, LAST)), Step("join", "", (FIRST, LAST), WHOLE, cause=Cause.NEIGHBOUR)],
            "hit neighbour hit",
        ),
        ([Step("search", "", (MIDDLE,)), Step("merge", "macrag", (WHOLE,), score=0.8)], "merged hit merged"),
        ([Step("search", "", (MIDDLE,))], "neighbour hit neighbour"),
        ([Step("search", "9 leaves")], "taken"),
    ],
)
def test_a_section_shows_its_hits_and_the_kind_of_the_rest(steps: list[Step], expected: str) -> None:
    found = kinds(context([passage(CATS, SLEEP)], steps))
    assert [kind for kind, _ in found] == expected.split() and " ".join(text for _, text in found) == SLEEP


def test_a_skipped_merge_gives_its_parts_no_reason() -> None:
    hits = (FIRST, LAST)
    merging = Step("merge", "2 of 3 children found", hits, WHOLE, 0.9)
    steps = [Step("search", "2 leaves", hits), merging, Step("skip", "90 tokens, 20 left", (WHOLE,), score=0.9)]
    marks = Marks(context([passage(CATS, "Cats sleep a lot.")], steps))
    (stretch,) = marks.stretches(FIRST, "Cats sleep a lot.")
    assert [reason.why for reason in stretch.reasons] == ["found by the search"]


def test_first_sentences_of_a_skipped_piece_are_cut() -> None:
    steps = [Step("skip", "90 tokens, 20 left", (WHOLE,)), Step("cut", "first sentences", (WHOLE,), FIRST, 0.7)]
    assert kinds(context([passage(CATS, "Cats sleep a lot.")], steps)) == [("cut", "Cats sleep a lot.")]


def test_an_unknown_action_keeps_its_name() -> None:
    span = at(CATS, "Kittens sleep more.")
    marks = Marks(context([passage(CATS, "Kittens sleep more.")], [Step("conjure", "by magic", (span,), score=1.0)]))
    (stretch,) = marks.stretches(span, "Kittens sleep more.")
    assert (stretch.kind, stretch.label, stretch.score) == ("other", "conjure", 1.0)


@dataclass(frozen=True)
class Kept(Note):
    """A note with the spans that its step covers."""

    kind: ClassVar[str] = "kept"
    spans: tuple[Span, ...]

    @property
    def covers(self) -> tuple[Span, ...]:
        return self.spans

    def as_dict(self) -> dict[str, object]:
        return {}


def test_a_note_decides_which_spans_its_step_covers() -> None:
    kept, other = at(CATS, "Cats sleep a lot."), at(CATS, "Kittens sleep more.")
    steps = [
        Step("search", "", (kept, other)),
        Step("merge", "round 1, extractive", (kept, other), note=Kept((kept,)), cause=Cause.FUSION),
        Step("merge", "round 2, extractive; not needed", (other,), note=Kept(()), cause=Cause.FUSION),
    ]
    shown = context([passage(CATS, "Cats sleep a lot.", "Kittens sleep more.")], steps)
    assert kinds(shown) == [("fused", "Cats sleep a lot."), ("hit", "Kittens sleep more.")]


def test_every_stretch_of_our_strategies_has_a_known_reason() -> None:

    from mergewise.designs import STRATEGIES, VIEWS
    from mergewise.designs.strategies import assemble
    from mergewise.models.tokens import count_tokens
    from tests.support import HashEmbedder, memory_store, reader_of

    embedder = HashEmbedder()
    store = memory_store([CATS, KIBBLE], embedder, **{name: view.settings() for name, view in VIEWS.items()})
    bare = Models(count_tokens, embedder)
    for name, strategy in STRATEGIES.items():
        if strategy.needs is not None and strategy.needs.of(bare) is None:
            continue
        made = assemble(name, "How long do cats sleep a day?", reader_of(store, embedder), 40, bare, None)
        found = {kind for kind, _ in kinds(made)}
        assert found, name
        # the baselines of single sentences name no spans in their traces
        assert "other" not in found and ("taken" not in found or name in ("sentence", "recomp")), (name, found)


def test_left_out_has_the_best_absent_candidates_without_overlaps() -> None:
    here, nested = at(CATS, "Cats eat Kibble."), at(CATS, "Kibble is dry.")
    whole = at(CATS, "Kibble is dry. It keeps.")
    steps = [
        Step("take", "", (here,), score=0.9),
        Step("skip", "9 tokens, 4 left", (nested,), score=0.3),
        Step("skip", "19 tokens, 4 left", (whole,), score=0.5),
        Step("skip", "holds what is there", (at(CATS, "Cats eat Kibble. Kibble is dry."),), score=0.8),
        Step("drop", "over the budget once rendered", (at(KIBBLE, "It was made in London."),)),
        Step("left", "a better one said it", (at(CATS, "Kittens sleep more."),), score=0.7),
    ]
    left = Marks(context([passage(CATS, "Cats eat Kibble.")], steps)).left_out
    assert [(out.span, out.label) for out in left] == [
        (at(CATS, "Kittens sleep more."), "left out"),
        (whole, "did not fit"),
        (at(KIBBLE, "It was made in London."), "dropped"),
    ]


def test_kinds_are_counted_in_the_order_of_the_legend_and_by_their_labels() -> None:
    span = at(CATS, SLEEP)

    def stretch(kind: str, label: str) -> Stretch:
        return Stretch(span, SLEEP, kind, (Reason(span, kind, label, ""),))

    found = [stretch("other", "zip"), stretch("other", "fold"), stretch("hit", "hit"), stretch("other", "zip")]
    counted = kinds_in([*found, Stretch(span, " ")])
    assert list(counted.items()) == [(("hit", "hit"), 1), (("other", "fold"), 1), (("other", "zip"), 2)]
