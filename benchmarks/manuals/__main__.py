"""Evaluate contexts for questions over manuals.

python -m benchmarks.manuals [--split test] [--budgets 128,300,384,640] [--strategies "weave;topk"] [--sets questions,hops]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.manuals import load, opened
from mergewise.evaluate.metrics import mean

STRATEGIES = "weave;sentence;topk;auto-merge;auto-merge(mode=always)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", default="test", choices=("dev", "test", "all"))
    parser.add_argument("--budgets", default="128,300,384,640")
    parser.add_argument("--strategies", default=STRATEGIES, help="Strategies, separated by semicolons")
    parser.add_argument("--sets", default="questions,hops")
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    options = parser.parse_args()
    index = opened(options.cache)
    for name in options.sets.split(","):
        asked = [one for one in load(name, options.split) if one.answerable]
        print(f"{name}: {len(asked)} questions; answer / evidence / all")
        for strategy in options.strategies.split(";"):
            cells = []
            for budget in map(int, options.budgets.split(",")):
                scores = [
                    one.score(index.context(one.question.text, strategy=strategy, budget=budget)) for one in asked
                ]
                shares = [mean([getattr(score, part) for score in scores]) for part in ("answer", "evidence", "all")]
                cells.append(f"{budget}: " + " / ".join(f"{share:.3f}" for share in shares))
            print(f"{strategy:24} " + "   ".join(cells), flush=True)


if __name__ == "__main__":
    main()
