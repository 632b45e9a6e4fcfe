"""MacRAG with budgets that fit its merged chunks, against LongRAG: evidence, the scale factor, and tokens read per mode.

python -m benchmarks.macrag budgets    answer, evidence and tokens at 4k, 8k and 16k, and how often C_final fits in full
python -m benchmarks.macrag alpha      k2 and alpha (the paper's Figure 3), without a budget
python -m benchmarks.macrag lengths    tokens that a model reads in each mode (the paper's Figure 4)

A set name is `hotpotqa-long`, or `hotpotqa-long-10000` for documents of at least 10,000 tokens (`benchmarks.joined`).
Indexes and finished cells are cached in --cache DIR, so an interrupted command can resume.

`lengths` uses a script instead of a model: it extracts the gold evidence from its prompt and accepts every passage with some of
it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mergewise
from benchmarks.cells import Cell, Cells, average_rows, markdown, mean_scores, no_values
from benchmarks.corpus import bench_folder
from benchmarks.joined import joined
from mergewise.designs import MODES
from mergewise.designs.modes import answer
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.run import Split, chosen_questions
from mergewise.evaluate.words import normalise
from mergewise.generate.mode import Request
from mergewise.generate.prompts import NOT_FOUND, NOTHING
from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat
from mergewise.models.tokens import count_tokens
from mergewise.types import Context, Message

EVERYTHING = 10_000_000  # a budget larger than any context
BUDGETS = (4096, 8192, 16_384)
KEPT, ALPHAS = (7, 12), (1, 2, 3, 4)
BUDGETED = (
    "topk",
    "weave",
    *(
        spec
        for k2 in KEPT
        for spec in (f"longrag(k2={k2})", f"longrag(unit=chunk, k2={k2})", f"macrag(k2={k2}, alpha={max(ALPHAS)})")
    ),
)
MODES_READ = ("r&b", "r&l", "full-ext", "fil", "full-e&f", "r&b-ext", "r&b-e&f")


@dataclass(frozen=True, slots=True)
class Asked:
    """An index with slices, and its questions. `name` identifies both."""

    name: str
    index: Index
    questions: Sequence[Question]


def open_set(name: str, cache: Path, embedder: str, split: Split, limit: int) -> Asked:
    """Open a question set. `musique-long-10000` is `musique-long`, joined to documents of at least 10,000 tokens."""
    task = task_of(name)
    folder = cache / (name if embedder == "minilm" else f"{name}-{embedder}")
    index = mergewise.open(folder, embedder=embedder, views=("leaf", "slice"))
    index.add(task.documents)
    questions = chosen_questions(task, split, limit)
    return Asked(f"{name} {embedder} {split} {len(questions)}", index, questions)


def task_of(name: str) -> QuestionSet:
    tokens = re.fullmatch(r"(.*)-(\d+)", name)
    if tokens is None:
        return load_question_set(bench_folder() / name)
    return joined(load_question_set(bench_folder() / tokens[1]), int(tokens[2]))


def given_whole(index: Index, spec: str, question: Question, context: Context) -> Cell:
    """Return 1 if the context equals the context of an unlimited budget, else 0."""
    everything = index.context(question.text, strategy=spec, budget=EVERYTHING)
    return {"whole": float(everything.text == context.text)}


def budgets(asked: Asked, cells: Cells) -> str:
    rows = []
    for spec in BUDGETED:
        row = [spec]
        for budget in BUDGETS:
            more = partial(given_whole, asked.index, spec) if spec.startswith("macrag") else no_values
            work = partial(mean_scores, asked.index, asked.questions, spec, budget, more)
            row.append(_cell_text(cells(f"{asked.name} {spec} {budget}", work)))
        rows.append(row)
    return markdown([asked.name, *(f"B = {budget}" for budget in BUDGETS)], rows)


def alpha(asked: Asked, cells: Cells) -> str:
    rows = []
    for k2 in KEPT:
        for spec in (
            f"longrag(unit=chunk, k2={k2})",
            f"longrag(k2={k2})",
            *(f"macrag(k2={k2}, alpha={factor})" for factor in ALPHAS),
        ):
            cell = cells(
                f"{asked.name} {spec} {EVERYTHING}",
                partial(mean_scores, asked.index, asked.questions, spec, EVERYTHING),
            )
            rows.append(
                [spec, *(f"{cell[part]:.2f}" for part in ("answer", "evidence", "all")), f"{cell['tokens']:,.0f}"]
            )
    return markdown([asked.name, "answer", "evidence", "all", "tokens"], rows)


def _cell_text(cell: Cell) -> str:
    held = "/".join(f"{cell[part]:.2f}" for part in ("answer", "evidence", "all"))
    return f"{held} ({cell['tokens']:,.0f})" + (f", {cell['whole']:.2f} whole" if "whole" in cell else "")


# -- lengths


def script(question: Question) -> Callable[[Sequence[Message]], str]:
    """Return a scripted model that notes the gold evidence of its prompt and accepts passages with some of it."""
    gold = [piece for _, piece in question.evidence or ()]

    def says(messages: Sequence[Message]) -> str:
        shown = normalise(messages[-1].text)
        held = [piece for piece in gold if normalise(piece) in shown]
        start = messages[0].text
        if start.startswith("You read documents"):
            return "\n".join(f"- {piece}" for piece in held) or NOTHING
        if start.startswith("You decide whether"):
            return f'{{"relevant": {"true" if held else "false"}}}'
        return (
            f"First one thing, then the other: {question.text}" if start.startswith("You work out how") else NOT_FOUND
        )

    return says


def read_tokens(asked: Asked, context: Callable[[Question], Context], mode: str) -> Cell:
    """Return the mean input tokens of all calls for a question, and the mean number of calls, with an unlimited window."""
    rows = []
    for question in asked.questions:
        chat = ScriptedChat(script(question), window=EVERYTHING)
        request = Request(context(question), asked.index.store.reader().document, Models(count_tokens, chat=chat))
        usage = answer(mode, request).usage
        rows.append({"tokens": float(usage.input_tokens), "calls": float(usage.calls)})
    return average_rows(rows)


def lengths(asked: Asked, cells: Cells) -> str:
    rows = []
    for spec in ("longrag(unit=chunk)", "macrag"):
        contexts: dict[str, Context] = {}

        def context(question: Question, spec: str = spec, known: dict[str, Context] = contexts) -> Context:
            if question.id not in known:
                known[question.id] = asked.index.context(question.text, strategy=spec, budget=EVERYTHING)
            return known[question.id]

        row = [spec]
        for mode in MODES_READ:
            assert mode in MODES
            cell = cells(f"{asked.name} {spec} lengths {mode}", partial(read_tokens, asked, context, mode))
            row.append(f"{cell['tokens'] / 1000:.1f}k ({cell['calls']:.0f})")
        rows.append(row)
    return markdown([asked.name, *MODES_READ], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("budgets", "alpha", "lengths"))
    parser.add_argument("--sets", default="hotpotqa-long,musique-long,hotpotqa-long-10000,musique-long-10000")
    parser.add_argument("--split", default="test", choices=("dev", "test", "all"))
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--embedder", default="minilm", choices=("minilm", "none"))
    parser.add_argument("--cache", type=Path, default=Path("macrag.cache"))
    options = parser.parse_args()
    table = {"budgets": budgets, "alpha": alpha, "lengths": lengths}[options.what]
    cells = Cells(options.cache / "macrag.jsonl")
    for name in options.sets.split(","):
        asked = open_set(name, options.cache, options.embedder, options.split, options.limit)
        print(table(asked, cells), end="\n\n", flush=True)
        asked.index.close()


if __name__ == "__main__":
    main()
