"""A scripted extractor of triplets. It reads the prompt like a model and returns good answers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mergewise.types import Message
from tests.designs.mrag.marking import asked, shown

ASKED = re.compile(r"Write the triplets of paragraphs? ([\d, to]+) of this text")
_COST = re.compile(
    r"bridge number (\d+) over the river (\w+).*?Its master was (\w+ \w+).*?It cost (\d+) thousand crowns", re.DOTALL
)


def triplets_of(number: int, text: str) -> list[dict[str, object]]:
    """Return three good triplets for a paragraph about a bridge, or its first and last word for any other paragraph."""
    match = _COST.search(text)
    if match is None:
        found = re.findall(r"\w+", text)
        return (
            [{"paragraph": number, "head": found[0], "relation": "goes with", "tail": found[-1]}]
            if len(found) > 1
            else []
        )
    bridge = f"bridge number {match[1]}"
    return [
        {"paragraph": number, "head": bridge, "relation": "over", "tail": f"the river {match[2]}"},
        {"paragraph": number, "head": bridge, "relation": "master", "tail": match[3]},
        {"paragraph": number, "head": bridge, "relation": "cost", "tail": f"{match[4]} thousand crowns"},
    ]


def triplets(messages: Sequence[Message]) -> list[dict[str, object]]:
    texts = shown(messages)
    return [one for number in asked(messages, ASKED) for one in triplets_of(number, texts[number])]


def answer(listed: Sequence[object]) -> str:
    return json.dumps({"triplets": list(listed)}, ensure_ascii=False)


def good(messages: Sequence[Message]) -> str:
    return answer(triplets(messages))
