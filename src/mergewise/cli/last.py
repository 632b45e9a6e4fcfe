"""The last answer of an index, for `mergewise show 2`: which spans its numbers stand for.

It is kept in the user's own state directory and not in the index, which may be shared or read-only. Nothing depends on it:
where it cannot be written or read, `show` takes ids of documents alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from zlib import crc32

from mergewise.files import regular_bytes, state_directory, write_whole
from mergewise.types import Answer, Context, Span

_LONGEST = 10_000_000
"""Bytes of what is remembered."""

Numbers = Mapping[int, Sequence[tuple[Span, int | None]]]


@dataclass(frozen=True, slots=True)
class Last:
    """A question and what its numbers stand for: spans, each with the checksum of its text where that is known."""

    question: str
    numbers: Numbers


def of_context(context: Context) -> Last:
    """The passages of a context by their numbers."""
    numbers = {
        number: [
            (span, checksum(text))
            for span, text in (passage.parts() if passage.verbatim else [(span, None) for span in passage.spans])
        ]
        for number, passage in enumerate(context.passages, 1)
    }
    return Last(context.question, numbers)


def of_answer(answer: Answer) -> Last:
    """The citations of an answer by their numbers, and the passages that it does not cite."""
    cited: dict[int, list[tuple[Span, int | None]]] = {}
    for citation in answer.citations:
        whole = len(citation.text) == len(citation.span)
        cited.setdefault(citation.number, []).append((citation.span, checksum(citation.text) if whole else None))
    return Last(answer.question, {**of_context(answer.context).numbers, **cited})


def checksum(text: str | None) -> int | None:
    return None if text is None else crc32(text.encode("utf-8", "replace"))


def save(index_dir: Path, last: Last) -> None:
    """Remember it, in one step, so that two commands at once leave one or the other. A failure changes nothing."""
    numbers = {
        str(number): [[span.doc_id, span.start, span.end, check] for span, check in spans]
        for number, spans in last.numbers.items()
    }
    text = json.dumps({"question": last.question, "numbers": numbers})
    try:
        file = _file(index_dir)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # the user alone can read it
        write_whole(file, text.encode(), 0o600)
    except (OSError, ValueError, RuntimeError):
        return


def load(index_dir: Path) -> Last | None:
    """The last answer of this index; None where there is none, or none that can be read."""
    try:
        kept = json.loads(regular_bytes(_file(index_dir), _LONGEST).decode("utf-8"))
        numbers = {
            int(number): [(_span(doc, start, end), check) for doc, start, end, check in spans]
            for number, spans in kept["numbers"].items()
        }
        return Last(str(kept["question"]), numbers)
    # RecursionError is a RuntimeError
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return None


def _span(doc_id: object, start: object, end: object) -> Span:
    if not (isinstance(doc_id, str) and type(start) is int and type(end) is int and 0 <= start <= end):
        raise ValueError("no span")
    return Span(doc_id, start, end)


def _file(index_dir: Path) -> Path:
    name = sha256(os.fsencode(os.path.realpath(index_dir))).hexdigest()[:24]
    return state_directory() / "last" / f"{name}.json"
