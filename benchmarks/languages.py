"""Evidence held in languages other than English and over unknown manuals, with the default settings.

python -m benchmarks.languages [--sets xquad-ru,fastapi-de] [--budgets 128,300] [--split dev test] [--manuals DIR] [--cells FILE]
python -m benchmarks.languages --beginnings 40,60,100,300     how many paragraphs are told by so many characters

The sets `xquad-LL` (XQuAD, CC BY-SA 4.0) have the same articles and questions in each language. The others are questions over
manuals, whose folders are in DIR: benchmarks/manuals/README.md says where to get them. `xquad-de>en` asks German questions over
English articles, `fastapi-en` questions in five languages over an English manual, `projects` English questions over the manuals
of three projects. Evidence counts as held if the context contains the whole gold, by its position in the document: texts in
scripts without spaces cannot be compared word by word. The shipped counter counts more tokens for other languages than for
English. The budget `default` is a length of text.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import mergewise
from benchmarks import manuals, sets
from benchmarks.cells import Cell, Cells, markdown
from benchmarks.corpus import BENCH
from benchmarks.manuals import Asked
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.metrics import mean
from mergewise.query import Budget
from mergewise.text.languages import UNKNOWN, detect

STRATEGIES = "weave;topk;auto-merge;sentence"
XQUAD = [f"xquad-{language}" for language in "en de es tr vi ru el ar hi zh".split()]


def measure(
    index: mergewise.Index, questions: Sequence[Asked], texts: dict[str, str], spec: str, budget: Budget
) -> Cell:
    contexts = [index.context(one.question.text, strategy=spec, budget=budget) for one in questions]
    held = [sets.holds(one, sets.spans_of(context), texts) for one, context in zip(questions, contexts, strict=True)]
    return {"held": float(sum(held)), "characters": mean([len(context.text) for context in contexts])}


def print_beginnings(sizes: Sequence[int]) -> None:
    """Print, by language, how many paragraphs `detect` tells right and wrong by their first characters."""
    rows = []
    for name in XQUAD:
        documents = load_question_set(BENCH.with_name("languages") / name).documents
        paragraphs = [text for document in documents for text in document.text.split("\n\n") if len(text) > 150]
        row = [name, str(len(paragraphs))]
        for size in sizes:
            told = Counter(detect(text[:size]) for text in paragraphs)
            right = told[name.removeprefix("xquad-")]
            row.append(f"{right} / {len(paragraphs) - right - told[UNKNOWN]}")
        rows.append(row)
    print(markdown(["set", "paragraphs", *(f"{size}: right / wrong" for size in sizes)], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join([*XQUAD, *manuals.corpora()]))
    parser.add_argument("--strategies", default=STRATEGIES, help="Strategies, separated by semicolons")
    parser.add_argument("--budgets", default="128,300,640")
    parser.add_argument("--split", nargs="+", default=["test"], choices=("dev", "test", "all"))
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--manuals", type=Path, help="folder with the manuals")
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    parser.add_argument("--cells", type=Path, default=Path(tempfile.gettempdir()) / "languages.jsonl")
    parser.add_argument("--beginnings", default="", help="Numbers of characters")
    options = parser.parse_args()
    if options.beginnings:
        print_beginnings([int(size) for size in options.beginnings.split(",")])
        return
    cells = Cells(options.cells)
    strategies = options.strategies.split(";")
    rows = []
    for name in options.sets.split(","):
        with sets.opened(name, options.cache, options.manuals, options.embedder) as index:
            texts = {document.id: index.document(document.id).text for document in index.documents()}
            for split in options.split:
                questions = sets.asked(name, split, options.limit)
                row = [name, split, str(len(questions))]
                for size in options.budgets.split(","):
                    budget = int(size) if size.isdigit() else size
                    found = [
                        cells(
                            f"{name} {options.embedder} {split} {options.limit} {spec} {budget}",
                            partial(measure, index, questions, texts, spec, budget),
                        )
                        for spec in strategies
                    ]
                    row.append(" / ".join(f"{cell['held']:.0f}" for cell in found))
                rows.append(row)
                print(" ".join(row), flush=True)
    print(" / ".join(strategies))
    print(markdown(["set", "half", "questions", *options.budgets.split(",")], rows))


if __name__ == "__main__":
    main()
