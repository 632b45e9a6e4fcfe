"""The endpoint scorer over real HTTP, against endpoints that answer like vLLM, OpenAI and llama.cpp."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.models.http_endpoint import HTTPEndpoint, Reply, Script

from mergewise.errors import ModelError
from mergewise.models import load_scorer

pytest.importorskip("openai")

ANCHORS = ["The cat sat on the mat.", "Dogs bark at night, and cats do not.", ""]
SOURCES = ["A cat sat here.", "Nobody barks."]


def tokens(text: str) -> list[str]:
    return re.findall(r"\s*\w+|\s*[^\w\s]|\s+$", text)


def logprob(prompt: str, at: int) -> float:
    """Return a made-up log-probability of the token at `at`, which depends on the text before it."""
    return -(sum(prompt[:at].encode()) % 97 + 1) / 10


def expected(source: str, anchor: str) -> float:
    prompt = anchor + "\n\n" + source
    found, at = [], 0
    for token in tokens(prompt):
        if at + len(token) > len(prompt) - len(source) and at:
            found.append(-logprob(prompt, at))
        at += len(token)
    return sum(found) / len(found)


def positions(prompt: str) -> Iterator[tuple[str, int, float | None]]:
    at = 0
    for token in tokens(prompt):
        yield token, at, logprob(prompt, at) if at else None
        at += len(token)


def choices(request: dict[str, Any], make: Callable[[str], dict[str, Any]]) -> Reply:
    """Return choices in reverse order, so that only the index shows the prompt of a choice."""
    rows = [{"index": i, "text": "!", "finish_reason": "length", **make(p)} for i, p in enumerate(request["prompt"])]
    return 200, {"id": "x", "object": "text_completion", "created": 0, "model": "m", "choices": rows[::-1]}, {}


def echo(request: dict[str, Any]) -> Reply:
    if not request.get("echo"):
        return choices(request, lambda p: {"logprobs": None})

    def make(prompt: str) -> dict[str, Any]:
        rows = [*positions(prompt), ("!", len(prompt), -3.0)]  # the generated token is last
        texts, offsets, values = ([row[i] for row in rows] for i in range(3))
        return {"logprobs": {"tokens": texts, "token_logprobs": values, "text_offset": offsets, "top_logprobs": None}}

    return choices(request, make)


def without_offsets(request: dict[str, Any]) -> Reply:
    status, answer, _ = echo(request)
    assert isinstance(answer, dict)
    for choice in answer["choices"]:
        choice["logprobs"]["text_offset"] = []
    return status, answer, {}


def vllm(request: dict[str, Any]) -> Reply:
    if "prompt_logprobs" not in request:
        return 400, {"error": {"message": "echo is not supported"}}, {}

    def make(prompt: str) -> dict[str, Any]:
        rows: list[Any] = [
            None if value is None else {"17": {"logprob": value, "rank": 3, "decoded_token": token}}
            for token, _, value in positions(prompt)
        ]
        return {"logprobs": None, "prompt_logprobs": rows}

    return choices(request, make)


def llama_cpp(request: dict[str, Any]) -> Reply:
    """Ignore `echo`, and return only the log-probability of the generated token."""
    return choices(request, lambda p: {"logprobs": {"tokens": ["!"], "token_logprobs": [-3.0], "text_offset": [0]}})


def refusing(request: dict[str, Any]) -> Reply:
    return 400, {"error": {"message": "no log-probabilities here"}}, {}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPEndpoint]:
    with HTTPEndpoint(echo) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        yield server


@pytest.fixture
def scorer(server: HTTPEndpoint) -> Any:
    return load_scorer("openai:m")


@pytest.mark.parametrize("answer", [echo, without_offsets, vllm])
def test_the_score_is_the_mean_over_the_tokens_of_the_source(server: HTTPEndpoint, scorer: Any, answer: Script) -> None:
    server.script = [answer]
    assert scorer.spec == "openai:m"
    found = scorer.nll(SOURCES, ANCHORS)
    wanted = [[expected(s, a) for a in ANCHORS] for s in SOURCES]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert {*server.paths} == {"/v1/completions"}


def test_the_accepted_form_is_remembered_and_pairs_are_requested_once(server: HTTPEndpoint, scorer: Any) -> None:
    server.script = [vllm]
    scorer.nll(SOURCES[:1], ANCHORS)
    assert len(server.requests) == 2  # the refused form and the accepted form
    scorer.nll(SOURCES[:1], ANCHORS[::-1])
    assert len(server.requests) == 2
    scorer.nll(SOURCES, ANCHORS)
    assert len(server.requests) == 3 and len(server.requests[-1]["prompt"]) == len(ANCHORS)


def test_an_empty_source_scores_0(server: HTTPEndpoint, scorer: Any) -> None:
    assert (scorer.nll(["", " "], ANCHORS) == 0).all() and server.requests == []


@pytest.mark.parametrize("answer", [llama_cpp, refusing])
def test_an_endpoint_without_prompt_log_probabilities_is_refused(
    server: HTTPEndpoint, scorer: Any, answer: Script
) -> None:
    server.script = [answer]
    with pytest.raises(ModelError) as error:
        scorer.nll(SOURCES, ANCHORS)
    assert "no log-probabilities of the prompt" in error.value.message and "the scorer lm" in error.value.hint


def test_a_single_prompt_without_log_probabilities_raises_an_error(server: HTTPEndpoint, scorer: Any) -> None:
    def forgetful(request: dict[str, Any]) -> Reply:
        status, answer, _ = echo(request)
        assert isinstance(answer, dict)
        answer["choices"][0]["logprobs"] = None
        return status, answer, {}

    server.script = [forgetful]
    with pytest.raises(ModelError, match="no log-probabilities of the prompt"):
        scorer.nll(SOURCES, ANCHORS[:2])


def test_missing_choices_raise_an_error(server: HTTPEndpoint, scorer: Any) -> None:
    server.script = [lambda request: (200, {"id": "x", "object": "text_completion", "choices": []}, {})]
    with pytest.raises(ModelError, match="0 choices for 1 prompts"):
        scorer.nll(SOURCES[:1], ANCHORS[:1])
