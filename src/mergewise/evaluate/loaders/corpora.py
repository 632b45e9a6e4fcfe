"""Forms with separate files of documents: the bench form, BEIR, the pools of HippoRAG, and DPR's question-answer pairs."""

from __future__ import annotations

import ast
import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mergewise.errors import UsageError
from mergewise.evaluate.loaders.paragraphs import paragraphs_of, supporting_facts
from mergewise.evaluate.loaders.rows import BadRow, Sample, SetReader, bare_name, open_text, texts
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.types import Document, Json, Span

_PARTS = ("test", "dev", "train")
_ANSWERS = "answer gold_ans reference obj answer_aliases possible_answers o_aliases".split()


def _lines(folder: Path, name: str) -> Path:
    packed = folder / f"{name}.jsonl.gz"
    return packed if packed.exists() else folder / f"{name}.jsonl"


def has_lines(sample: Sample, *names: str) -> bool:
    """Check that a folder holds these files of JSON lines, packed or plain."""
    return all(sample.names & {f"{name}.jsonl", f"{name}.jsonl.gz"} for name in names)


# -- our own form; docs/evaluation/method.md describes it


def load_bench(path: Path, reader: SetReader) -> QuestionSet:
    """Load a folder with `corpus.jsonl` and `questions.jsonl`."""
    corpus, questions = _lines(path, "corpus"), _lines(path, "questions")
    documents = tuple(
        reader.converted(
            corpus, reader.records(corpus), lambda row: Document(str(row["id"]), row["text"], row.get("title") or "")
        )
    )
    return reader.question_set(path, documents, reader.records(questions), _bench_question, questions)


def _bench_question(row: Json) -> Question:
    marked = row.get("evidence") if row.get("gold_docs") else row["evidence"]
    evidence = None if marked is None else tuple((Span(e["doc"], e["start"], e["end"]), str(e["text"])) for e in marked)
    return Question(
        str(row["id"]),
        row["question"],
        tuple(row["answers"]),
        evidence,
        kind=str(row.get("type") or ""),
        hops=row.get("hops"),
        gold_docs=texts(row.get("gold_docs") or ()),
        scope=texts(row.get("scope") or ()),
        cluster=str(row.get("cluster") or ""),
    )


# -- BEIR


def load_beir(path: Path, reader: SetReader) -> QuestionSet:
    """Load BEIR (Thakur et al. 2021): a folder with `corpus.jsonl`, `queries.jsonl` and judgements in `qrels/*.tsv`.

    The judgements are those of the test part, or else of dev, or else of train. Documents with a grade above 0 are gold. Queries
    without judgements are left out. The questions have no answers.
    """
    order = {part: place for place, part in enumerate(_PARTS)}
    files = sorted((path / "qrels").glob("*.tsv*"), key=lambda one: order.get(one.name.split(".")[0], len(order)))
    if not files:
        raise UsageError(f"no judgements in {path / 'qrels'}", "add qrels/test.tsv")
    judged: dict[str, dict[str, int]] = {}
    with open_text(files[0], newline="") as file:
        lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        named = [(f"line {lines.line_num}", row) for row in lines if row and row[-1] != "score"]
    for query, document, grade in reader.converted(files[0], named, _judgement):
        if grade > 0:
            judged.setdefault(query, {})[document] = grade
    corpus, queries = _lines(path, "corpus"), _lines(path, "queries")
    documents = tuple(reader.converted(corpus, reader.records(corpus), _beir_document))
    asked = ((place, row) for place, row in reader.records(queries) if str(row.get("_id")) in judged)
    return reader.question_set(
        path, documents, asked, lambda row: _beir_question(row, judged[str(row["_id"])]), queries
    )


def _judgement(row: list[str]) -> tuple[str, str, int]:
    query, document, grade = row
    return query, document, int(grade)


def _beir_document(row: Json) -> Document:
    title = row.get("title") or ""
    return Document(str(row["_id"]), row["text"] or title, title)


def _beir_question(row: Json, gold: dict[str, int]) -> Question:
    return Question(str(row["_id"]), row["text"], (), None, gold_docs=tuple(gold), grades=tuple(gold.values()))


# -- HippoRAG


