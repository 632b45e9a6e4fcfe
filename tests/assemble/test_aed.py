from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mergewise.assemble import Models, assemble, preferred_mode
from mergewise.assemble.shared.streams import utility
from mergewise.errors import UsageError
from mergewise.models.tokens import count_tokens
from mergewise.types import Context, Document, Ensemble
from tests.support import ScriptedReader, memory_store

TOWNS = ("Arden", "Brook", "Corin", "Delos", "Eryx")
TEXT = "\n\n".join(
    f"# {town}\n\n{town} has a tower. It was built long ago.\n\nThe mason of {town} came late." for town in TOWNS
)
STORE = memory_store([Document("towns.md", TEXT, "Towns"), Document("long.md", "Nothing here is short. " * 60, "Long")])
FOUND = {row.id: row for row in ScriptedReader(STORE, dict.fromkeys(range(10), 1.0)).leaves(list(range(10))).values()}


class Worth:
    """A predictor by the town that a text names."""

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
    assert found.ensemble is not None and found.ensemble.memory
    (stream,) = found.ensemble.streams
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


def test_its_parameters() -> None:
    one = ask("aed(longest=40, m=1, memory=false, temperature=0.5, seed=7)")
    assert len(one.passages) == 1 and one.ensemble is not None
    assert (one.ensemble.memory, one.ensemble.temperature, one.ensemble.seed) == (False, 0.5, 7)
    assert one.ensemble.streams[0].utility == 4.0
    first = ask("aed(longest=40, k=1)")
    assert [passage.headings[-1] for passage in first.passages] == ["Arden"]
    leaves = ask("aed(longest=1)")
    assert all(len(passage.text) < 60 for passage in leaves.passages)
    whole = ask("aed(longest=500, m=1)", worth=Worth(Towns=1.0))
    assert all(town in whole.text for town in TOWNS)
    with pytest.raises(UsageError, match="cannot be"):
        ask("aed(m=0)")
    assert preferred_mode("aed(m=1)") == "aed" and preferred_mode("weave") == preferred_mode("what?") == ""


def test_without_a_predictor_the_search_ranks() -> None:
    reader = ScriptedReader(STORE, {leaf: 1.0 - leaf / 100 for leaf in FOUND})
    found = assemble("aed(longest=40)", "Which tower?", reader, 300, Models(count_tokens))
    assert [passage.headings[-1] for passage in found.passages] == ["Arden", "Brook"]


def test_what_has_no_place_in_the_budget_has_no_utility() -> None:
    whole = ask()
    small = ask(budget=count_tokens([whole.text])[0] - 15)
    assert small.ensemble is not None
    (stream,) = small.ensemble.streams
    assert len(stream.passages) == len(small.passages) and small.tokens <= small.budget
    none = ask(budget=1)
    assert none.passages == () and none.ensemble is not None
    assert none.ensemble.streams[0].utilities == () and none.ensemble.streams[0].utility == 0


def test_nothing_found() -> None:
    assert ask(scores={}).passages == ()


def test_without_the_ensemble_the_most_useful_are_read_in_one_prompt() -> None:
    found = ask("aed(longest=40, m=3, ensemble=false, beta=0.25)")
    assert found.ensemble is not None and (found.ensemble.together, found.ensemble.beta) == (3, 0.25)
    assert [passage.headings[-1] for passage in found.passages] == ["Delos", "Brook", "Arden"]
    assert ask().ensemble == Ensemble(ask().ensemble.streams)  # type: ignore[union-attr]
