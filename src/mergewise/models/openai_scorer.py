"""Scorer `openai:MODEL`: the NLL of sources given anchors, from prompt log-probabilities of a completions endpoint.

A request has one of two forms: `echo` with `logprobs` (OpenAI's old completions, vLLM, llama-cpp-python, lm-eval's servers), or
`prompt_logprobs` (vLLM). The first form that returns log-probabilities of the prompt's tokens is used from then on. llama.cpp's
server returns them only for the generated token, and chat endpoints do not return any: both raise an error with a hint.

Address and key come from OPENAI_BASE_URL and OPENAI_API_KEY. A prompt is an anchor followed by a source. The pairs of a source
are sent together. The endpoint may cache the anchors (vLLM: prefix caching).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from mergewise.errors import ModelError
from mergewise.models.endpoint import Endpoint
from mergewise.models.scores import Pair, PairMemory
from mergewise.protocols import FloatArray
from mergewise.types import Json

BATCH_PROMPTS = 16
SEPARATOR = "\n\n"

# Generate one token, because some endpoints reject a limit of 0.
_FORMS: Mapping[str, Json] = {
    "echo": {"echo": True, "logprobs": 1, "max_tokens": 1},
    "prompt_logprobs": {"prompt_logprobs": 0, "max_tokens": 1},
}


class OpenAIScorer:
    """An `NLLScorer` by a completions endpoint. Each pair is requested once. `requests` counts the requests.

    Args:
        model: name of the model at the endpoint.
        batch_prompts: prompts per request.
        retries: number of retries of a failed request. Default: MERGEWISE_RETRIES, else 4.
        timeout: seconds without a byte before a request fails. Default: MERGEWISE_TIMEOUT, else 120.
    """

    def __init__(
        self,
        model: str,
        *,
        batch_prompts: int = BATCH_PROMPTS,
        retries: int | None = None,
        timeout: float | None = None,
    ) -> None:
        self.spec = f"openai:{model}"
        self.requests = 0
        self._model = model
        self._endpoint = Endpoint(self.spec, "completions", retries, timeout=timeout)
        self.aclose = self._endpoint.aclose
        self._form: str | None = None
        self._memory = PairMemory(self._scores, batch_prompts)

    def nll(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        """Score each source given each anchor.

        Args:
            sources: the texts to score.
            anchors: the texts before them.

        Returns:
            The mean NLL per token in nats, shape (len(sources), len(anchors)). It is 0 for an empty source.

        Raises:
            ModelError: if a request fails, or the endpoint returns no log-probabilities of the prompt.
        """
        table = np.zeros((len(sources), len(anchors)), np.float32)
        nonempty = [number for number, source in enumerate(sources) if source.strip()]
        table[nonempty] = self._memory.table([sources[number] for number in nonempty], anchors)
        return table

    def _scores(self, pairs: Sequence[Pair]) -> list[float]:
        sdk, prompts = self._endpoint.sdk, [anchor + SEPARATOR + source for source, anchor in pairs]
        for form in [self._form] if self._form else list(_FORMS):
            with self._endpoint.reading("completions"):
                try:
                    answer = self._ask(prompts, form)
                except (sdk.BadRequestError, sdk.UnprocessableEntityError):
                    if self._form:
                        raise
                    continue
            tokens = [_prompt_tokens(c, form, p) for c, p in zip(answer, prompts, strict=True)]
            if all(tokens):
                self._form = form
                return [_mean_nll(row, source) for row, (source, _) in zip(tokens, pairs, strict=True)]
        raise ModelError(
            f"no log-probabilities of the prompt from {self.spec}",
            "use an endpoint such as vLLM or llama-cpp-python, or the scorer lm, or hf:PATH on this machine",
        )

    def _ask(self, prompts: Sequence[str], form: str) -> list[Any]:
        """Return a choice for each prompt, in order."""
        self.requests += 1
        body = {"model": self._model, "prompt": list(prompts), "temperature": 0.0, **_FORMS[form]}
        answer = self._endpoint.ask("/completions", body)
        choices = sorted(answer.get("choices") or (), key=lambda choice: choice["index"])
        if [choice["index"] for choice in choices] != list(range(len(prompts))):
            raise self._endpoint.invalid_answer(f"{len(choices)} choices for {len(prompts)} prompts")
        return choices


def _prompt_tokens(choice: Any, form: str, prompt: str) -> list[tuple[str, float]]:
    """Return the prompt's tokens and log-probabilities, or an empty list without any. The first token has none."""
    try:
        if form == "prompt_logprobs":
            # vLLM: a mapping from token ids to log-probabilities for each position, with the prompt's token first
            entries = [next(iter(position.values())) for position in choice["prompt_logprobs"] if position]
            return [(str(entry["decoded_token"] or ""), float(entry["logprob"])) for entry in entries]
        given = choice["logprobs"]
        tokens = given["tokens"]
        offsets = given.get("text_offset") or [0, *accumulate(map(len, tokens[:-1]))]
        rows = [row for row in zip(tokens, given["token_logprobs"], offsets, strict=True) if row[2] < len(prompt)]
        if 2 * sum(len(text) for text, _, _ in rows) < len(prompt):
            # llama.cpp's server returns the generated text instead of the prompt
            return []
        return [(text, float(value)) for text, value, _ in rows if value is not None]
    except (AttributeError, KeyError, TypeError, ValueError, StopIteration):
        return []


def _mean_nll(tokens: Sequence[tuple[str, float]], source: str) -> float:
    """Return the mean NLL of the source's tokens: the last tokens of the prompt that cover the source's characters."""
    left, total, count = len(source), 0.0, 0
    for text, value in reversed(tokens):
        if left <= 0:
            break
        left -= len(text)
        total -= value
        count += 1
    return total / max(1, count)