def load_hipporag(path: Path, reader: SetReader) -> QuestionSet:
    """Load a pool of HippoRAG (Gutiérrez et al. 2024, 2025): questions in `X.json`, and their passages in `X_corpus.json`.

    Gold texts are whole passages. They are found by title and text, or else by a unique title. A question is left out if some of
    its gold is missing, because recall needs all of it. Questions have the form of HotpotQA and 2Wiki (`supporting_facts`), of
    MuSiQue (`paragraphs`), or have similar `contexts`. HippoRAG 1 counts HotpotQA and 2Wiki by title, HippoRAG 2 by passage, as
    here.
    """
    corpus = corpus_of(path)
    numbered = ((place, (number, row)) for number, (place, row) in enumerate(reader.records(corpus)))
    documents = tuple(reader.converted(corpus, numbered, _passage))
    passages = _Passages(documents)
    return reader.question_set(path, documents, reader.records(path), lambda row: _hipporag_question(row, passages))


def corpus_of(path: Path) -> Path:
    name, bare = path.name, bare_name(path)
    return path.with_name(f"{bare}_corpus{name.removeprefix(bare)}")


class _Passages:
    """The documents of a corpus by title and text."""

    def __init__(self, documents: tuple[Document, ...]) -> None:
        self._by_text = {(_letters(one.title), _letters(one.text)): one.id for one in documents}
        self._by_title = {_letters(one.title): one.id for one in documents}
        self._titles = Counter(_letters(one.title) for one in documents)

    def find(self, title: str, text: str) -> str:
        """Return the id of a passage. Raises BadRow unless exactly one passage matches."""
        known = self._by_text.get((_letters(title), _letters(text)))
        if known is None and self._titles[_letters(title)] == 1:
            known = self._by_title[_letters(title)]
        if known is None:
            raise BadRow(f"gold passage not in the corpus: {title!r}")
        return known


def _letters(text: str) -> str:
    """Drop the blanks, because some files join sentences with a blank and others without."""
    return "".join(text.split())


def _passage(numbered: tuple[int, Json]) -> Document:
    number, row = numbered
    text = row.get("text") or row.get("paragraph_text") or row["title"]
    return Document(str(row.get("idx", number)), text, row["title"])


def _hipporag_question(row: Json, passages: _Passages) -> Question:
    gold = tuple(dict.fromkeys(passages.find(title, text) for title, text in _supporting(row)))
    if not gold:
        raise BadRow("missing gold passage")
    answers = texts([one for name in _ANSWERS for one in texts(row.get(name))])
    name = row.get("_id") or row.get("id") or row["question"]
    return Question(str(name), row["question"], answers, None, kind=str(row.get("type") or ""), gold_docs=gold)


def _supporting(row: Json) -> Iterator[tuple[str, str]]:
    """Yield the titles and texts of the passages that the question needs."""
    if "supporting_facts" in row:
        wanted = {title for title, _ in supporting_facts(row)}
        yield from ((title, text) for title, text, _ in paragraphs_of(row) if title in wanted)
        return
    for one in row.get("paragraphs") or row["contexts"]:
        if one.get("is_supporting", "paragraphs" in row):
            yield one["title"], one.get("paragraph_text") or one["text"]


# -- pairs of DPR


def load_pairs(path: Path, reader: SetReader) -> QuestionSet:
    """Load `NAME.qa.csv` of DPR: questions and lists of answers, separated by tabs.

    The documents are in `psgs*.tsv` in the same folder (id, text, title). Without that file the questions need an existing index.
    """
    corpus = next(iter(sorted(path.parent.glob("psgs*.tsv*"))), None)
    documents = [] if corpus is None else reader.converted(corpus, _tab_rows(corpus, has_head=True), _pair_document)
    asked = ((place, (place, row)) for place, row in _tab_rows(path))
    return reader.question_set(path, documents, asked, _pair)


def _tab_rows(path: Path, has_head: bool = False) -> Iterator[tuple[str, list[str]]]:
    with open_text(path, newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        for row in rows:
            if row and not (has_head and rows.line_num == 1):
                yield f"line {rows.line_num}", row


def _pair_document(row: list[str]) -> Document:
    own, text, title = row
    return Document(own, text, title)


def _pair(one: tuple[str, list[str]]) -> Question:
    place, (text, answers) = one
    try:
        golds = texts(ast.literal_eval(answers))
    except (SyntaxError, RecursionError, MemoryError):
        raise BadRow("missing list of answers") from None
    return Question(place, text, golds, None)


def is_pairs(path: Path) -> bool:
    """Check that a file has two columns without names, the second with lists in Python's syntax."""
    with open_text(path) as file:
        line = file.readline(10_000)
    cells = line.rstrip().split("\t")
    return len(cells) == 2 and cells[1].lstrip('"').startswith("[") and not line.startswith(("{", "["))
