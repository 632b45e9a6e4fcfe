"""The seven modes of MacRAG (Table 4, A.1) in one function. They differ in the texts that the answer reads, and in the filter.

    mode          the answer reads                              calls
    r&b           the passages                                  1
    r&l           the documents of the passages                 1
    full-ext      passages, extract of the documents            e + 1
    fil           passages that pass the filter                 1 + n + 1
    full-e&f      filtered passages, extract of the documents   e + 1 + n + 1
    r&b-ext       passages, extract of the passages             e + 1
    r&b-e&f       filtered passages, extract of the passages    e + 1 + n + 1

n is the number of chunks: C_final of `macrag`, the chunks of `longrag(unit=chunk)`, and the passages of any other context. e is
the number of model windows that the text to extract from fills, mostly 1. The filter is LongRAG's: one call thinks about how to
answer the question, then n concurrent calls judge the chunks by these thoughts. A chunk may have several passages, one below
each heading, and overlapping chunks share a passage. A passage stays if any of its chunks helps. Extraction and filter run at
the same time.

Where we differ from LongRAG: a filter that would drop every passage keeps them all, and a passage with an unreadable judgement
is kept. Extracts are aligned to their sources (see `notes`): the answer can cite the supported sentences, the others are shown
as unverified, and their share is reported. For a document longer than the window, the model reads the text around the passages.
Passages that do not fit are left out, the worst first, and never cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Literal, TypeAlias

from mergewise.concurrency import both, together
from mergewise.designs.macrag.chunks import ChunkReading
from mergewise.errors import UsageError
from mergewise.generate import prompts
from mergewise.generate.mode import CHAT, Mode, Request
from mergewise.generate.notes import Notes, take_notes
from mergewise.generate.sources import Source, base_sources, batches, each_long_source, fit, long_sources
from mergewise.generate.writer import AnswerWriter
from mergewise.prompting.replies import json_in
from mergewise.protocols import ChatModel
from mergewise.types import GAP, Answer, Reading, Span, Step

Text: TypeAlias = Literal["base", "long"]
"""The passages, or the documents that they come from."""


async def answer(
    request: Request, chat: ChatModel, *, reads: Text, extracts: Text | None = None, filters: bool = False
) -> Answer:
    """Extract and filter as the mode requires, then answer from the texts that fit into the window."""
    writer = AnswerWriter(request, chat)
    base = base_sources(writer.context, writer.document)
    notes, (kept, filtering) = await both(_extract(writer, base, extracts), _filter(writer, base, filters))
    room = writer.room(writer.from_sources([], notes.text))
    if reads == "long":
        sources = long_sources(writer.context, writer.document, room, writer.measure)
    else:
        sources = fit(kept, room, writer.measure)
    if not sources:
        raise UsageError(
            f"no passage fits into the window of {writer.chat.spec}, {writer.chat.window} tokens",
            "lower --budget, or give the model's true --window",
        )
    steps = [*notes.steps, *filtering]
    if reads == "base":
        steps += [_step("leave out", "no room in the model's window", one) for one in kept if one not in sources]
    return await writer.finish(writer.from_sources(sources, notes.text), sources, notes, steps)


async def _extract(writer: AnswerWriter, base: Sequence[Source], extracts: Text | None) -> Notes:
    """Return I_g: extracts from the documents, or from the passages, about the question."""
    if extracts is None:
        return Notes()
    room = writer.room(writer.about(prompts.EXTRACT, []))
    if extracts == "long":
        sources = each_long_source(writer.context, writer.document, room, writer.measure)
    else:
        sources = [source for source, cost in zip(base, writer.measure(base), strict=True) if cost <= room]
    groups = batches(sources, room, writer.measure)
    replies = await together(*(writer.ask(writer.about(prompts.EXTRACT, group)) for group in groups))
    return take_notes(replies, sources, len(base) + 1, writer.window // 2, writer.count)


async def _filter(writer: AnswerWriter, base: Sequence[Source], filters: bool) -> tuple[Sequence[Source], list[Step]]:
    """Return I_d, the passages that help. One call thinks, and each chunk is judged by these thoughts."""
    if not filters:
        return base, []
    room = writer.room(writer.about(prompts.THINK, []))
    thoughts = await writer.ask(writer.about(prompts.THINK, fit(base, room, writer.measure)))
    units = _units(base, writer.context.reading)
    verdicts = await together(*(_judge(writer, thoughts, unit) for unit, _ in units))
    unread = [
        _step("filter", "kept, its judgement is unreadable", unit)
        for (unit, _), helps in zip(units, verdicts, strict=True)
        if helps is None
    ]
    helpful = {n for (_, own), helps in zip(units, verdicts, strict=True) if helps is not False for n in own}
    kept = [source for source in base if source.number in helpful]
    if not kept:
        return base, [Step("filter", "no passage helps, all are kept")]
    return kept, [*unread, *(_step("filter", "does not help", source) for source in base if source not in kept)]


def _units(base: Sequence[Source], reading: Reading | None) -> list[tuple[Source, set[int]]]:
    """Return what the filter judges, with the numbers of its passages: each chunk, and each passage outside of the chunks."""
    chunks = reading.chunks if isinstance(reading, ChunkReading) else ()
    units: list[tuple[Source, set[int]]] = []
    for chunk in chunks:
        inside: list[tuple[Source, list[tuple[Span, str]]]] = []
        for source in base:
            # The text that the source has in common with the chunk.
            common = []
            for (span, text), own in product(source.parts, chunk):
                if own.overlaps(span):
                    start, end = max(own.start, span.start), min(own.end, span.end)
                    shared = text[start - span.start : end - span.start]
                    common.append((Span(span.doc_id, start, end), shared))
            if common:
                inside.append((source, common))
        if inside:
            first, parts = inside[0][0], tuple(part for _, own in inside for part in own)
            headings = first.headings if len(inside) == 1 else ()
            text = GAP.join(text for _, text in parts)
            units.append((replace(first, headings=headings, text=text, parts=parts), {one.number for one, _ in inside}))
    judged = {number for _, own in units for number in own}
    return units + [(source, {source.number}) for source in base if source.number not in judged]


async def _judge(writer: AnswerWriter, thoughts: str, source: Source) -> bool | None:
    """Judge a passage. Returns None for an unreadable reply. A passage that exceeds the window is kept."""
    messages = writer.about(prompts.JUDGE, [source], thoughts)
    if writer.room(messages) < 0:
        return True
    helps = verdict(await writer.ask(messages, prompts.RELEVANT))
    if helps is None:
        writer.count_unread()
    return helps


def verdict(answer: str) -> bool | None:
    """Return whether a judgement says that the passage helps, or None if it is unreadable."""
    value = json_in(answer)
    if value is None:
        match = re.search(r"\b(true|yes|false|no)\b", answer, re.IGNORECASE)
        value = match[1] if match else None
    relevant = value.get("relevant") if isinstance(value, dict) else value
    if isinstance(relevant, str):
        word = relevant.strip().lower()
        return False if word in ("false", "no", "0") else True if word in ("true", "yes", "1") else None
    return relevant != 0 if isinstance(relevant, int | float) else None


def _step(action: str, reason: str, source: Source) -> Step:
    return Step(action, reason, tuple(span for span, _ in source.parts), score=source.score)


def _mode(summary: str, reads: Text, extracts: Text | None = None, filters: bool = False) -> Mode[ChatModel]:
    reading = partial(answer, reads=reads, extracts=extracts, filters=filters)
    return Mode(reading, summary, CHAT, takes_reply_options=True)


MODES = {
    "fil": _mode("the passages that pass a filter", "base", filters=True),
    "full-e&f": _mode("filtered passages, and an extract of the documents", "base", extracts="long", filters=True),
    "full-ext": _mode("the passages, and an extract of the documents", "base", extracts="long"),
    "r&b": _mode("the passages", "base"),
    "r&b-e&f": _mode("filtered passages, and an extract of the passages", "base", extracts="base", filters=True),
    "r&b-ext": _mode("the passages, and an extract of the passages", "base", extracts="base"),
    "r&l": _mode("the documents of the passages", "long"),
}
"""Table 4."""
