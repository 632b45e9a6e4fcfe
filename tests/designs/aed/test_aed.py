"""AED-RAG's selection: the useful passages and triplet sets of each stream, their utilities, and the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.assemble.fragments import Candidate, Fragment
from mergewise.designs.aed.strategy import _passage_stream
from mergewise.designs.aed.streams import Ensemble, ensemble_of, utility, weights_of
from mergewise.designs.aed.triplets import TripletSettings
from mergewise.designs.aed.units import RetrievedUnit
from mergewise.designs.strategies import assemble, preferred_mode, resolve
from mergewise.errors import UsageError
from mergewise.jsonable import step_json
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Context, Document, Passage, Span
from tests.support import ScriptedReader, memory_store


def ensemble_in(context: Context) -> Ensemble:
    ensemble = ensemble_of(context)
    assert ensemble is not None
    return ensemble


TOWNS = ("Arden", "Brook", "Corin", "Delos", "Eryx")
TEXT = "\n\n".join(
    f"# {town}\n\n{town} has a tower. It was built long ago.\n\nThe mason of {town} came late." for town in TOWNS
)
STORE = memory_store([Document("towns.md", TEXT, "Towns"), Document("long.md", "Nothing here is short. " * 60, "Long")])
FOUND = {row.id: row for row in ScriptedReader(STORE, dict.fromkeys(range(10), 1.0)).leaves(list(range(10))).values()}


class Worth:
    """A predictor that scores a text by the town in it."""

    spec = "worth"

    def __init__(self, **worth: float) -> None:
        self.worth = worth
        self.texts: list[str] = []

    def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
        self.texts += texts
        return [next((value for name, value in self.worth.items() if name in text), -1.0) for text in texts]


WORTH = {"Arden": 0.1, "Brook": 3.0, "Corin": -2.0, "Delos": 4.0, "Eryx": 0.0}


def ask(
    spec: str = "aed(longest=40)", budget: int = 300, worth: Any = None, scores: dict[int, float] | None = None
) -> Context:
    predictor = Worth(**WORTH) if worth is None else worth
    reader = ScriptedReader(STORE, {leaf: 1.0 - leaf / 100 for leaf in FOUND} if scores is None else scores)
    return assemble(spec, "Which tower?", reader, budget, Models(count_tokens, predictor=predictor or None))


def test_the_m_most_useful_passages_make_a_stream() -> None:
    worth = Worth(**WORTH)
    found = ask(worth=worth)
    assert [passage.headings[-1] for passage in found.passages] == ["Delos", "Brook"]
    assert ensemble_in(found).memory
    (stream,) = ensemble_in(found).streams
    assert (stream.name, stream.passages, stream.utilities) == ("passages", (1, 2), (4.0, 3.0))
    assert stream.utility == 4.0 + 0.5 * 3.0
    assert worth.texts[0] == "Towns › Arden\nArden has a tower. It was built long ago.\n\nThe mason of Arden came late."
    assert len(worth.texts) == len(set(worth.texts))  # leaves of one section are one passage
    reasons = [f"{step.action}: {step.reason}" for step in found.trace]
    assert any("by worth" in reason for reason in reasons) and "no triplets" in reasons[-1]


@pytest.mark.parametrize(
    ("scores", "beta", "expected"),
    [((2.0, 1.0), 0.5, 2.5), ((2.0, 1.0), 0.0, 2.0), ((2.0, 1.0, -4.0), 2.0, -12.0), ((), 0.5, 0)],
)
def test_equation_11(scores: tuple[float, ...], beta: float, expected: float) -> None:
    assert utility(scores, beta) == expected


def test_parameters() -> None:
    one = ask("aed(longest=40, m=1, memory=false)")
    assert len(one.passages) == 1
    assert not ensemble_in(one).memory
    assert ensemble_in(one).streams[0].utility == 4.0
    first = ask("aed(longest=40, k=1)")
    assert [passage.headings[-1] for passage in first.passages] == ["Arden"]
    leaves = ask("aed(longest=1)")
    assert all(len(passage.text) < 60 for passage in leaves.passages)
    whole = ask("aed(longest=500, m=1)", worth=Worth(Towns=1.0))
    assert all(town in whole.text for town in TOWNS)
    with pytest.raises(UsageError, match="invalid m of aed"):
        ask("aed(m=0)")
    assert preferred_mode("aed(m=1)") == "aed" and preferred_mode("weave") == preferred_mode("what?") == ""


def test_search_ranks_without_a_predictor() -> None:
    reader = ScriptedReader(STORE, {leaf: 1.0 - leaf / 100 for leaf in FOUND})
    found = assemble("aed(longest=40)", "Which tower?", reader, 300, Models(count_tokens))
    assert [passage.headings[-1] for passage in found.passages] == ["Arden", "Brook"]


def test_passages_over_the_budget_do_not_count_for_the_utility() -> None:
    whole = ask()
    small = ask(budget=count_tokens([whole.text])[0] - 15)
    (stream,) = ensemble_in(small).streams
    assert len(stream.passages) == len(small.passages) and small.tokens <= small.budget
    none = ask(budget=1)
    assert none.passages == ()
    assert ensemble_in(none).streams[0].utilities == () and ensemble_in(none).streams[0].utility == 0


def test_search_without_results_gives_no_passages() -> None:
    assert ask(scores={}).passages == ()


def test_most_useful_passages_share_a_prompt_without_the_ensemble() -> None:
    found = ask("aed(longest=40, m=3, ensemble=false, beta=0.25)")
    assert ensemble_in(found).together == 3
    assert ensemble_in(found).streams[0].beta == 0.25
    assert [passage.headings[-1] for passage in found.passages] == ["Delos", "Brook", "Arden"]
    assert ensemble_in(ask()) == Ensemble(ensemble_in(ask()).streams)


# -- triplet sets

SETS = memory_store(
    [Document("towns.md", TEXT, "Towns"), Document("long.md", "Nothing here is short. " * 60, "Long")],
    triplet=TripletSettings(longest=40),
)


class WorthOfKinds(Worth):
    """A predictor that scores triplets above passages, and each by the town in it."""

    def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
        return [
            value + (10 if " | " in text else 0)
            for text, value in zip(texts, super().utilities(question, texts), strict=True)
        ]


def ask_of_sets(
    spec: str = "aed(longest=40)", budget: int = 300, count: Any = count_tokens, predictor: Any = None
) -> Context:
    reader = ScriptedReader(SETS, {leaf: 1.0 - leaf / 100 for leaf in FOUND})
    return assemble(spec, "Which tower?", reader, budget, Models(count, predictor=predictor or WorthOfKinds(**WORTH)))


def test_the_m_most_useful_triplet_sets_make_a_stream() -> None:
    found = ask_of_sets()
    passages, sets = ensemble_in(found).streams
    assert (passages.name, passages.passages, passages.utilities) == ("passages", (1, 2), (4.0, 3.0))
    assert (sets.name, sets.passages, sets.utilities) == ("triplets", (3, 4), (14.0, 13.0))
    assert sets.utility == 14.0 + 0.5 * 13.0
    assert found.tokens == count_tokens([found.text])[0] <= 300
    steps = [step for step in found.trace if step.action == "triplets"]
    assert [step.score for step in steps] == [14.0, 13.0] and "triplets by rules" in steps[0].reason
    assert step_json(steps[0])["triplets"]["made"] == "rules"


def test_triplet_passages_have_the_spans_of_their_source_sentences() -> None:
    found = ask_of_sets()
    shown = found.passages[2]
    assert not shown.verbatim and shown.headings == ("Delos",)
    assert "Delos | has | tower" in shown.text and "(written, not quoted)" in found.text
    sentences = [TEXT[span.start : span.end] for span in shown.spans]
    assert sentences == ["Delos has a tower.", "The mason of Delos came late."]
    (note,) = [step.note for step in found.trace if step.action == "triplets"][:1]
    assert note is not None
    for one in note.as_dict()["triplets"]:  # type: ignore[attr-defined]
        assert TEXT[one["span"]["start"] : one["span"]["end"]] in sentences


def test_triplets_can_be_disabled() -> None:
    bare, disabled = ask(), ask_of_sets("aed(longest=40, triplets=false)")
    assert [stream.name for stream in ensemble_in(disabled).streams] == ["passages"]
    assert disabled.passages == bare.passages and "triplets disabled" in disabled.trace[-1].reason


@pytest.mark.parametrize("budget", [*range(0, 60, 3), 80, 120])
def test_sets_keep_their_first_triplets_within_the_budget(budget: int) -> None:
    found, whole = ask_of_sets(budget=budget), ask_of_sets()
    assert found.tokens == (count_tokens([found.text])[0] if found.text else 0) <= budget
    numbers = [number for stream in ensemble_in(found).streams for number in stream.passages]
    assert sorted(numbers) == list(range(1, len(found.passages) + 1))
    texts = {passage.headings: passage.text for passage in whole.passages if not passage.verbatim}
    for passage in found.passages:
        assert passage.verbatim or texts[passage.headings].startswith(passage.text)
    assert found.budget == budget


def test_budget_holds_with_a_counter_that_counts_joined_texts_differently() -> None:
    def jumpy(texts: Sequence[str]) -> list[int]:
        return [
            tokens * (2 if text.count("\n") > 3 else 1) for text, tokens in zip(texts, count_tokens(texts), strict=True)
        ]

    for budget in (60, 100, 150):
        found = ask_of_sets(budget=budget, count=jumpy)
        assert found.tokens == (jumpy([found.text])[0] if found.text else 0) <= budget


def test_the_better_of_passage_and_triplets_is_read_without_the_ensemble() -> None:
    both = ask_of_sets("aed(longest=40, m=3, ensemble=false)", budget=2000)
    assert ensemble_in(both).together == 3
    assert [passage.verbatim for passage in both.passages] == [False] * 3  # each set is worth more than its passage
    assert len({passage.headings for passage in both.passages}) == 3
    alone = ask_of_sets("aed(longest=40, m=3, ensemble=false, triplets=false)", budget=2000)
    assert [passage.headings[-1] for passage in alone.passages] == ["Delos", "Brook", "Arden"]
    assert all(passage.verbatim for passage in alone.passages)


def test_triplets_can_share_a_prompt_without_passages() -> None:
    found = ask_of_sets("aed(longest=40, m=3, ensemble=false, together=triplets)", 2000, predictor=Worth(**WORTH))
    assert ensemble_in(found).together == 3
    assert [passage.headings[-1] for passage in found.passages] == ["Delos", "Brook", "Arden"]
    assert not any(passage.verbatim for passage in found.passages)
    with pytest.raises(UsageError, match="no triplet view"):
        ask("aed(ensemble=false, together=triplets)")


def test_passages_and_their_triplets_can_share_a_prompt() -> None:
    """The utility of the passage ranks both, whatever the utility of the triplet set is."""

    class ReversedSets(WorthOfKinds):
        def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
            return [v if v < 5 else 20 - v for v in super().utilities(question, texts)]

    found = ask_of_sets("aed(longest=40, m=2, ensemble=false, together=both)", 2000, predictor=ReversedSets(**WORTH))
    ensemble = ensemble_in(found)
    assert ensemble is not None and ensemble.together == 4
    assert [(p.headings[-1], p.verbatim) for p in found.passages] == [
        ("Delos", True), ("Brook", True), ("Delos", False), ("Brook", False)
    ]  # fmt: skip
    assert [stream.utilities for stream in ensemble.streams] == [(4.0, 3.0), (4.0, 3.0)]
    bare = ask("aed(longest=40, m=2, ensemble=false, together=both)")
    assert len(bare.passages) == 2 and "no triplets in this index" in bare.trace[-1].reason


def test_candidates_can_keep_the_order_of_the_search() -> None:
    worth = Worth(**WORTH)
    found = ask_of_sets("aed(longest=40, by=search, memory=false, ensemble=false, m=2)", 2000, predictor=worth)
    assert [passage.headings[-1] for passage in found.passages] == ["Arden", "Brook"] and not worth.texts
    assert ensemble_in(found).streams[0].utilities == (1.0, 0.98)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("aed(by=search)", "no score"),
        ("aed(together=both)", "ensemble=false"),
        ("aed(together=triplets, ensemble=false, triplets=false)", "ensemble=false"),
    ],
)
def test_contradicting_parameters_are_rejected(spec: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        ask(spec)
    assert message in f"{error.value.message} {error.value.hint}"


def test_preset_has_the_values_of_the_paper() -> None:
    paper = resolve("aed(preset=paper)")[1]
    # section 4.1: two of ten passages, a visibility of 0.5, all three streams, the best token
    assert (paper.k, paper.m, paper.beta) == (10, 2, 0.5)
    assert paper.triplets and paper.memory and paper.ensemble and paper.by == "utility"
    # the paper does not exclude a background of "N/A", so it is read and weighted
    assert replace(paper, na=False) == resolve("aed")[1]
    assert paper.na and not resolve("aed")[1].na
    assert resolve("aed(preset=paper, m=1, k=5)")[1] == replace(paper, m=1, k=5)
    assert ensemble_in(ask("aed(preset=paper)")).na


def test_trace_counts_texts_cut_by_the_predictor() -> None:
    class Short(Worth):
        def count_cut(self, question: str, texts: Sequence[str]) -> int:
            return sum(len(text) > 60 for text in texts)

    (step,) = [step for step in ask(worth=Short(**WORTH)).trace if step.action == "utility"]
    assert step.reason == "5 passages by worth (5 of them cut to its input length)"
    (step,) = [step for step in ask().trace if step.action == "utility"]
    assert "cut" not in step.reason


@given(
    st.lists(st.tuples(st.integers(-40, 40), st.integers(-40, 40)), min_size=5, max_size=5, unique=True),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]),
    st.integers(1, 5),
)
@settings(max_examples=30)
def test_algorithm_2_up_to_its_weights(worth: list[tuple[int, int]], m: int, beta: float, k: int) -> None:
    """A literal transcription of lines 1 to 14: the first k results, their utilities, the top m of each kind, Eq. 11 and 13."""
    of_town = dict(zip(TOWNS, worth, strict=True))

    class OfKinds(Worth):
        def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
            return [of_town[next(town for town in TOWNS if town in text)][" | " in text] / 8 for text in texts]

    found = ask_of_sets(f"aed(longest=40, k={k}, m={m}, beta={beta:g})", 5000, predictor=OfKinds())
    retrieved = TOWNS[:k]
    expected = {}
    for kind, name in enumerate(("passages", "triplets")):
        scores = [of_town[town][kind] / 8 for town in retrieved]
        total = 0.0
        for j in range(1, m + 1):
            if scores:
                best = max(scores)
                scores.remove(best)
                total += beta ** (j - 1) * best
        expected[name] = total
    ensemble = ensemble_in(found)
    assert ensemble is not None
    utilities = {stream.name: stream.utility for stream in ensemble.streams}
    assert utilities == pytest.approx(expected)
    whole = sum(exp(value) for value in expected.values())
    assert weights_of(utilities) == pytest.approx({name: exp(value) / whole for name, value in expected.items()})


def useful(utility: float, *starts: int) -> RetrievedUnit:
    """Return a candidate of five-character fragments. The last is its own text, and the others lead to it."""
    parts = tuple(Fragment("d", "", (), start, start + 5, start, "text.") for start in starts)
    return RetrievedUnit("passage", "text.", utility, range(1), Candidate(parts, 1.0), utility=utility)


def passages_at(*places: tuple[int, int]) -> list[Passage]:
    return [Passage("text", 1.0, (Span("d", start, end),)) for start, end in places]


@pytest.mark.parametrize(
    ("top", "places", "units"),
    [
        # each in a separate passage, cut and whole
        (((3, 0), (2, 20)), ((21, 25), (0, 5)), ((3, (2,)), (2, (1,)))),
        # both in the same passage
        (((3, 0), (2, 20)), ((0, 25),), ((3, (1,)), (2, (1,)))),
        # one candidate in two passages, since the fragment that leads to it is apart
        (((3, 0, 20),), ((0, 5), (20, 25)), ((3, (1, 2)),)),
        # adjacent fragments in one passage
        (((3, 0, 5),), ((0, 10),), ((3, (1,)),)),
        # the first is dropped; its leading fragment also leads to the second
        (((3, 0, 20), (2, 0, 40)), ((0, 5), (40, 45)), ((2, (1, 2)),)),
        # text elsewhere
        (((3, 0),), ((5, 9),), ()),
    ],
)
def test_only_candidates_in_the_context_have_utilities(
    top: Any, places: Any, units: tuple[tuple[float, tuple[int, ...]], ...]
) -> None:
    found = _passage_stream([useful(*one) for one in top], passages_at(*places), 0.25)
    assert [(unit.utility, unit.passages) for unit in found.units] == list(units)
    assert found.utility == utility([worth for worth, _ in units], 0.25)
