"""A chat model that follows a script, for tests and trials.

    chat = ScriptedChat(["first answer", Turn(status=429), "second answer"])

A script is a list of answers used in turn, the last one repeatedly, or a function from the messages to an answer. An answer is a
text, or a `Turn` that is slow, fails, breaks off or is invalid. All requests are recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import pairwise
from threading import Lock
from typing import Literal, TypeAlias

from mergewise.errors import ModelError
from mergewise.models.tokens import count_tokens, token_offsets
from mergewise.protocols import Schema
from mergewise.types import Json, Message, Reply, Usage, frozen

Fault = Literal["none", "disconnect", "truncate", "nonsense"]


@frozen
class Turn:
    """One answer of a script.

    Attributes:
        text: the text of the answer.
        status: the HTTP status. Any status except 200 is an error.
        headers: headers of the answer, such as Retry-After.
        fault: "disconnect" closes the connection without an answer, "truncate" closes it after half of the answer, and "nonsense"
            sends status 200 and an invalid completion.
        pause: seconds before the answer.
        pause_per_token: seconds for each token of the answer.
        together: number of concurrent calls that the answer waits for, up to five seconds.
    """

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault = "none"
    pause: float = 0.0
    pause_per_token: float = 0.0
    together: int = 1


@frozen
class ChatRequest:
    """A recorded request. `options` holds the rest of its body."""

    messages: tuple[Message, ...]
    max_tokens: int
    schema: Schema | None = None
    streamed: bool = False
    options: Json = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All messages as one text."""
        return "\n\n".join(message.text for message in self.messages)


COMPANY_SECONDS = 5.0

Script: TypeAlias = Sequence[str | Turn] | Callable[[Sequence[Message]], str | Turn]


class Transcript:
    """The progress of a script: its next turns, and the recorded requests in order of arrival."""

    def __init__(self, script: Script) -> None:
        self.asked: list[ChatRequest] = []
        self.most_at_once = 0
        self._script = script
        self._under_way = 0
        self._lock = Lock()

    @contextmanager
    def turn(self, asked: ChatRequest) -> Iterator[Turn]:
        """Record a request and provide its turn. The request is in progress until the block ends."""
        with self._lock:
            script = self._script
            given = script(asked.messages) if callable(script) else script[min(len(self.asked), len(script) - 1)]
            turn = Turn(given) if isinstance(given, str) else given
            self.asked.append(asked)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            yield turn
        finally:
            with self._lock:
                self._under_way -= 1

    def waits(self, turn: Turn, since: float) -> bool:
        """Check whether the answer to a request that arrived at `since` still waits for other calls."""
        return self.most_at_once < turn.together and time.monotonic() < since + COMPANY_SECONDS


class ScriptedChat:
    """A `ChatModel` in the process that follows a script. `asked` lists the recorded requests.

    Usage is counted by the vocabulary that ships with the package.

    Args:
        script: answers used in turn, the last one repeatedly, or a function from the messages to an answer.
        window: window of the model in tokens.
        spec: name of the model.
    """

    def __init__(self, script: Script, *, window: int = 8192, spec: str = "scripted") -> None:
        self.spec = self.identity = spec
        self.window = window
        self.transcript = Transcript(script)
        self.asked = self.transcript.asked

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int = 1024, schema: Schema | None = None
    ) -> Reply:
        """Return the next answer of the script. Raises ModelError if its turn fails."""
        return await self._answer(messages, max_tokens, schema, streamed=False)

    async def stream(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> AsyncIterator[str | Reply]:
        """Yield the next answer of the script in pieces, then the whole reply. Raises ModelError if its turn fails."""
        reply = await self._answer(messages, max_tokens, None, streamed=True)
        for piece in pieces(reply.text):
            yield piece
        yield reply

    async def _answer(
        self, messages: Sequence[Message], max_tokens: int, schema: Schema | None, *, streamed: bool
    ) -> Reply:
        with self.transcript.turn(ChatRequest(tuple(messages), max_tokens, schema, streamed)) as turn:
            text, complete = shorten(turn.text, max_tokens)
            since = time.monotonic()
            while self.transcript.waits(turn, since):
                await asyncio.sleep(0.002)
            await asyncio.sleep(turn.pause + turn.pause_per_token * count_tokens([text])[0])
        if turn.status != 200 or turn.fault != "none":
            raise ModelError(f"{self.spec} failed as scripted", "check the script")
        return Reply(text, usage_of(messages, text), complete)


def pieces(text: str) -> Iterator[str]:
    """Split a text into tokens, as a model streams it."""
    starts = [0, *(int(start) for start, _ in token_offsets(text)[1:]), len(text)]
    return (text[start:end] for start, end in pairwise(starts) if start < end)


def shorten(text: str, max_tokens: int) -> tuple[str, bool]:
    """Return the text up to the limit of tokens, and whether it is complete."""
    shown = list(pieces(text))
    return "".join(shown[:max_tokens]), len(shown) <= max_tokens


def usage_of(messages: Sequence[Message], text: str) -> Usage:
    *asked, answered = count_tokens([*(message.text for message in messages), text])
    return Usage(1, sum(asked), answered)
