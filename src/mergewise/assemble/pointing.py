"""Pointing: sentences are shown to a chat model by number, and of its answer nothing is used but numbers.

A wrong answer (no JSON, a number that was not shown, cut off) is asked for once more. What still cannot be used is `Unusable`,
with what it cost: the caller then decides without the model. So a model can choose among what was shown, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mergewise.assemble.fragments import Fragment
from mergewise.errors import MergewiseError, ModelError
from mergewise.prompting.replies import json_in, without_fences
from mergewise.protocols import ChatModel
from mergewise.text.keys import heading_path
from mergewise.types import Message, Usage

Read = TypeVar("Read")

TRIES = 2  # the answer, and a repair of it


class Unusable(ModelError):
    """A model answered, at a price, but the answer cannot be used."""

    def __init__(self, message: str, usage: Usage, unsupported: int = 0) -> None:
        super().__init__(message)
        self.usage = usage
        self.unsupported = unsupported


@dataclass(frozen=True, slots=True)
class ReplyForm(Generic[Read]):
    """What an answer has to look like. `read` gives what it says, or in a text what is wrong with it.

    `shape` is said to a model whose answer was wrong; `tokens` is the most that an answer may take.
    """

    schema: Mapping[str, object]
    shape: str
    tokens: int
    read: Callable[[str], Read | str]


async def ask(chat: ChatModel, messages: Sequence[Message], form: ReplyForm[Read]) -> tuple[Read, Usage]:
    """What the model answered, and what it cost. Raises Unusable where the model fails, or its repaired answer is wrong too."""
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
    raise Unusable(f"the answer could not be used: {problem}", usage)


def numbered_lines(sentences: Iterable[tuple[Fragment, str]]) -> Iterator[str]:
    """A line for each sentence. The first sentence of each run under one heading has its heading path before it."""
    section = None
    for number, (fragment, text) in enumerate(sentences, 1):
        path = " ".join(heading_path(fragment.title, fragment.headings).split())
        where = f"({path}) " if path and fragment.section != section else ""
        section = fragment.section
        yield f"{number}. {where}{' '.join(text.split())}"


def number_tokens(count: int) -> int:
    """Room for every number."""
    return 24 + 6 * count


def value_in(answer: str) -> object:
    """The JSON of an answer, else all of it as a text; None where there is nothing."""
    value: object = json_in(answer)
    return (without_fences(answer) or None) if value is None else value


_NUMBER = re.compile(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?")
_LIST = re.compile(rf"\s*(?:{_NUMBER.pattern}(?:\s*,\s*|\s+|\s*$))*")


def numbers_of(value: object, count: int) -> list[int] | str:
    """The numbers from 1 to `count` that a value lists, each once, in its order; or what is wrong with it.

    The value may be a number, a list of numbers, or a text such as "1-3 7 9".
    """
    pairs = _ranges(value)
    if pairs is None:
        return "it is no list of numbers"
    backwards = [f"{first}-{last}" for first, last in pairs if first > last]
    if backwards:
        return f"{backwards[0]} runs backwards"
    wrong = [n for pair in pairs for n in pair if not 1 <= n <= count]
    if wrong:
        return f"there is no sentence {wrong[0]}"
    return list(dict.fromkeys(n for first, last in pairs for n in range(first, last + 1)))


def _ranges(value: object) -> list[tuple[int, int]] | None:
    """The first and the last number of each run; a number that stands alone is both."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [(value, value)]
    if isinstance(value, str) and _LIST.fullmatch(value):
        return [(int(m[1]), int(m[2] or m[1])) for m in _NUMBER.finditer(value)]
    if isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in value):
        return [(n, n) for n in value]
    return None
