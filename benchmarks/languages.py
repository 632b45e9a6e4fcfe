"""Evidence held in languages other than English: the same articles and questions in each, with the default settings.

python -m benchmarks.languages DATA [--languages ru,ar] [--embedder minilm] [--questions 150:250] [--cells FILE]

DATA holds one question set per language, such as `xquad-ru` (XQuAD, CC BY-SA 4.0). Evidence counts as held if the context
contains the whole gold sentence, by its position in the document: texts in scripts without spaces cannot be compared word by
word. Budgets: 384 tokens of the shipped counter, which counts more tokens for other languages than for English, and the default
budget, which is a length of text.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import mergewise
from benchmarks.cells import Cell, Cells, markdown
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.metrics import mean
from mergewise.evaluate.question_sets import Question
from mergewise.query import Budget
from mergewise.text.sentences import strip_span
from mergewise.types import Context, Span

STRATEGIES = ("topk", "weave")
BUDGETS: tuple[Budget, ...] = (384, "default")


def holds(context: Context, gold: Span, text: str) -> bool:
    """Check that the passages hold every character of a span, except white space at its ends and between passages."""
    at, end = strip_span(text, gold.start, gold.end)
    spans = sorted((s.start, s.end) for passage in context.passages for s in passage.spans if s.doc_id == gold.doc_id)
    for start, stop in spans:
        if not text[at:start].strip():
            at = max(at, stop)
    return at >= end


def held(index: mergewise.Index, question: Question, texts: Mapping[str, str], spec: str, budget: Budget) -> Cell:
    context = index.context(question.text, strategy=spec, budget=budget)
    whole = all(holds(context, gold, texts[gold.doc_id]) for gold, _ in question.evidence or ())
    return {"evidence": float(whole), "characters": float(len(context.text)), "budget": float(context.budget)}


def measure(
    index: mergewise.Index, questions: Sequence[Question], texts: Mapping[str, str], spec: str, budget: Budget
) -> Cell:
    cells = [held(index, question, texts, spec, budget) for question in questions]
    return {name: mean([cell[name] for cell in cells]) for name in cells[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--languages", default="en,de,es,tr,vi,ru,el,ar,hi,zh")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--questions", default="150:250", help="FIRST:END")
    parser.add_argument("--cells", type=Path, default=Path(tempfile.gettempdir()) / "languages.jsonl")
    options = parser.parse_args()
    first, end = map(int, options.questions.split(":"))
    cells = Cells(options.cells)
    rows = []
    for language in options.languages.split(","):
        task = load_question_set(options.data / f"xquad-{language}")
        texts = {document.id: document.text for document in task.documents}
        with tempfile.TemporaryDirectory() as folder, mergewise.open(folder, embedder=options.embedder) as index:
            index.add(task.documents)
            leaves = sum(document.leaves for document in index.documents())
            row = [language, str(leaves)]
            for budget in BUDGETS:
                for spec in STRATEGIES:
                    key = f"{language} {options.embedder} {options.questions} {spec} {budget}"
                    cell = cells(key, partial(measure, index, task.questions[first:end], texts, spec, budget))
                    row.append(f"{100 * cell['evidence']:.1f}")
                row.append(f"{cell['budget']:.0f}, {cell['characters']:.0f} characters")
        rows.append(row)
        print(" ".join(row), flush=True)
    header = [
        "language",
        "leaves",
        *(f"{spec} {budget}" if spec else "tokens" for budget in BUDGETS for spec in (*STRATEGIES, "")),
    ]
    print(markdown(header, rows))


if __name__ == "__main__":
    main()
