"""The questions of a page as data: the scores of all questions, and contexts as far as they fit.

Each block is compressed JSON in base64. A page unpacks a block when it needs it:

- `head` holds the questions and their scores.
- `q0`, `q1`, ... hold the contexts of some questions, as spans.
- `t0`, `t1`, ... hold the parts of documents that these spans refer to, each part once.

If the contexts do not all fit, the questions on which methods differ most come first.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mergewise.evaluate.measured import Measured, MeasuredSet
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.runs.run_row import RunRow
from mergewise.extend import printable, shorten, union
from mergewise.types import JsonDict, Part

LIMIT = 5_500_000
"""Maximum of bytes of all blocks."""
TOGETHER = 40
"""Questions per block."""
TEXT_BLOCK = 250_000
"""Approximate number of characters in a block of documents."""
PER_CHARACTER = 0.55
"""Approximate number of bytes per character of a document, compressed and encoded."""
LONGEST = 2000
"""Maximum of characters of a question, an answer or a gold text."""

Ranges = dict[tuple[str, str], list[Part]]


def question_blocks(
    measured: Measured, metrics: Sequence[str], main: str, held: str, limit: int
) -> tuple[list[tuple[str, str]], int]:
    """Return the blocks by name, and the number of questions whose contexts were left out.

    `main` is the score that methods are compared by. `held` is the score that is 1 for a context that holds all gold.
    """
    asked = [(own, at) for own in measured.sets for at in range(len(own.questions))]
    order = sorted(range(len(asked)), key=lambda place: (-_interest(measured, main, *asked[place]), place))
    documents: dict[tuple[str, str], int] = {}
    stages: dict[str, int] = {}
    columns = [(method.name, budget) for method in measured.methods for budget in measured.budgets]
    numbers = {column: number for number, column in enumerate(columns)}
    blocks: list[tuple[str, str]] = []
    kept: dict[int, int] = {}
    ranges: Ranges = {}
    room = float(limit)
    for first in range(0, len(order), TOGETHER):
        places = order[first : first + TOGETHER]
        wanted: Ranges = {}
        content = _contexts(measured, [(place, *asked[place]) for place in places], numbers, documents, stages, wanted)
        block = compressed_json(content)
        merged = {key: union([*ranges.get(key, []), *spans]) for key, spans in wanted.items()}
        more = sum(_length(spans) - _length(ranges.get(key, [])) for key, spans in merged.items())
        room -= len(block) + PER_CHARACTER * more
        if room < 0:
            break
        ranges.update(merged)
        kept.update(dict.fromkeys(places, len(blocks)))
        blocks.append((f"q{len(blocks)}", block))
    texts, where = _text_blocks(measured, ranges, documents)
    head = {
        "methods": [method.name for method in measured.methods],
        "budgets": list(measured.budgets),
        "sets": [own.name for own in measured.sets],
        "metrics": list(metrics),
        "main": main,
        "held": held if held in metrics else main,
        "stages": list(stages),
        "documents": where,
        "reference": measured.reference,
        "questions": [
            _question(own.questions[at], own, measured, kept.get(n, -1)) for n, (own, at) in enumerate(asked)
        ],
        "scores": {metric: _scores(measured, metric, columns) for metric in metrics},
    }
    return [("head", compressed_json(head)), *blocks, *texts], len(asked) - len(kept)


def compressed_json(value: object) -> str:
    """Encode a value as compressed JSON in base64. The same value gives the same text."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _interest(measured: Measured, metric: str, own: MeasuredSet, at: int) -> float:
    """Return how far methods differ on a question. On ties, questions with lower scores are more interesting."""
    apart, lowest = 0.0, 1.0
    for budget in measured.budgets:
        columns = (measured.scored(own.name, method.name, budget, metric) for method in measured.methods)
        values = [one.by_set[own.name][at] for one in columns if one is not None]
        known = [float(value) for value in values if not np.isnan(value)]
        if known:
            apart, lowest = max(apart, max(known) - min(known)), min(lowest, min(known))
    return apart + (1 - lowest) / 1000


def _question(question: Question, own: MeasuredSet, measured: Measured, block: int) -> JsonDict:
    return {
        "set": measured.sets.index(own),
        "id": question.id,
        "text": _line(question.text),
        "gold": [_line(answer) for answer in question.answers[:6]],
        "kind": question.kind,
        "hops": question.hops,
        "answerable": question.answerable,
        "block": block,
    }


