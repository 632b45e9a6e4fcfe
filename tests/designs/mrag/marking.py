"""A scripted writer of markers. It reads the prompt like a model, and gives good or bad answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence

from mergewise.designs.mrag.markers.grounding import GroundedValue, Grounder, Ungrounded
from mergewise.models.scripted import Turn
from mergewise.text.support.judge import Judge
from mergewise.text.support.sources import Extract, ReadSource
from mergewise.types import Message

_PARAGRAPH = re.compile(
    r"^\[Paragraph (\d+)\]\n(.*?)(?=\n\n\[Paragraph \d+\]\n|\n--- #[0-9a-f]+ end)", re.MULTILINE | re.DOTALL
)
_ASKED = re.compile(r"Write at least \d+ markers for paragraphs? ([\d, to]+) of this document")


BRIDGES = "\n\n".join(
    f"## Bridge {n}\n\nIn {1900 + n} the town of Brook{n} built its bridge number {n} over the river Elm. "
    f"Its master was Anna Stone{n}, who had learnt in Rome. It cost {n + 3} thousand crowns and stood for {n} years."
    for n in range(1, 25)
)


def shown(messages: Sequence[Message]) -> dict[int, str]:
    """Return the paragraphs of a prompt by number."""
    return {int(number): text for number, text in _PARAGRAPH.findall(messages[-1].text)}


def asked(messages: Sequence[Message], wish: re.Pattern[str] = _ASKED) -> list[int]:
    """Return the numbers of the paragraphs that a prompt asks about."""
    match = wish.search(messages[-1].text)
    assert match is not None, messages[-1].text[-200:]
    numbers: list[int] = []
    for part in match[1].strip().split(", "):
        first, _, last = part.partition(" to ")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def marker(number: int, text: str) -> dict[str, object]:
    """Return a good marker of a paragraph."""
    flat = " ".join(text.split())
    return {
        "value": flat[:280].rpartition(" ")[0] or flat,
        "key": f"What is said about {flat[:60]}?",
        "paragraphs": [number],
    }


def markers(messages: Sequence[Message]) -> list[dict[str, object]]:
    """Return a good marker for each paragraph that the prompt asks about."""
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
    """Ground the value in these paragraphs of the text."""
    parts = sorted((max(0, start), min(end, len(text))) for start, end in paragraphs)
    parts = [(start, end) for start, end in parts if start < end]
    judge = Judge(lambda part: ReadSource.of([Extract(text, *part)], path))
    return Grounder(judge, parts, text, ungrounded).ground(value)


class UnevenWriter:
    """A writer that alternates good and bad answers, and counts the rejects to expect. Equal prompts get equal answers.

    `records` returns the good records of a prompt. `lie` turns a record into a lie. `spoil` returns invalid records by the reason
    of their rejection. `cut` ends an answer in the middle of a record.
    """

    KINDS: tuple[str, ...] = (
        "good",
        "partial",
        "malformed",
        "lying",
        "truncated",
        "slow",
        "failing",
        "rejects",
        "nonsense",
    )

    def __init__(
        self,
        records: Callable[[Sequence[Message]], list[dict[str, object]]],
        answer: Callable[[Sequence[object]], str],
        lie: dict[str, object],
        spoil: Callable[[dict[str, object]], dict[str, dict[str, object]]],
        cut: Callable[[str], str],
    ) -> None:
        self.records, self.answer, self.lie, self.spoil, self.cut = records, answer, lie, spoil, cut
        self.rejects: Counter[str] = Counter()
        self.failed: set[str] = set()
        self.kind_of: dict[str, str] = {}  # each kind in turn
        self.lies = 0

    def __call__(self, messages: Sequence[Message]) -> Turn:
        text = messages[-1].text
        kind = self.kind_of.setdefault(text, self.KINDS[len(self.kind_of) % len(self.KINDS)])
        made = self.records(messages)
        if kind == "failing" and text not in self.failed:
            self.failed.add(text)
            return Turn(status=503, headers={"Retry-After-Ms": "1"})
        if kind == "partial":
            return Turn(self.answer(made[::2]))
        if kind == "malformed":
            damaged = self.answer(made).replace("}, {", "},,\n{").replace("]}", ",]}")
            return Turn(f"Here they are:\n```json\n{damaged}\n```")
        if kind == "lying":
            self.lies += len(made)
            return Turn(self.answer([*({**one, **self.lie} for one in made), *made]))
        if kind == "truncated":
            left = self.cut(self.answer(made))
            self.rejects["cut off"] += 1
            self.rejects["nothing to read"] += "}" not in left  # an answer about one paragraph has no whole record left
            return Turn(left)
        if kind == "rejects":
            bad = self.spoil(made[0])
            self.rejects.update(bad.keys())
            return Turn(self.answer([*made, *bad.values()]))
        if kind == "nonsense":
            self.rejects["nothing to read"] += 1
            return Turn("I am sorry, but I cannot do that.")
        return Turn(self.answer(made), pause=0.05 if kind == "slow" else 0.0)
