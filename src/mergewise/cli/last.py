"""The last answer of each index: the spans behind its citation numbers, for `mergewise show 2`.

It is kept in the user's state directory, because an index may be shared or read-only. If it cannot be written or read, `show`
accepts only documents.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from zlib import crc32

from mergewise.extend import regular_bytes, state_directory, write_whole
from mergewise.types import Answer, Context, Span, frozen

_MAX_BYTES = 10_000_000

Numbers = Mapping[int, Sequence[tuple[Span, int | None]]]


@frozen
class Last:
    """A question and the spans behind its citation numbers, each with the checksum of its text or None."""

    question: str
    numbers: Numbers


def of_context(context: Context) -> Last:
    """Number the passages of a context."""
    numbers = {
        number: [
            (span, checksum(text))
            for span, text in (passage.parts() if passage.verbatim else [(span, None) for span in passage.spans])
        ]
        for number, passage in enumerate(context.passages, 1)
    }
    return Last(context.question, numbers)


def of_answer(answer: Answer) -> Last:
    """Return the citations of an answer by their numbers, and the passages that it does not cite."""
    cited: dict[int, list[tuple[Span, int | None]]] = {}
    for citation in answer.citations:
        whole = len(citation.text) == len(citation.span)
        cited.setdefault(citation.number, []).append((citation.span, checksum(citation.text) if whole else None))
    return Last(answer.question, {**of_context(answer.context).numbers, **cited})


def checksum(text: str | None) -> int | None:
    return None if text is None else crc32(text.encode("utf-8", "replace"))


def save(index_dir: Path, last: Last) -> None:
    """Save the last answer atomically. Errors are ignored."""
    numbers = {
        str(number): [[span.doc_id, span.start, span.end, check] for span, check in spans]
        for number, spans in last.numbers.items()
    }
    text = json.dumps({"question": last.question, "numbers": numbers})
    try:
        file = _file(index_dir)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # readable by the user alone
        write_whole(file, text.encode(), 0o600)
    except (OSError, ValueError, RuntimeError):
        return


def load(index_dir: Path) -> Last | None:
    """Load the last answer of an index. Return None if it is missing or unreadable."""
    try:
        kept = json.loads(regular_bytes(_file(index_dir), _MAX_BYTES).decode("utf-8"))
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
        raise ValueError("invalid span")
    return Span(doc_id, start, end)


def _file(index_dir: Path) -> Path:
    name = sha256(os.fsencode(os.path.realpath(index_dir))).hexdigest()[:24]
    return state_directory() / "last" / f"{name}.json"
