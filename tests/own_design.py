"""A complete design of a user: a view of lines, a strategy that selects the best lines, a mode that quotes the first one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mergewise as mw
from mergewise.designs import NO_MODEL, Candidate, Design, Fragment, Mode, Request, Strategy, Table, View, pack
from mergewise.protocols import IndexReader, RowReader
from mergewise.types import DocumentRows, Rows, Step


@dataclass(frozen=True, slots=True)
class Line:
    id: int
    doc_id: str
    title: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class LineSettings:
    least: int = 3


LINES = Table("line", Line, vectors=("vector",), text="text")


def lines_in(document: mw.Document, settings: LineSettings) -> tuple[Line, ...]:
    found = [match for match in re.finditer(r"\S.*", document.text) if len(match[0]) >= settings.least]
    return tuple(Line(i, document.id, document.title, *match.span(), match[0]) for i, match in enumerate(found))


def build(documents: Sequence[DocumentRows], settings: LineSettings, models: mw.Models) -> list[dict[str, Rows]]:
    return [{"line": rows_of(lines_in(rows.document, settings), models)} for rows in documents]


def rows_of(lines: tuple[Line, ...], models: mw.Models) -> Rows:
    texts = [line.text for line in lines]
    return Rows(lines, {} if models.embedder is None else {"vector": models.embedder.embed_documents(texts)})


def problems(rows: DocumentRows, settings: LineSettings, dimension: int) -> Iterator[str]:
    if [line.text for line in rows["line"]] != [line.text for line in lines_in(rows.document, settings)]:
        yield "the lines are not those of the document"


class LineReader:
    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def search(self, question: str, k: int) -> list[tuple[Line, float]]:
        ranking = self._rows.rank_rows(question, k, "line")
        lines = self._rows.rows("line", Line, [row for row, _ in ranking])
        return [(lines[row], score) for row, score in ranking]


@dataclass(frozen=True, slots=True)
class Lines:
    k: int = 20


def assemble(question: str, reader: IndexReader, budget: int, models: mw.Models, parameters: Lines) -> mw.Context:
    found = reader.view("line").search(question, parameters.k)
    pieces = [Fragment(one.doc_id, one.title, (), one.start, one.end, one.start, one.text) for one, _ in found]
    ranked = [Candidate((piece,), score) for piece, (_, score) in zip(pieces, found, strict=True)]
    search = Step("search", f"{len(found)} lines", tuple(piece.span for piece in pieces))
    return pack(question, ranked, budget, models, "score", [search])


def first_line(request: Request, models: mw.Models) -> mw.Answer:
    best = request.context.passages[0]
    cited = mw.Citation(1, best.text, best.spans[0], best.title)
    return mw.Answer(request.context.question, f"“{best.text}” [1]", (cited,), request.context)


VIEW = View("line", LineSettings, lambda settings: (LINES,), build, problems, LineReader)
STRATEGY = Strategy(assemble, Lines(), "the best lines", views=("line",), mode="first-line")
DESIGN = Design({"line": VIEW}, {"lines": STRATEGY}, {"first-line": Mode(first_line, "one line", NO_MODEL)})
