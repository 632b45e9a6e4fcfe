"""Probes: the likeliest source of an answer, and cosines against NLL on matrices worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.evaluate.towns import DOCUMENTS, QUESTIONS, TASK, Reader

import mergewise
from mergewise.evaluate.evaluator import Asking, Evaluator
from mergewise.evaluate.judged import agreement
from mergewise.evaluate.methods import Method
from mergewise.models.causal_chat import CausalChat
from mergewise.models.scripted_causal import ScriptedCausal


class Certain(ScriptedCausal):
    """A model that finds the gold answer likely after its favourite source: passages, triplets, or its own text."""

    def __init__(self, favourite: str) -> None:
        self.favourite = favourite
        super().__init__(Reader().decode(range(96)), self.likely, end="\n", window=8000, spec=favourite)

    def likely(self, text: str) -> Mapping[str, float]:
        asked = text.index("?", text.rindex("Question: ")) + 1
        prompt, said = text[:asked], text[asked:]
        if "hundred words" in prompt:
            whole = "I know.\n"
            return {whole[len(said)]: 1e6} if len(said) < len(whole) else {"\n": 1e6}
        kind = "generated" if "I know." in prompt else "triplets" if " | " in prompt or "; " in prompt else "passages"
        gold = next(q.answers[0] for q in QUESTIONS if q.text in prompt)
        sure = 1e3 if kind == self.favourite else 2.0
        return {gold[len(said)]: sure} if len(said) < len(gold) else {"\n": 1.0}


@pytest.mark.parametrize("favourite", ["passages", "generated"])
def test_the_source_of_the_likeliest_answer_wins(favourite: str, tmp_path: Path) -> None:
    chat = CausalChat(Certain(favourite))
    with mergewise.open(tmp_path / "index", views=("leaf", "triplet"), embedder="none", chat=chat) as index:
        index.add(DOCUMENTS)
        evaluator = Evaluator(index, TASK, Asking(64))
        one = evaluator.method_rows(Method("sources", "topk", probe="sources", views=("triplet",)), 640)
        evaluator.complete([one], QUESTIONS[:2])
        rows = one.rows(QUESTIONS[:2])
        plain = evaluator.method_rows(Method("sources", "topk", views=("triplet",)), 640)
    assert [row.error for row in rows] == ["", ""] and all(row.prediction is None for row in rows)
    for row in rows:
        shares = {kind: row.scores[f"from_{kind}"] for kind in ("passages", "triplets", "generated")}
        assert shares == {kind: float(kind == favourite) for kind in shares} and "answer" in row.scores
    assert plain.spec != one.spec


def test_agreement_by_hand() -> None:
    """Four chunks. By cosine 0 and 1 are closest, and 2 and 3. By NLL 0 and 1 are closest, while 2 and 3 go to 0."""
    cosines = np.array([[1.0, 0.9, 0.1, 0.2], [0.9, 1.0, 0.3, 0.1], [0.1, 0.3, 1.0, 0.8], [0.2, 0.1, 0.8, 1.0]])
    nll = np.array([[0.0, 1.0, 3.0, 2.0], [1.0, 0.0, 2.0, 3.0], [5.0, 6.0, 0.0, 7.0], [5.0, 7.0, 6.0, 0.0]])
    found = agreement(cosines, nll)
    # rows of cosines and of -L: (.9 .1 .2)/(-1 -3 -2), (.9 .3 .1)/(-1 -2 -3), (.1 .3 .8)/(-5 -6 -7), (.2 .1 .8)/(-5 -7 -6)
    assert found == {"rho": pytest.approx((1 + 1 - 1 + 0.5) / 4), "same_anchor": 0.5}
    np.fill_diagonal(cosines, 9.0)
    np.fill_diagonal(nll, -9.0)
    assert agreement(cosines, nll) == found
