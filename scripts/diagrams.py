"""The diagrams of the manual, drawn from the text below: run `python -m scripts.diagrams` after a change."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "docs/figures"
WIDTH, MARGIN, GAP, LINE = 720, 16, 14, 18
"""Width of a diagram, its margin, the gap between boxes and the height of a line of text, in pixels."""

# A diagram is a list of rows from top to bottom. A row is a list of boxes: a name, and a line of explanation.
Row = list[tuple[str, str]]


class Diagram(NamedTuple):
    """Rows of boxes. With `arrows`, an arrow leads from each row to the next."""

    title: str
    rows: list[Row]
    arrows: bool = True


DIAGRAMS = {
    "document-path": Diagram(
        "The path of a document",
        [
            [("File, folder or text", "Markdown, HTML, PDF, DOCX, mail, code ...")],
            [("readers", "text, headings, pages and metadata; risky formats in a process of their own")],
            [("index/tree", "the document as a tree of sections and leaves, each a span of characters")],
            [
                ("leaf", "paragraphs"),
                ("slice", "summaries"),
                ("marker", "questions"),
                ("triplet", "facts"),
                ("your view", "its rows"),
            ],
            [("models", "vectors of the rows, by the embedder")],
            [("store", "rows, vectors and text indexes in LanceDB; a manifest makes each batch atomic")],
        ],
    ),
    "question-path": Diagram(
        "The path of a question",
        [
            [("Question", "with a strategy, a token budget and a condition")],
            [("retrieve", "hybrid search: BM25 and vectors, over the rows of the views")],
            [("designs", "a strategy selects, expands, merges or fuses what search found")],
            [("assemble", "fragments become passages in document order, with headings and marks, within the budget")],
            [("Context", "text, passages, character spans, and a trace of every step")],
            [("generate", "a mode quotes sentences, or a model writes the answer")],
            [("Answer", "each sentence aligned with its sources; citations with offsets")],
        ],
    ),
    "layers": Diagram(
        "The layers of the source: a room imports only rooms below it",
        [
            [("cli", "commands"), ("server", "HTTP, OpenAI, MCP, page"), ("integrations", "LangChain ...")],
            [("evaluate", "question sets, scores, reports, tuning")],
            [("engine", "open, Index: add, sync, context, ask")],
            [("asking", "one question"), ("rounds", "several searches"), ("async_api", "await and streams")],
            [("designs", "one wing per paper: views, strategies, modes")],
            [("retrieve", "search"), ("assemble", "contexts"), ("generate", "answers")],
            [("index", "documents to rows")],
            [("store", "rows, vectors, manifest, shards")],
            [("readers", "formats"), ("models", "embedders, chats"), ("text", "sentences, spans"), ("page", "HTML")],
            [("types, protocols, errors", "records, interfaces and exceptions: import nothing above")],
        ],
        arrows=False,
    ),
}
STYLE = """\
text{font-family:system-ui,sans-serif;text-anchor:middle;fill:#1f2933}
.name{font-size:14px;font-weight:600}.note{font-size:11px;fill:#52606d}
.box{fill:#eef4fb;stroke:#5b8fc7}.arrow{stroke:#5b8fc7;stroke-width:1.5;marker-end:url(#head)}
@media (prefers-color-scheme:dark){.page{fill:#1e2129}text{fill:#e4e7eb}.note{fill:#b8c2cc}.box{fill:#273444;stroke:#6ea3dc}}
"""


def draw(diagram: Diagram) -> str:
    """Return a diagram as SVG."""
    step = 30 if diagram.arrows else GAP
    body, top = [], MARGIN
    for number, row in enumerate(diagram.rows):
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        notes = [list(_lines(note, width)) for _, note in row]
        height = 30 + LINE * max(map(len, notes))
        for column, (name, _) in enumerate(row):
            left = MARGIN + column * (width + GAP)
            middle = left + width / 2
            body.append(f'<rect class="box" x="{left:g}" y="{top}" width="{width:g}" height="{height}" rx="6"/>')
            body.append(f'<text class="name" x="{middle:g}" y="{top + 20}">{escape(name)}</text>')
            for line, text in enumerate(notes[column]):
                body.append(f'<text class="note" x="{middle:g}" y="{top + 38 + line * LINE}">{escape(text)}</text>')
        top += height
        if number < len(diagram.rows) - 1:
            if diagram.arrows:
                body.append(
                    f'<line class="arrow" x1="{WIDTH / 2:g}" y1="{top + 3}" x2="{WIDTH / 2:g}" y2="{top + step - 6}"/>'
                )
            top += step
    height = top + MARGIN
    head = '<marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(diagram.title)}</title>",
            f"<style>{STYLE}</style>",
            f'<defs>{head}<path d="M0 0 8 4 0 8z" fill="#5b8fc7"/></marker></defs>',
            f'<rect class="page" width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
            *body,
            "</svg>\n",
        ]
    )


def _lines(note: str, width: float) -> Iterator[str]:
    """Break a note into lines that fit a box."""
    most, line = int(width / 5.6), ""
    for word in note.split():
        if line and len(line) + len(word) >= most:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    yield line


def drawings() -> dict[str, str]:
    """Return each diagram by its file name."""
    return {f"{name}.svg": draw(diagram) for name, diagram in DIAGRAMS.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in drawings().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
