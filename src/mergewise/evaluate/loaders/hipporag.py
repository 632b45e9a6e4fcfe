"""The pools of HippoRAG (Gutiérrez et al. 2024, 2025): `X.json`, questions, beside `X_corpus.json`, the passages of all of
them.

Gold are whole documents: the passages of the corpus that a question marks as its supporting ones. They are found by title
and text, else by a title that one passage alone has. A question whose gold is not all found is left out, since a share of it
is no recall.

The questions are those of HotpotQA and 2Wiki (`supporting_facts`), of MuSiQue (`paragraphs`), or have `contexts` like these.
The first version of HippoRAG counts HotpotQA and 2Wiki by title, the second by passage, as here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mergewise.evaluate.loaders.hotpotqa import paragraphs_of, supporting_facts
from mergewise.evaluate.loaders.rows import BadRow, Loader, Record, Sample, SetReader, bare_name, texts
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.types import Document

_ANSWERS = ("answer", "gold_ans", "reference", "obj", "answer_aliases", "possible_answers", "o_aliases")


def load(path: Path, rows: SetReader) -> QuestionSet:
    corpus = corpus_of(path)
    numbered = ((place, (number, row)) for number, (place, row) in enumerate(rows.records(corpus)))
    documents = tuple(rows.converted(corpus, numbered, _document))
    passages = Passages(documents)
    questions = tuple(rows.questions(path, rows.records(path), lambda row: _question(row, passages)))
    return rows.task(path, bare_name(path), documents, questions)


def corpus_of(path: Path) -> Path:
    """Where the passages stand that the questions of this file are asked of."""
    name, bare = path.name, bare_name(path)
    return path.with_name(f"{bare}_corpus{name.removeprefix(bare)}")


class Passages:
    """Finds the documents that questions mean by a title and a text."""

    def __init__(self, documents: tuple[Document, ...]) -> None:
        self._by_text = {(_letters(one.title), _letters(one.text)): one.id for one in documents}
        self._by_title = {_letters(one.title): one.id for one in documents}
        self._titles = Counter(_letters(one.title) for one in documents)

    def find(self, title: str, text: str) -> str:
        """Raises BadRow where no passage, or more than one, is meant."""
        known = self._by_text.get((_letters(title), _letters(text)))
        if known is None and self._titles[_letters(title)] == 1:
            known = self._by_title[_letters(title)]
        if known is None:
            raise BadRow(f"has a gold passage that the corpus lacks: {title!r}")
        return known


def _letters(text: str) -> str:
    """Sentences are joined with a blank or without one, depending on who wrote the file."""
    return "".join(text.split())


def _document(numbered: tuple[int, Record]) -> Document:
    number, row = numbered
    text = row.get("text") or row.get("paragraph_text") or row["title"]
    return Document(str(row.get("idx", number)), text, row["title"])


def _question(row: Record, passages: Passages) -> Question:
    gold = tuple(dict.fromkeys(passages.find(title, text) for title, text in _supporting(row)))
    if not gold:
        raise BadRow("has no gold passage")
    answers = texts([one for name in _ANSWERS for one in texts(row.get(name))])
    name = row.get("_id") or row.get("id") or row["question"]
    return Question(str(name), row["question"], answers, None, kind=str(row.get("type") or ""), gold_docs=gold)


def _supporting(row: Record) -> Iterator[tuple[str, str]]:
    """Titles and texts of the passages that the question needs."""
    if "supporting_facts" in row:
        wanted = {title for title, _ in supporting_facts(row)}
        yield from ((title, text) for title, text, _ in paragraphs_of(row) if title in wanted)
        return
    for one in row.get("paragraphs") or row["contexts"]:
        if one.get("is_supporting", "paragraphs" in row):
            yield one["title"], one.get("paragraph_text") or one["text"]


def _sniff(sample: Sample) -> bool:
    return "question" in sample.record and corpus_of(sample.path).is_file()


LOADER = Loader(_sniff, load, "the pools of HippoRAG: X.json beside X_corpus.json")
