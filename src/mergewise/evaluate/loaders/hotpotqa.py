"""HotpotQA and 2WikiMultihopQA (Yang et al. 2018; Ho et al. 2020): a list of questions, each with paragraphs of titled sentences.

All paragraphs of a file are one pool that every question is asked of. Evidence are the sentences that `supporting_facts` names.
`context` and `supporting_facts` may also come as columns (`{"title": [...], "sentences": [...]}`), as some copies have them.

Sentences are joined as they stand where they bring their blanks along (HotpotQA), else with a blank (2Wiki).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mergewise.evaluate.loaders.rows import Loader, Pool, Record, Sample, SetReader, bare_name, piece_at, texts
from mergewise.evaluate.question_sets import Evidence, Question, QuestionSet


def load(path: Path, rows: SetReader) -> QuestionSet:
    pool = Pool()
    questions = tuple(rows.questions(path, rows.records(path), lambda row: question_of(row, pool)))
    return rows.task(path, bare_name(path), pool.documents, questions)


def question_of(row: Record, pool: Pool) -> Question:
    """A question whose paragraphs are in the pool then."""
    paragraphs = {title: (pool.add(title, text), bounds) for title, text, bounds in paragraphs_of(row)}
    facts = supporting_facts(row)
    documents = tuple(dict.fromkeys(paragraphs[title][0] for title, _ in facts if title in paragraphs))
    return Question(
        str(row.get("_id") or row["id"]),
        row["question"],
        texts(row.get("answer")),
        _evidence(facts, paragraphs, pool),
        kind=str(row.get("type") or ""),
        hops=len(documents) or None,
        gold_docs=documents,
    )


def paragraphs_of(row: Record) -> list[tuple[str, str, list[tuple[int, int]]]]:
    """The title of each paragraph, its text, and where its sentences stand in it."""
    context = row["context"]
    pairs = zip(context["title"], context["sentences"], strict=True) if isinstance(context, dict) else context
    return [(title.strip(), *_together(sentences)) for title, sentences in pairs]


def supporting_facts(row: Record) -> list[tuple[str, int]]:
    """Titles, and the numbers of sentences."""
    facts = row.get("supporting_facts") or ()
    pairs = zip(facts["title"], facts["sent_id"], strict=True) if isinstance(facts, dict) else facts
    return [(title.strip(), int(number)) for title, number in pairs]


def _together(sentences: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    between = "" if any(one[:1].isspace() for one in sentences[1:]) else " "
    text = ""
    bounds: list[tuple[int, int]] = []
    for sentence in sentences:
        start = len(text) + len(between) * bool(bounds)
        text += between * bool(bounds) + sentence
        bounds.append((start, len(text)))
    # documents stand in the pool without the blanks around them
    lead = len(text) - len(text.lstrip())
    return text.strip(), [(max(0, start - lead), max(0, end - lead)) for start, end in bounds]


def _evidence(
    facts: Sequence[tuple[str, int]], paragraphs: dict[str, tuple[str, list[tuple[int, int]]]], pool: Pool
) -> Evidence | None:
    """None where a fact names a paragraph or a sentence that is not there: copies of the sets have some."""
    pieces = []
    for title, number in facts:
        if title not in paragraphs or not 0 <= number < len(paragraphs[title][1]):
            return None
        document, bounds = paragraphs[title]
        pieces.append(piece_at(pool.document(document), *bounds[number]))
    return tuple(piece for piece in pieces if piece[1]) or None


def _sniff(sample: Sample) -> bool:
    return {"question", "context", "supporting_facts"} <= sample.record.keys()


LOADER = Loader(_sniff, load, "HotpotQA and 2WikiMultihopQA, as JSON")
