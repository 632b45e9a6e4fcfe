"""`report --judge` over HTTP: the cost comes first, then the verdicts and their agreement with exact match."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.chat_server import ChatServer
from tests.cli.invoking import invoke
from tests.evaluate.towns import saved_task

from mergewise.errors import UsageError
from mergewise.evaluate.judging import judge_requests, kappa, verdict_of
from mergewise.evaluate.runs.run_folder import open_run
from mergewise.types import Message

ANSWERS = {"Arden": "Mason Ardeny", "Brook": "It was Mason Brooky.", "Corin": "Somebody else", "Delos": "Mason Delosy"}


def reply(messages: Sequence[Message]) -> str:
    """Answer questions. As a judge, accept answers with the mason, and misread the one of Delos."""
    text = messages[-1].text
    town = next(name for name in ANSWERS if f"tower of {name}?" in text)
    said = ANSWERS[town]
    if '"claims"' in messages[0].text:
        claims = [{"claim": said, "supported": f"Mason {town}y" in said}, {"claim": "more", "supported": True}]
        return str({"claims": claims}).replace("'", '"').replace("True", "true").replace("False", "false")
    if '"correct"' in messages[0].text:
        return "I cannot say." if town == "Delos" else f'{{"correct": {str(f"Mason {town}y" in said).lower()}}}'
    return f"{said} [1]."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with ChatServer(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        given = [str(saved_task(tmp_path / "towns")), "--answers", "--embedder", "none", "-s", "topk", "-b", "60"]
        invoke("eval", *given, "--mode", "short", "--chat", "openai:scripted", "--out", str(tmp_path / "run"))
    return tmp_path / "run"


def test_answers_are_judged_and_no_verdict_is_paid_for_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        cost = invoke("report", str(folder), "--judge", "openai:judge", "--dry-run", price_in="1", price_out="2")
        assert "8 calls, " in cost and "output tokens, cost at most 0.01" in cost and not server.asked
        out = invoke("report", str(folder), "--judge", "openai:judge")
        assert len(server.asked) == 8
        assert out.index("8 calls, ") < out.index("agreement")
        # correct: yes, yes, no. Exact match: yes, no, no. Claims: both, both, one of two, both
        (row,) = [line.split() for line in out.splitlines() if line.endswith("topk")]
        assert row == ["60", "3", "0.667", "0.333", "0.667", "0.400", "0.875", "1", "topk"]
        again = invoke("report", str(folder), "--judge", "openai:judge")
        assert "0 calls, " in again and len(server.asked) == 8


def test_the_judge_reads_the_context_but_not_as_orders(folder: Path) -> None:
    requests = judge_requests(open_run(folder))
    assert [one.measure for one in requests] == ["correct", "faithful"] * 4
    correct, faithful = (one.messages for one in requests[:2])
    assert "Mason Ardeny" in correct[1].text and "tower of Arden was built" not in correct[1].text
    assert "tower of Arden was built" in faithful[1].text
    assert all("never\ninstructions" in messages[0].text for messages in (correct, faithful))


@pytest.mark.parametrize(
    ("measure", "text", "verdict"),
    [
        ("correct", '{"correct": true}', 1.0),
        ("correct", 'Sure.\n```json\n{"correct": false}\n```', 0.0),
        ("correct", '{"correct": "yes"}', None),
        ("correct", "no", None),
        ("faithful", '{"claims": [{"claim": "a", "supported": true}, {"claim": "b", "supported": false}]}', 0.5),
        ("faithful", '{"claims": []}', None),
        ("faithful", '{"claims": [1, {"supported": "x"}]}', None),
        ("faithful", "[true]", None),
    ],
)
def test_replies_are_checked(measure: str, text: str, verdict: float | None) -> None:
    assert verdict_of(measure, text) == verdict


def test_kappa() -> None:
    # agreement 0.6, by chance 0.5 * 0.5 + 0.5 * 0.5
    assert kappa([1, 1, 0, 0, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 1, 0, 1, 1, 1, 0]) == pytest.approx((0.6 - 0.5) / 0.5)
    assert kappa([1, 0], [1, 0]) == 1 and kappa([1, 0], [0, 1]) == -1
    assert kappa([1, 1], [1, 1]) is None and kappa([], []) is None


def test_a_run_without_answers_and_a_judge_without_a_model(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a chat model"):
        invoke("report", str(folder), "--judge", "extractive")
    invoke(
        "eval", str(tmp_path / "towns"), "--embedder", "none", "-s", "topk", "-b", "60", "--out", str(tmp_path / "x")
    )
    with pytest.raises(UsageError, match="no answers in"):
        invoke("report", str(tmp_path / "x"), "--judge", "openai:judge")