def _line(text: str) -> str:
    return printable(shorten(text, LONGEST))


def _scores(measured: Measured, metric: str, columns: Iterable[tuple[str, int]]) -> list[list[int | None] | None]:
    """Return the scores of all questions in thousandths for each method and budget, or None without any score."""
    found: list[list[int | None] | None] = []
    for method, budget in columns:
        own = [measured.scored(one.name, method, budget, metric) for one in measured.sets]
        if not any(own):
            found.append(None)
            continue
        values: list[int | None] = []
        for one, scored in zip(measured.sets, own, strict=True):
            numbers = [np.nan] * len(one.questions) if scored is None else scored.by_set[one.name]
            values += [None if np.isnan(value) else round(1000 * float(value)) for value in numbers]
        found.append(values)
    return found


# -- contexts


def _contexts(
    measured: Measured,
    asked: Sequence[tuple[int, MeasuredSet, int]],
    columns: Mapping[tuple[str, int], int],
    documents: dict[tuple[str, str], int],
    stages: dict[str, int],
    ranges: Ranges,
) -> JsonDict:
    """Return the contexts of these questions. `documents`, `stages` and `ranges` collect their references."""

    def pointer(set_name: str, document: str, start: int, end: int) -> list[int]:
        if (set_name, document) not in measured.texts:
            return [-1, start, end]
        ranges.setdefault((set_name, document), []).append((start, end))
        return [documents.setdefault((set_name, document), len(documents)), start, end]

    def outcome(name: str, row: RunRow) -> JsonDict:
        passages = [
            [
                round(passage.score, 3),
                [n for span in passage.spans for n in pointer(name, span.doc_id, span.start, span.end)]
                if passage.text is None
                else [],
                *([] if passage.text is None else [printable(passage.text)]),
            ]
            for passage in row.passages
        ]
        lost = [[_line(one.text), stages.setdefault(one.stage, len(stages))] for one in row.lost]
        found = [] if passages else [[one.place, _line(one.text)] for one in row.found]
        shown: JsonDict = {"tokens": row.tokens, "passages": passages, "lost": lost, "found": found}
        shown |= {"said": _line(row.prediction or ""), "error": _line(row.error)}
        return {key: value for key, value in shown.items() if value not in (None, [], "")}

    by_set: dict[str, list[tuple[int, MeasuredSet, int]]] = {}
    for place, own, at in asked:
        by_set.setdefault(own.name, []).append((place, own, at))
    content = {}
    for name, several in by_set.items():
        for (place, own, at), found in zip(several, measured.outcomes(name, [at for _, _, at in several]), strict=True):
            gold = [
                [*(pointer(name, span.doc_id, span.start, span.end) if span.doc_id else [-1, 0, 0]), _line(text)]
                for span, text in own.questions[at].evidence or ()
            ]
            rows = {columns[key]: outcome(name, one) for key, one in found.items() if key in columns}
            content[place] = {"gold": gold, "rows": rows}
    return {str(place): value for place, value in content.items()}


# -- documents


def _length(spans: Sequence[Part]) -> int:
    return sum(end - start for start, end in spans)


def _text_blocks(
    measured: Measured, ranges: Ranges, documents: Mapping[tuple[str, str], int]
) -> tuple[list[tuple[str, str]], list[list[Any]]]:
    """Return the blocks of documents, and the id, title and block number of each document (-1 if none of its text is needed)."""
    where: list[list[Any]] = [[doc, "", -1] for _, doc in documents]
    blocks: list[tuple[str, str]] = []
    content: dict[str, list[list[Any]]] = {}
    size = 0

    def close() -> None:
        if content:
            blocks.append((f"t{len(blocks)}", compressed_json(content)))
            content.clear()

    for key, spans in ranges.items():
        title, text = measured.texts[key]
        number = documents[key]
        where[number] = [key[1], _line(title), len(blocks)]
        content[str(number)] = [[start, text[start:end]] for start, end in spans]
        size += _length(spans)
        if size > TEXT_BLOCK:
            close()
            size = 0
    close()
    return blocks, where
