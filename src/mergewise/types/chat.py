"""Messages to a chat model, and its replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Literal

from mergewise.types.records import frozen


@frozen
class Usage:
    """Calls of a chat model and their tokens. All zero without a model.

    Attributes:
        calls: Number of calls.
        input_tokens: Tokens of the messages.
        output_tokens: Tokens of the replies.
        estimated: True if an endpoint did not report all tokens, and some were counted with another vocabulary.
        unread: Number of replies that were unusable, such as a malformed verdict.
        cached_calls: Number of calls that a cache answered. They are in `calls`, and their tokens in the counts above.
        cached_input_tokens: Tokens of the messages of these calls.
        cached_output_tokens: Tokens of their replies.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    unread: int = 0
    cached_calls: int = 0
    cached_input_tokens: int = 0
    cached_output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        sums = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return Usage(**{**sums, "estimated": self.estimated or other.estimated})

    @property
    def paid(self) -> Usage:
        """The usage without the calls that a cache answered."""
        return Usage(
            self.calls - self.cached_calls,
            self.input_tokens - self.cached_input_tokens,
            self.output_tokens - self.cached_output_tokens,
            self.estimated,
            self.unread,
        )

    def cost(self, input_price: float, output_price: float) -> float:
        """Return the cost of the paid tokens in the currency of the prices, which are for a million tokens."""
        paid = self.paid
        return (paid.input_tokens * input_price + paid.output_tokens * output_price) / 1_000_000


@frozen
class Message:
    """One turn of a conversation with a chat model."""

    role: Literal["system", "user", "assistant"]
    text: str


@frozen
class ReplyOptions:
    """Options of the text that a chat model writes as an answer.

    Attributes:
        instructions: The user's instructions on language, tone and form. The rules about sources stay in force.
        message: The user's whole message, if the question is only a part of it.
        sampling: Options of the request to the model, by their names in OpenAI's API: temperature, top_p, seed, stop and
            response_format. With a `response_format` the answer is JSON without marks.
    """

    instructions: str = ""
    message: str = ""
    sampling: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_json(self) -> bool:
        return "response_format" in self.sampling


@frozen
class Reply:
    """The reply of a chat model.

    Attributes:
        text: The text.
        usage: The usage.
        complete: False if the reply reached its limit of tokens.
    """

    text: str
    usage: Usage
    complete: bool = True
