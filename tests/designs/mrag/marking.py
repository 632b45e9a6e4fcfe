"""A scripted writer of markers: it reads the prompt as a model would, and answers well or badly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from mergewise.designs.mrag.markers.grounding import GroundedValue, Grounder, Ungrounded
from mergewise.text.support.judge import Judge
from mergewise.text.support.sources import Extract, ReadSource
from mergewise.types import Message

_PARAGRAPH = re.compile(
    r"^\[Paragraph (\d+)\]\n(.*?)(?=\n\n\[Paragraph \d+\]\n|\n--- #[0-9a-f]+ end)", re.MULTILINE | re.DOTALL
)
_ASKED = re.compile(r"Write at least \d+ markers for paragraphs? ([\d, to]+) of this document")


def shown(messages: Sequence[Message]) -> dict[int, str]:
    """The paragraphs of a prompt by their numbers."""
    return {int(number): text for number, text in _PARAGRAPH.findall(messages[-1].text)}


def asked(messages: Sequence[Message], wish: re.Pattern[str] = _ASKED) -> list[int]:
    """The numbers of the paragraphs that a prompt asks about."""
    match = wish.search(messages[-1].text)
    assert match is not None, messages[-1].text[-200:]
    numbers: list[int] = []
    for part in match[1].strip().split(", "):
        first, _, last = part.partition(" to ")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def marker(number: int, text: str) -> dict[str, object]:
    """A good marker of one paragraph."""
    said = " ".join(text.split())
    return {
        "value": said[:280].rpartition(" ")[0] or said,
        "key": f"What is said about {said[:60]}?",
        "paragraphs": [number],
    }


def markers(messages: Sequence[Message]) -> list[dict[str, object]]:
    """A good marker of each paragraph that is asked about."""
    texts = shown(messages)
    return [marker(number, texts[number]) for number in asked(messages)]


def answer(listed: Sequence[object]) -> str:
    return json.dumps({"markers": list(listed)}, ensure_ascii=False)


def good(messages: Sequence[Message]) -> str:
    return answer(markers(messages))


Answering = Callable[[Sequence[Message]], str]


def ground(
    value: str, paragraphs: Sequence[tuple[int, int]], text: str, ungrounded: Ungrounded = "replace", path: str = ""
) -> GroundedValue:
    """The value, held to these paragraphs of the text."""
    parts = sorted((max(0, start), min(end, len(text))) for start, end in paragraphs)
    parts = [(start, end) for start, end in parts if start < end]
    judge = Judge[tuple[int, int]](lambda part: ReadSource.of([Extract(text, *part)], path))
    return Grounder(judge, parts, text, ungrounded).ground(value)
