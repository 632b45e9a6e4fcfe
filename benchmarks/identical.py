"""Compare the contexts and answers of two versions: every strategy on the first questions of six sets, at two budgets.

python -m benchmarks.identical record --cache indexes --out before.jsonl   # with one version
python -m benchmarks.identical record --cache indexes --out after.jsonl    # with the other, on the same indexes
python -m benchmarks.identical compare before.jsonl after.jsonl            # differences by strategy
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mergewise
from benchmarks import manuals

BENCH = Path(__file__).parents[1] / "../shared/data/bench"
SETS = ("hotpotqa-long", "musique-long", "2wiki", "squad", "covidqa", "manuals")
STRATEGIES = (
    *("weave", "topk", "dos", "auto-merge", "auto-merge(mode=always)", "auto-merge(mode=semantic)", "sentence"),
    *("recomp", "aed", "macrag", "longrag", "mergerag-sym", "mergerag-asym", "mrag", "fixed", "semantic", "pic"),
)
VIEWS = ("leaf", "slice", "fixed", "semantic", "pic", "marker", "triplet")
BUDGETS = (128, 640)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("--cache", type=Path, required=True, help="Folder of the indexes, built if missing")
    record.add_argument("--out", type=Path, required=True)
    record.add_argument("--sets", default=",".join(SETS))
    record.add_argument("--questions", type=int, default=60)
    compare = commands.add_parser("compare")
    compare.add_argument("files", type=Path, nargs=2)
    arguments = parser.parse_args()
    if arguments.command == "record":
        with arguments.out.open("w", encoding="utf-8") as out:
            for name in arguments.sets.split(","):
                for row in rows(name, arguments.cache, arguments.questions):
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
                out.flush()
                print(name, flush=True)
    else:
        print_differences(*(read(path) for path in arguments.files))


def rows(name: str, cache: Path, count: int) -> Iterator[dict[str, Any]]:
    index, questions = open_index(name, cache)
    for strategy in STRATEGIES:
        for budget in BUDGETS:
            for question in questions[:count]:
                answer = index.ask(question, strategy=strategy, budget=budget)
                context = answer.context
                spans = [[(s.doc_id, s.start, s.end) for s in p.spans] for p in context.passages]
                cited = [(c.number, c.span.doc_id, c.span.start, c.span.end) for c in answer.citations]
                yield {
                    "key": [name, strategy, budget, question],
                    "context": [context.text, context.tokens, spans, [p.score for p in context.passages]],
                    "answer": [answer.text, answer.found, answer.sure, cited],
                }


def open_index(name: str, cache: Path) -> tuple[mergewise.Index, list[str]]:
    if name == "manuals":
        index = manuals.opened(cache)
        questions = [one.question.text for one in manuals.load("questions", "all")]
    else:
        from mergewise.evaluate.loaders import load_question_set

        task = load_question_set(BENCH / name)
        index = mergewise.open(cache / name)
        index.add(task.documents)
        questions = [question.text for question in task.questions]
    index.close()
    return mergewise.open(index.store.directory, views=VIEWS), questions


def read(path: Path) -> dict[str, dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {json.dumps(row["key"]): row for row in map(json.loads, lines)}


def print_differences(one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]]) -> None:
    keys = [key for key in one if key in other]
    counts: dict[str, Counter[str]] = {"context": Counter(), "answer": Counter()}
    for key in keys:
        strategy = json.loads(key)[1]
        for part, differing in counts.items():
            differing[strategy] += one[key][part] != other[key][part]
    print(f"{len(keys)} in both files, {len(one.keys() ^ other.keys())} in only one")
    for part, differing in counts.items():
        print(f"different {part}s: {sum(differing.values())}", {name: n for name, n in differing.items() if n})


if __name__ == "__main__":
    main()
