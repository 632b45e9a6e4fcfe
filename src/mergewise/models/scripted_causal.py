"""A causal model that follows a rule, for tests and trials: its tokens are the characters of an alphabet.

    model = ScriptedCausal("ab.", lambda text: {"b": 3.0} if text.endswith("a") else {})

The rule returns weights of the next characters. Characters that it leaves out have the weight 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mergewise.models import blending
from mergewise.protocols import Blend, FloatArray, NextTokens, TokenRows
from mergewise.types import Message, frozen


@frozen
class ScriptedState:
    """A `CausalState`: the texts, and the log-probabilities of the next characters."""

    texts: list[str]
    log_probs: FloatArray


class ScriptedCausal:
    """A `CausalModel` that follows a rule. Its tokens are the characters of an alphabet.

    Attributes:
        started: the texts that `start` was called with.
        tokens_run: number of characters read.

    Args:
        alphabet: the characters. A character's token is its index.
        rule: function from a text to the weights of the next characters. Missing characters have the weight 1.
        end: characters that end an answer.
        window: window of the model in tokens.
        spec: name of the model.
    """

    begin: Sequence[int] = ()

    def __init__(
        self,
        alphabet: str,
        rule: Callable[[str], Mapping[str, float]],
        *,
        end: str = "",
        window: int = 256,
        spec: str = "scripted",
    ) -> None:
        self.spec = spec
        self.window = window
        self.ends = frozenset(map(alphabet.index, end))
        self.started: list[str] = []
        self.tokens_run = 0
        self._alphabet = alphabet
        self._rule = rule

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text. Characters outside the alphabet are left out."""
        return [self._alphabet.index(character) for character in text if character in self._alphabet]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens."""
        return "".join(self._alphabet[i] for i in ids)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of all messages, one after another."""
        return self.encode("".join(message.text for message in messages))

    def start(self, rows: TokenRows) -> ScriptedState:
        """Read rows of tokens."""
        texts = [self.decode(row) for row in rows]
        self.started += texts
        return self._read(texts, sum(map(len, rows)))

    def extend(self, state: ScriptedState, tokens: Sequence[int]) -> ScriptedState:
        """Append one token to each row."""
        texts = [text + self._alphabet[token] for text, token in zip(state.texts, tokens, strict=True)]
        return self._read(texts, len(tokens))

    def score(self, states: Sequence[ScriptedState], continuations: TokenRows) -> list[FloatArray]:
        """Return the log-probabilities of the tokens of each continuation of a state."""
        scored = []
        for state, ids in zip(states, continuations, strict=True):
            self.tokens_run += len(ids)
            values = [self._log_probs(state.texts[0] + self.decode(ids[:i]))[token] for i, token in enumerate(ids)]
            scored.append(np.array(values, np.float32))
        return scored

    def contrast(
        self, states: Sequence[ScriptedState], continuations: TokenRows, without: Sequence[ScriptedState], alpha: float
    ) -> list[FloatArray]:
        """Return log-probabilities like `score`, contrasted with the states `without` by the weight `alpha`."""
        contrasted = []
        for state, ids, other in zip(states, continuations, without, strict=True):
            self.tokens_run += 2 * len(ids)
            values = []
            for i, token in enumerate(ids):
                said = self.decode(ids[:i])
                own, alone = self._log_probs(state.texts[0] + said), self._log_probs(other.texts[0] + said)
                scores = (1 + alpha) * own - alpha * alone
                values.append(scores[token] - np.log(np.exp(scores).sum()))
            contrasted.append(np.array(values, np.float32))
        return contrasted

    def select(self, state: ScriptedState, rows: Sequence[int]) -> ScriptedState:
        """Return a state of these rows."""
        return ScriptedState([state.texts[row] for row in rows], state.log_probs[list(rows)])

    def choose(self, state: ScriptedState, blend: Blend) -> NextTokens:
        """Choose the next token of each question."""
        return blending.choose(state.log_probs, blend)

    def _read(self, texts: list[str], tokens: int) -> ScriptedState:
        self.tokens_run += tokens
        return ScriptedState(texts, np.stack([self._log_probs(text) for text in texts]))

    def _log_probs(self, text: str) -> FloatArray:
        rule = self._rule(text)
        weights = np.array([rule.get(character, 1.0) for character in self._alphabet])
        log_probs: FloatArray = np.log(weights / weights.sum()).astype(np.float32)
        return log_probs
