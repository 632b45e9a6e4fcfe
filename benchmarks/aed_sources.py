"""Figure 1 of AED-RAG on real questions: the source that makes the gold answer likeliest for a real model.

python -m benchmarks.aed_sources --chat hf:PATH [--limit 50]

Questions come from the second halves of `--sets`. The result of every question is cached under `--keep`. To reproduce the tables
of the paper, run `mergewise eval SETS... --table aed-1,aed-2,aed-beta --chat hf:PATH --out RUN`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import mergewise
from benchmarks.cells import Cells
from benchmarks.corpus import bench_folder
from mergewise.concurrency import run as awaited
from mergewise.designs.aed.ensemble import prompts
from mergewise.designs.aed.units import map_triplets, retrieve
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.run import chosen_questions
from mergewise.evaluate.statistics import wilson
from mergewise.generate.sources import Source
from mergewise.models import load_chat
from mergewise.models.cppl import cppl
from mergewise.prompting.quoting import code_for
from mergewise.protocols import ChatModel

SETS = "hotpotqa-long,2wiki,squad"
SOURCES = ("passage", "triplets", "memory")
PASSAGES = 5  # passages per question


def sources(chat: ChatModel, options: argparse.Namespace) -> None:
    """Print, for each source, the share of questions whose gold answer has its least CPPL with that source."""
    print("| set | questions | passage | triplets | memory |\n| --- | --- | --- | --- | --- |")
    for name in options.sets.split(","):
        task = load_question_set(bench_folder() / name)
        index = mergewise.open(options.cache / name, views=("leaf", "triplet"), chat=chat)
        index.add(task.documents)
        cells = Cells(options.keep / "sources.jsonl")
        wins: list[str] = []
        for question in chosen_questions(task, "test", options.limit):
            least = cells(f"{name} {question.id} {chat.identity}", partial(least_of_each, index, question))
            wins.append(min(least, key=lambda source: least[source]))
        shares = [wins.count(source) / len(wins) for source in SOURCES]
        cell = " | ".join(f"{100 * s:.1f} {_range(wilson(s, len(wins)))}" for s in shares)
        print(f"| {name} | {len(wins)} | {cell} |", flush=True)


def _range(bounds: tuple[float, float]) -> str:
    return f"[{100 * bounds[0]:.1f}, {100 * bounds[1]:.1f}]"


def least_of_each(index: Index, question: Question) -> dict[str, float]:
    """Return the least CPPL of each source: passages, triplet sets, and the model's own background text."""
    assert index.causal is not None and index.chat is not None
    reader = replace(index, _models=replace(index.models, reranker=None)).state().reader(None)
    passages = retrieve(question.text, reader, PASSAGES)
    units = [*passages, *map_triplets(passages, reader)]
    kinds = ["passage" if unit.kind == "passage" else "triplets" for unit in units]
    code = code_for([question.text, *(unit.text for unit in units)])
    texts: list[Source | str] = [Source(1, "", (), unit.text, (), unit.score) for unit in units]
    own = awaited(index.chat.complete(prompts.background(question.text), max_tokens=prompts.BACKGROUND_TOKENS)).text
    if not prompts.knows_nothing(own):
        kinds.append("memory")
        texts.append(own.replace(code, ""))
    asked = [index.causal.prompt(prompts.answer(question.text, [text], code)) for text in texts]
    alone = index.causal.prompt(prompts.answer(question.text, [], code))
    values = cppl(index.causal, alone, asked, list(question.answers))
    least: dict[str, float] = {}
    for kind, value in zip(kinds, values.tolist(), strict=True):
        least[kind] = min(least.get(kind, value), value)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chat", required=True, help="hf:PATH")
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--limit", type=int, default=50, help="Questions per set")
    parser.add_argument("--cache", type=Path, default=Path("answers.cache"), help="Folder of the indexes")
    parser.add_argument("--keep", type=Path, default=Path("answers.kept"))
    options = parser.parse_args()
    chat = load_chat(options.chat)
    if chat is None:
        parser.error("invalid --chat: no causal model (expected hf:PATH)")
    sources(chat, options)


if __name__ == "__main__":
    main()
