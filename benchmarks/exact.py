"""Exact questions: versions, requirements, sections, error codes, addresses and dates; half of them ask for what does not exist.

python -m benchmarks.exact [FILE] --corpora DIR [--split test] [--embedder none] [--cache DIR] [--show]

A question is right if the answer or a quotation contains a gold string, or the quotations cover nine tenths of the gold's span.
Gold strings occur at the gold's places only. A question for what does not exist is refused if the answer says that nothing was
found, and named if it has one of the nearest names, too. benchmarks/manuals/README.md says where to get the corpora. It runs
with the interpreter of any version: `OTHER/.venv/bin/python benchmarks/exact.py`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import mergewise
from mergewise import Span
from mergewise.evaluate.words import normalise
from mergewise.readers import read_file

QUESTIONS = Path(__file__).parent / "manuals" / "exact.jsonl"
SUFFIXES = (".md", ".rst", ".html", ".csv")
CONTEXTS = (("weave", 300), ("weave", 640), ("topk", 640))
HALVES = {"dev": "tune", "test": "report"}

Row: TypeAlias = dict[str, Any]


def opened(folder: Path, cache: Path, embedder: str) -> mergewise.Index:
    """Open the index of a corpus in `cache`, building it if missing."""
    index = mergewise.open(cache / f"{folder.name}-{embedder}", embedder=embedder)
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES and path.name != "SOURCE.md"]
    index.add([read_file(path, id=path.relative_to(folder).as_posix()).document for path in paths])
    return index


def holds(row: Row, texts: Sequence[str], spans: Sequence[Span], index: mergewise.Index) -> bool:
    """Return true if one of the texts contains a gold string, or the spans cover nine tenths of one of the golds."""
    normalised = [normalise(text) for text in texts]
    if any(normalise(gold) in text for gold in row["answers"] for text in normalised):
        return True
    golds = [row["evidence"], *row.get("alternatives", ())]
    return any(gold and all(_is_covered(piece, spans, index) for piece in gold) for gold in golds)


def _is_covered(piece: Row, spans: Sequence[Span], index: mergewise.Index) -> bool:
    text, start, end = index.document(piece["doc"]).text, piece["start"], piece["end"]
    if text[start:end] != piece["text"]:  # another version of the reader
        start = text.find(piece["text"])
        end = start + len(piece["text"])
    own = [span for span in spans if span.doc_id == piece["doc"]]
    held = sum(max(0, min(end, span.end) - max(start, span.start)) for span in own)
    return start >= 0 and held >= 0.9 * (end - start)


def outcomes(index: mergewise.Index, row: Row) -> Iterator[str]:
    """Yield the outcomes of a question, the text of its answer, and the contexts with the gold."""
    answer = index.ask(row["question"], mode="extractive")
    quotations = answer.citations
    texts = [answer.text, *(citation.text for citation in quotations)]
    right = answer.found and holds(row, texts, [citation.span for citation in quotations], index)
    if not row["answers"]:
        refused = not answer.found
        named = refused and any(name in answer.text for name in row["nearest"])
        yield from ["refused"] * refused + ["named"] * named
    elif right:
        yield "right"
    if answer.found and not right:
        yield "sure and wrong" if answer.sure else "likely and wrong"
    yield f"  {answer.text[:300]!r}"
    for strategy, budget in CONTEXTS if row["answers"] else ():
        context = index.context(row["question"], strategy=strategy, budget=budget)
        spans = [span for passage in context.passages for span in passage.spans]
        if holds(row, [context.text], spans, index):
            yield f"{strategy} {budget}"


def table(rows: Sequence[Row], options: argparse.Namespace) -> str:
    counts: dict[str, Counter[str]] = {}
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        with opened(options.corpora / corpus, options.cache, options.embedder) as index:
            for row in rows:
                if row["corpus"] == corpus:
                    held = list(outcomes(index, row))
                    kind = f"asked, {'exists' if row['answers'] else 'missing'}"
                    for name in (row["kind"], corpus, "all"):
                        counts.setdefault(name, Counter()).update([kind, *held])
                    if options.show:
                        print(row["id"], row["question"], "|", "; ".join(held), flush=True)
    columns = ["right", *(f"{strategy} {budget}" for strategy, budget in CONTEXTS)]
    lines = [f"| questions | {' | '.join(columns)} | refused | named | sure and wrong | likely and wrong |"]
    lines.append("| --- " * (len(columns) + 5) + "|")
    for name, count in counts.items():
        exist, missing = count["asked, exists"], count["asked, missing"]
        cells = [f"{count[column]} of {exist}" for column in columns]
        cells += [f"{count[column]} of {missing}" for column in ("refused", "named")]
        cells += [f"{count[column]} of {exist + missing}" for column in ("sure and wrong", "likely and wrong")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=QUESTIONS)
    parser.add_argument("--corpora", type=Path, required=True, help="folder with one folder per corpus")
    parser.add_argument("--split", default="all", choices=("dev", "test", "all"))
    parser.add_argument("--embedder", default="minilm", choices=("minilm", "none"))
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    parser.add_argument("--show", action="store_true", help="print each question with its outcomes")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.file.read_text(encoding="utf-8").splitlines()]
    print(table([row for row in rows if options.split == "all" or row["half"] == HALVES[options.split]], options))


if __name__ == "__main__":
    main()
