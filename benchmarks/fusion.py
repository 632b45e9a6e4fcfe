"""Which fusion of the two searches: `topk` with each, on the first half of every question set.

python -m benchmarks.fusion [--sets squad,2wiki] [--limit 60] [--budgets 128,640]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import mergewise
from benchmarks.corpus import bench_folder
from mergewise.evaluate.loaders import load_task
from mergewise.evaluate.run import evaluate
from mergewise.retrieve.hybrid import SearchSettings

CHOICES = {
    **{f"weight {weight}": SearchSettings(weight=weight) for weight in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)},
    "reciprocal ranks": SearchSettings(fusion="reciprocal-rank"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="hotpotqa-long,musique-long,2wiki,squad,covidqa")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--budgets", default="128,640")
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    for name in options.sets.split(","):
        task = load_task(bench_folder() / name)
        with tempfile.TemporaryDirectory() as folder:
            index = mergewise.open(Path(folder) / "index")
            index.add(task.documents)
            for label, settings in CHOICES.items():
                index.search_settings = settings
                rows = evaluate(index, task, ["topk"], budgets, "first", options.limit)
                cells = "  ".join(f"B={r.budget} {r.answer:.2f}/{r.evidence:.2f}/{r.all:.2f}" for r in rows)
                print(f"{name:14} {label:17} {cells}", flush=True)


if __name__ == "__main__":
    main()
