"""Pointing: a chat model sees numbered sentences, and only the numbers in its answer are used.

An invalid answer (bad JSON, an unknown number, cut off) is repaired once by a second call. If it is still invalid, `Unusable`
is raised with the usage, and the caller decides without the model. So a model can only choose among the sentences shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from mergewise.assemble.fragments import Fragment
from mergewise.errors import MergewiseError, ModelError
from mergewise.prompting.replies import json_in, without_fences
from mergewise.protocols import ChatModel, Schema
from mergewise.text.sections import heading_path
from mergewise.text.spans import one_line
from mergewise.types import Message, Usage, frozen

Read = TypeVar("Read")

# The first answer and one repair.
TRIES = 2


class Unusable(ModelError):
    """A model's answer that is unusable but was paid for, with its usage."""

    def __init__(self, message: str, usage: Usage, unsupported: int = 0) -> None:
        super().__init__(message)
        self.usage = usage
        self.unsupported = unsupported


@frozen
class ReplyForm(Generic[Read]):
    """The expected form of an answer.

    `read` parses an answer: it returns the value, or a text that describes the problem. `shape` describes the form to a model
    whose answer was invalid. `tokens` is the maximum length of an answer.
    """

    schema: Schema
    shape: str
    tokens: int
    read: Callable[[str], Read | str]


async def ask(chat: ChatModel, messages: Sequence[Message], form: ReplyForm[Read]) -> tuple[Read, Usage]:
    """Return the model's parsed answer and the usage. Raises Unusable if the model fails or its repaired answer is invalid."""
    usage, problem = Usage(), ""
    asked = list(messages)
    for _ in range(TRIES):
        try:
            reply = await chat.complete(asked, max_tokens=form.tokens, schema=form.schema)
        except MergewiseError as error:
            raise Unusable(error.message, usage) from error
        usage += reply.usage
        read = form.read(reply.text) if reply.complete else "it was cut off"
        if not isinstance(read, str):
            return read, usage
        problem, usage = read, usage + Usage(unread=1)
        repair = Message("user", f"That cannot be used: {problem}. Answer with JSON alone, {form.shape}.")
        asked = [*asked, Message("assistant", reply.text), repair]
    raise Unusable(f"unusable answer: {problem}", usage)


def numbered_lines(sentences: Iterable[tuple[Fragment, str]]) -> Iterator[str]:
    """Yield a line for each sentence. The first sentence of each run under one heading starts with its heading path."""
    section = None
    for number, (fragment, text) in enumerate(sentences, 1):
        path = " ".join(heading_path(fragment.title, fragment.headings).split())
        where = f"({path}) " if path and fragment.section != section else ""
        section = fragment.section
        yield f"{number}. {where}{one_line(text)}"


def number_tokens(count: int) -> int:
    """Return the maximum tokens of an answer that lists `count` numbers."""
    return 24 + 6 * count


def value_in(answer: str) -> object:
    """Return the JSON of an answer, else the whole text, or None for an empty answer."""
    value: object = json_in(answer)
    return (without_fences(answer) or None) if value is None else value


_NUMBER = re.compile(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?")
_LIST = re.compile(rf"\s*(?:{_NUMBER.pattern}(?:\s*,\s*|\s+|\s*$))*")


def numbers_of(value: object, count: int) -> list[int] | str:
    """Return the distinct numbers from 1 to `count` that a value lists, in order, or a text that describes the problem.

    The value may be a number, a list of numbers, or a text such as "1-3 7 9".
    """
    # The first and the last number of each range. A single number is both.
    pairs: list[tuple[int, int]]
    if isinstance(value, str) and _LIST.fullmatch(value):
        pairs = [(int(m[1]), int(m[2] or m[1])) for m in _NUMBER.finditer(value)]
    else:
        listed: list[Any] = value if isinstance(value, list) else [value]
        if not all(isinstance(n, int) and not isinstance(n, bool) for n in listed):
            return "it is no list of numbers"
        pairs = [(n, n) for n in listed]
    backwards = [f"{first}-{last}" for first, last in pairs if first > last]
    if backwards:
        return f"{backwards[0]} runs backwards"
    wrong = [n for pair in pairs for n in pair if not 1 <= n <= count]
    if wrong:
        return f"there is no sentence {wrong[0]}"
    return list(dict.fromkeys(n for first, last in pairs for n in range(first, last + 1)))
