"""Question sets by name, with an index of their documents: the benchmark sets, the manuals, and the other languages.

squad, 2wiki, ...       the sets of `data/bench`
xquad-de, ...           the sets of `data/languages`
questions, hops         the questions over manuals in `benchmarks/manuals`
projects                its questions over three more projects, in the folder `projects` of MANUALS
fastapi-de, ...         its questions in other languages, over a folder of the same name in MANUALS
xquad-de>en, ...        the German questions over the English articles
fastapi-en              questions in five languages over the English manual
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import mergewise
from benchmarks import manuals
from benchmarks.corpus import BENCH, bench_folder
from benchmarks.manuals import FOLDER, Asked
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.run import Split, chosen_questions
from mergewise.text.sentences import strip_span
from mergewise.types import Context, Span

MARKS = " \n\t-*|#>`.,;:"  # characters that may be missing at the ends of a span


def opened(name: str, cache: Path, corpora: Path | None = None, embedder: str = "minilm") -> Index:
    """Open the index of a question set in `cache`, building it if missing."""
    if name in ("questions", "hops"):
        return manuals.opened(cache, embedder)
    if name == "projects" or name in manuals.corpora():
        own = FOLDER.with_name(name) if corpora is None else corpora / name
        return manuals.opened(cache, embedder, own)
    name = _folder(name).name
    index = mergewise.open(cache / f"{name}-{embedder}", embedder=embedder)
    index.add(load_question_set(_folder(name)).documents)
    return index


def asked(name: str, split: Split, limit: int | None = None) -> list[Asked]:
    """Return the questions of a set with their gold, at most `limit`."""
    if name in ("questions", "hops", "projects") or name in manuals.corpora():
        return [one for one in manuals.load(name, split) if one.answerable][:limit]
    question_set, is_across = load_question_set(_folder(name)), ">" in name
    questions = chosen_questions(question_set, split, None if is_across else limit)
    if is_across:
        # questions about all articles, whose ids begin with the language
        questions = questions[:: max(1, len(questions) // (limit or len(questions)))][:limit]
        others = load_question_set(_folder(name.partition(">")[0])).questions
        texts = {one.id.partition("-")[2]: one.text for one in others}
        questions = [replace(one, text=texts[one.id.partition("-")[2]]) for one in questions]
    half: Literal["tune", "report"] = "tune" if split == "dev" else "report"
    return [Asked(one, (tuple(one.evidence),), (), "", half) for one in questions if one.evidence]


def _folder(name: str) -> Path:
    """Return the folder of a set, of the documents if questions are in another language."""
    name = re.sub("-.*>", "-", name)
    return (BENCH.with_name("languages") if name.startswith("xquad-") else bench_folder()) / name


def holds(one: Asked, spans: list[Span], texts: dict[str, str]) -> bool:
    """Return true if the spans hold every character of one of the golds, except marks at its ends and white space between spans.

    Words cannot be compared in scripts without spaces, so the places count. A quoted gold that another version of the reader has
    moved is looked up in the text.
    """
    return any(all(_held(gold, quoted, spans, texts[gold.doc_id]) for gold, quoted in golds) for golds in one.golds)


def spans_of(context: Context) -> list[Span]:
    return [span for passage in context.passages for span in passage.spans]


def _held(gold: Span, quoted: str, spans: list[Span], text: str) -> bool:
    placed = located(gold, quoted, text)
    if placed is None:
        return False
    at, end = placed.start, placed.end
    for start, stop in sorted((span.start, span.end) for span in spans if span.doc_id == gold.doc_id):
        if not text[at:start].strip(MARKS):
            at = max(at, stop)
    return not text[at:end].strip(MARKS)


def places(one: Asked, spans: Sequence[Span], texts: dict[str, str]) -> list[list[int]]:
    """Return, for each gold of which the spans touch every piece, the positions of the spans that do."""
    found = []
    for golds in one.golds:
        pieces = [located(gold, quoted, texts[gold.doc_id]) for gold, quoted in golds]
        touching = [[at for at, span in enumerate(spans) if piece and piece.overlaps(span)] for piece in pieces]
        if all(touching):
            found.append(sorted({at for piece in touching for at in piece}))
    return found


def located(gold: Span, quoted: str, text: str) -> Span | None:
    """Return where a gold lies in the text of its document, or None if this version of the document lacks it."""
    start = gold.start if text.startswith(quoted, gold.start) else text.find(quoted)
    at, end = strip_span(text, start, start + gold.end - gold.start)
    return None if start < 0 else Span(gold.doc_id, at, end)
