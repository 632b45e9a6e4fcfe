"""Greedy decoding with one or several streams per question, by Eq. 14 of AED-RAG or by REPLUG's mixture.

- The streams of a question are prompts of any length, all continued by the same tokens.
- The streams of all questions are rows of one batch, which is read in one pass.
- Each step chooses a token per question and appends it to the question's rows.
- A question ends for all its streams at once, and its rows leave the batch.
- Streams of weight 0 are not run. A single stream of weight 1 is ordinary decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import fsum, isfinite
from typing import TypeAlias

import numpy as np

from mergewise.concurrency import CancellableWork, check_time
from mergewise.errors import UsageError
from mergewise.protocols import Blend, CausalModel
from mergewise.types import Message, frozen

# maximum of rows in a batch
ROWS = 48
# tolerance for the sum of weights
_SUM = 1e-6

ShowPiece: TypeAlias = Callable[[int, str], None]
"""A callback for the number of a question and the next piece of its text."""


@frozen
class StreamPrompts:
    """The prompts of a question's streams, in tokens, and the weights of the streams, which add up to 1."""

    prompts: tuple[Sequence[int], ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.prompts or len(self.prompts) != len(self.weights):
            raise UsageError(
                f"{len(self.weights)} weights for {len(self.prompts)} prompts", "give one weight for each prompt"
            )
        if not all(isfinite(w) and w >= 0 for w in self.weights) or abs(fsum(self.weights) - 1) > _SUM:
            raise UsageError(f"invalid weights: {self.weights} (expected a sum of 1)", "normalise the weights")


@dataclass(slots=True)
class Decoded:
    """A decoded answer.

    For each token, `pieces` holds its part of the text, `log_probs` its log-probability in each stream (None if the stream was
    not run), `agreement` how far the streams agreed, in (0, 1], and `carried` the number of the stream that contributed most of
    its probability.
    """

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    pieces: list[str] = field(default_factory=list)
    log_probs: list[list[float | None]] = field(default_factory=list)
    agreement: list[float] = field(default_factory=list)
    carried: list[int] = field(default_factory=list)
    # False if decoding stopped at the limit of tokens
    complete: bool = True
    input_tokens: int = 0


def decode(
    model: CausalModel,
    questions: Sequence[StreamPrompts],
    *,
    max_tokens: int,
    mixture: bool = False,
    show: ShowPiece | None = None,
    rows: int = ROWS,
) -> list[Decoded]:
    """Decode the answers of questions, in order.

    Args:
        model: the causal model.
        questions: the streams of each question.
        max_tokens: maximum of tokens per answer, without end tokens.
        mixture: blend streams by REPLUG's mixture instead of Eq. 14.
        show: called with each piece of text.
        rows: maximum of rows in a batch.

    Raises:
        UsageError: if a prompt fills the model's window.
        CancelledError: if the work is cancelled.
    """
    made = [_Decoding(number, streams, model, max_tokens) for number, streams in enumerate(questions)]
    waiting = list(made)
    while waiting:
        # Up to `rows` rows, and at least one question.
        sizes = accumulate(len(answer.prompts) for answer in waiting)
        count = max(1, sum(size <= rows for size in sizes))
        batch, waiting = waiting[:count], waiting[count:]
        _decode(model, batch, mixture, show)
    return [answer.decoded for answer in made]


def decode_each(
    model: CausalModel, asked: Sequence[Sequence[Message]], max_tokens: int, show: ShowPiece | None = None
) -> list[Decoded]:
    """Decode a text for each prompt, in one batch."""
    streams = [StreamPrompts((model.prompt(messages),), (1.0,)) for messages in asked]
    return decode(model, streams, max_tokens=max_tokens, show=show)


class _Decoding:
    """The state of decoding one question."""

    def __init__(self, number: int, streams: StreamPrompts, model: CausalModel, max_tokens: int) -> None:
        self.number = number
        self.run = [i for i, weight in enumerate(streams.weights) if weight > 0]
        self.prompts = [streams.prompts[i] for i in self.run]
        self.weights = [streams.weights[i] for i in self.run]
        self.streams = len(streams.weights)
        longest = max(map(len, self.prompts))
        if longest >= model.window:
            raise UsageError(
                f"prompt of {longest} tokens fills the window of {model.spec}: {model.window} tokens", "lower --budget"
            )
        self.limit = min(max_tokens, model.window - longest)
        self.decoded = Decoded(input_tokens=sum(map(len, self.prompts)))
        self._shown = 0

    def take(self, token: int, log_probs: Sequence[float], agreement: float, text: str) -> str:
        """Append a token, and return the piece of text that is now final."""
        said = self.decoded
        said.tokens.append(token)
        row: list[float | None] = [None] * self.streams
        for stream, value in zip(self.run, log_probs, strict=True):
            row[stream] = value
        said.log_probs.append(row)
        said.agreement.append(agreement)
        # the stream with the largest w P(token) contributes most to a mixture
        shares = [np.log(weight) + value for weight, value in zip(self.weights, log_probs, strict=True)]
        said.carried.append(self.run[int(np.argmax(shares))])
        said.text = text
        # the next token may complete a partial character
        piece = "" if text.endswith("\ufffd") else text[self._shown :]
        self._shown += len(piece)
        said.pieces.append(piece)
        return piece

    def end(self, complete: bool) -> str:
        """End the answer, and return the text that was held back."""
        self.decoded.complete = complete
        rest = self.decoded.text[self._shown :]
        if rest:
            self.decoded.pieces[-1] += rest
        return rest


def _decode(model: CausalModel, batch: list[_Decoding], mixture: bool, show: ShowPiece | None) -> None:
    # A row for each prompt. Equal prompts are read once.
    prompts = [tuple(prompt) for answer in batch for prompt in answer.prompts]
    places = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
    state = model.start(list(places))
    if len(places) < len(prompts):
        state = model.select(state, [places[prompt] for prompt in prompts])
    while True:
        if CancellableWork.current().cancelled:
            raise CancelledError
        check_time()
        choice = model.choose(state, Blend(_rows(batch), [answer.weights for answer in batch], mixture))
        going: list[int] = []
        for place, answer in enumerate(batch):
            token = choice.tokens[place]
            if token in model.ends:
                piece, goes = answer.end(complete=True), False
            else:
                text = model.decode([*answer.decoded.tokens, token])
                piece = answer.take(token, choice.log_probs[place], choice.agreement[place], text)
                goes = len(answer.decoded.tokens) < answer.limit
                piece += "" if goes else answer.end(complete=False)
            if goes:
                going.append(place)
            if piece and show is not None:
                show(answer.number, piece)
        if not going:
            return
        if len(going) < len(batch):
            rows = _rows(batch)
            state = model.select(state, [row for place in going for row in rows[place]])
        batch, tokens = [batch[i] for i in going], [choice.tokens[i] for i in going]
        state = model.extend(state, [t for a, t in zip(batch, tokens, strict=True) for _ in a.prompts])


def _rows(batch: Sequence[_Decoding]) -> list[list[int]]:
    """Return the rows of each question in the state."""
    ends = accumulate((len(answer.prompts) for answer in batch), initial=0)
    return [list(range(first, end)) for first, end in pairwise(ends)]
