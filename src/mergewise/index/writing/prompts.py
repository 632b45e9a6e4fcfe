"""What prompts about the segments of a document have in common: numbered paragraphs, each below its tag [Paragraph N]."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mergewise.index.writing.task import WritingRequest
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.types import Message

_TAG = re.compile(r"\[(?=\s*paragraph\b)", re.IGNORECASE)


def request_messages(request: WritingRequest, rules: str, wish: str, items: str, name: str) -> list[Message]:
    """The prompt of a request: the `rules`, which are the same in every call, the segments under this `name`, and the
    `wish`, which says what of them `items` are to be written about."""
    paragraphs = "\n\n".join(f"[Paragraph {n}]\n{_without_tags(request.source.of(n))}" for n in request.shown)
    title = request.source.title
    code = code_for([paragraphs, title])
    if request.asked != request.shown:
        wish += " The other paragraphs are there to be understood with them."
    if request.again:
        wish += f" This is attempt {request.attempt}."
    if request.rejected:
        wish += f" {items} of earlier answers could not be used: {', '.join(request.rejected)}."
    titled = [quotation("title", _without_tags(title), code)] if title.strip() else []
    return turn(rules, [warning(code, "text"), *titled, quotation(name, paragraphs, code), wish])


def _without_tags(text: str) -> str:
    """The text without what could be taken for a tag of ours."""
    return _TAG.sub("(", text)


def paragraph_names(numbers: Sequence[int]) -> str:
    """Numbers of paragraphs, runs as "3 to 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    listed = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
    return f"paragraph {listed}" if len(numbers) == 1 else f"paragraphs {listed}"


def text_of_field(given: object) -> str:
    """The text of a field, or the only one of a list, as models write it."""
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    return given.replace("\0", "").strip() if isinstance(given, str) else ""
