"""What goes to a chat model and comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Usage:
    """What was spent: calls of a chat model and the tokens that went through it. All zero without a model.

    `estimated` says that an endpoint did not tell all of the tokens, and some were counted by another vocabulary than its own.
    `unread` are the replies that could not be used as what they were asked for (a verdict, numbers, the next search): what
    asked did without them.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    unread: int = 0

    def __add__(self, other: Usage) -> Usage:
        tokens = self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        return Usage(self.calls + other.calls, *tokens, self.estimated or other.estimated, self.unread + other.unread)

    def cost(self, input_price: float, output_price: float) -> float:
        """The cost at these prices for a million tokens, in their currency."""
        return (self.input_tokens * input_price + self.output_tokens * output_price) / 1_000_000


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation with a chat model."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What a chat model answered. `complete` is False where it stopped at its limit of tokens."""

    text: str
    usage: Usage
    complete: bool = True
