"""Measurements of `python -m benchmarks.weave`: pointing and the budget "auto"."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.completeness import auc, needed
from benchmarks.curves import Place, on_curve, slope
from benchmarks.pointing import Oracle

from mergewise.concurrency import run
from mergewise.designs.weave.pointing import form, messages
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.types import SHIPPED, Document, Span
from tests.designs.weave.test_selection import candidates_of

CURVE = [Place((100, 100), 0.4, 0.2), Place((300, 300), 0.8, 0.6), Place((500, 500), 0.9, 0.7)]


def test_point_on_the_curve_is_between_its_neighbours() -> None:
    assert on_curve(CURVE, 200) == pytest.approx((0.6, 0.4))
    assert on_curve(CURVE, 50) == pytest.approx((0.4, 0.2)) and on_curve(CURVE, 900) == pytest.approx((0.9, 0.7))
    assert [slope(CURVE, at) for at in (200, 400, 900)] == pytest.approx([20.0, 5.0, 5.0])


@pytest.mark.parametrize(("spec", "missing"), [("oracle", ""), ("oracle+search", "Ada Moor")])
def test_oracle_points_at_the_gold_and_names_hidden_gold(spec: str, missing: str) -> None:
    text = "# Rain\n\nRain was directed by Ada.\n\n# Ada Moor\n\nShe was born in Faro.\n"
    gold = ("Rain was directed by Ada.", "She was born in Faro.")
    spans = tuple((Span("d", at := text.index(part), at + len(part)), part) for part in gold)
    oracle = Oracle(spec, QuestionSet("t", (Document(id="d", title="D", text=text),), ()))
    oracle.asked = Question("1", "q", (), spans)
    for last in (False, True):
        shown = ["1. Snow falls.", "2. (D › Rain) Rain was directed by Ada."]
        reply = run(oracle.complete(messages("q", shown, SHIPPED, last=last), schema=form(2, last=last).schema))
        assert json.loads(reply.text) == {"needed": "2"} | ({} if last else {"missing": missing})


def test_gold_needs_the_candidates_that_cover_it() -> None:
    text = "# Rain\n\nIt rains. It snows.\n\n- It hails.\n"
    candidates = candidates_of("Does it rain?", Document(id="d", title="", text=text))
    rains, snows, hails = (text.index(word) for word in ("It rains", "It snows", "It hails"))
    numbers = {sentence.span.start: i for i, sentence in enumerate(candidates.pool.sentences)}
    first, second = numbers[rains], numbers[snows]
    assert needed(candidates, Span("d", rains + 3, rains + 6), text) == {first}
    assert needed(candidates, Span("d", rains, snows + 9), text) == {first, second}
    whole = needed(candidates, Span("d", rains, hails + 9), text)
    assert whole is not None and len(whole) == 3 and {first, second} < whole
    assert needed(candidates, Span("d", 0, 6), text) is None and needed(candidates, Span("e", 0, 6), text) is None


def test_auc_is_the_share_of_ordered_pairs() -> None:
    held = np.array([1.0, 0.0, 1.0, 0.0])
    assert auc(np.array([0.9, 0.1, 0.8, 0.2]), held) == 1
    assert auc(np.array([0.9, 0.9, 0.1, 0.2]), held) == pytest.approx((0.5 + 1 + 0 + 0) / 4)
