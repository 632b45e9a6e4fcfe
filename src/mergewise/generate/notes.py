"""Notes that a model extracted, aligned sentence by sentence to their sources.

A sentence that its sources support gets a number, so that the answer can cite it. Other sentences are shown as unverified.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mergewise.generate.marks import without_unknown
from mergewise.generate.prompts import NOTHING
from mergewise.generate.sources import Source
from mergewise.protocols import TokenCounter
from mergewise.text.alignment import Aligner, sentences_at
from mergewise.text.sentences import split_sentences
from mergewise.types import Step


class Notes(NamedTuple):
    """Extracted notes.

    Attributes:
        text: The notes as the answering model reads them.
        sources: The numbered notes, each with the sentences that support it.
        unsupported: Share of sentences without support, or None without sentences.
        steps: Steps of the trace.
    """

    text: str = ""
    sources: tuple[Source, ...] = ()
    unsupported: float | None = None
    steps: tuple[Step, ...] = ()


def take_notes(
    replies: Sequence[str], sources: Sequence[Source], first: int, room: int, count_tokens: TokenCounter
) -> Notes:
    """Collect the distinct sentences of all replies within `room` tokens, and number the supported ones from `first`."""
    aligner = Aligner([s for source in sources for span, text in source.parts for s in sentences_at(text, span)])
    sentences = list(dict.fromkeys(sentence for reply in replies for sentence in sentences_of_extract(reply)))
    alignments = [aligner.align(sentence) for sentence in sentences]
    lines: list[str] = []
    numbered: list[Source] = []
    steps: list[Step] = []
    for sentence, alignment in zip(sentences, alignments, strict=True):
        number = first + len(numbered)
        line = f"[{number}] {sentence}" if alignment.supported else f"- {sentence}"
        room -= count_tokens([line + "\n"])[0]
        if room < 0:
            steps.append(Step("extract", "no room for further notes"))
            break
        lines.append(line)
        if alignment.supported:
            parts = tuple((source.span, source.text) for source in alignment.sources)
            numbered.append(Source(number, "", (), sentence, parts, alignment.support))
        reason = sentence if alignment.supported else f"unsupported: {sentence}"
        steps.append(Step("extract", reason, alignment.spans, score=alignment.support))
    unsupported = sum(not alignment.supported for alignment in alignments)
    return Notes("\n".join(lines), tuple(numbered), unsupported / len(alignments) if alignments else None, tuple(steps))


_BULLET = re.compile(r"^\s*(?:[-*•‣◦]|\(?\d{1,3}[.)])\s+")


def sentences_of_extract(reply: str) -> list[str]:
    """Split an extract into sentences without bullets and marks. The extract NONE has no sentences."""
    lines = [without_unknown(_BULLET.sub("", line), ())[0].strip() for line in reply.splitlines()]
    lines = [line for line in lines if line and line.strip("*_.` ").upper() != NOTHING]
    return [line[start:end] for line in lines for start, end in split_sentences(line)]
