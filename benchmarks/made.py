"""Do generated questions rank strategies like real ones? Kendall's tau between both rankings of 20 points, one row per set.

python -m benchmarks.made --cache DIR [--sets ...] [--questions 100] [--budget 384] [--chat SPEC]

Questions are generated from the sets' documents, as in `mergewise questions`. For comparison, the table gives tau between two
halves of the real questions, a rough upper limit, and both figures for the points of `weave` alone, which `tune` compares.
Indexes with all views of the points are cached in --cache DIR. Finished questions are cached too, so an interrupted command can
resume.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path

import mergewise
from benchmarks.cells import Cell, Cells, markdown
from benchmarks.corpus import bench_folder
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.metrics import mean
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.synthetic import make_questions
from mergewise.evaluate.tuning.measuring import ContextMeasure
from mergewise.evaluate.tuning.space import Point

SETS = "2wiki,hotpotqa-long,musique-long,squad,covidqa"
VIEWS = ("leaf", "slice", "marker", "fixed", "semantic", "pic")
WORDS, VECTORS = {"search": {"weight": 0.0}}, {"search": {"weight": 1.0}}
POINTS: Mapping[str, Point] = {
    str(point): point
    for point in (
        *(Point(name, changes) for name in ("topk", "weave") for changes in ({}, WORDS, VECTORS)),  # type: ignore[arg-type]
        *map(Point, ("topk(longest=256)", "auto-merge", "sentence", "recomp", "macrag", "mergerag-sym")),
        *map(Point, ("mrag", "fixed", "semantic", "pic")),
        *map(Point, ("weave(hops=0)", "weave(onward=0)", "weave(k=20)", "weave(coverage=2)")),
    )
}


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Kendall's tau-b (1945): concordant minus discordant pairs, over the geometric mean of the untied pairs."""
    concordance = ties_first = ties_second = 0
    pairs = [(i, j) for i in range(len(first)) for j in range(i)]
    for i, j in pairs:
        a, b = first[i] - first[j], second[i] - second[j]
        concordance += (a * b > 0) - (a * b < 0)
        ties_first, ties_second = ties_first + (a == 0), ties_second + (b == 0)
    free = ((len(pairs) - ties_first) * (len(pairs) - ties_second)) ** 0.5
    return concordance / free if free else 0.0


def scores(measure: ContextMeasure, question: Question) -> Cell:
    scores = measure(list(POINTS.values()), question)
    return {name: one.score for name, one in zip(POINTS, scores, strict=True)}


def means(cells: Sequence[Cell]) -> list[float]:
    return [mean([cell[name] for cell in cells]) for name in POINTS]


def spread(questions: Sequence[Question], count: int) -> list[Question]:
    """Return `count` questions, spread evenly over the list."""
    return [questions[i * len(questions) // count] for i in range(min(count, len(questions)))]


def compare(name: str, index: Index, cells: Cells, count: int, budget: int) -> list[str]:
    made = make_questions(index, count)
    kinds = {f"made-{number:04}": question.kind for number, question in enumerate(made, 1)}
    real = spread([q for q in load_question_set(bench_folder() / name).questions if q.evidence], count)
    measure = ContextMeasure(index, "evidence", budget)

    def known(source: str, questions: Sequence[Question]) -> list[Cell]:
        work: Callable[[Question], Callable[[], Cell]] = lambda question: partial(scores, measure, question)  # noqa: E731
        return [cells(f"{name} {source} {budget} {q.id} {q.text}", work(q)) for q in questions]

    asked = [question.as_question(number) for number, question in enumerate(made, 1)]
    # Generated questions first, so that an interrupted command has a partial result.
    of_made, of_real = known(index.chat.spec if index.chat else "made", asked), known("real", real)
    truth = means(of_real)
    by_kind = []
    for kind in dict.fromkeys(kinds.values()):
        own = [cell for question, cell in zip(asked, of_made, strict=True) if kinds[question.id] == kind]
        by_kind.append(f"{kind} {kendall(means(own), truth):.2f} ({len(own)})")
    halves = means(of_real[::2]), means(of_real[1::2])
    best = max(range(len(truth)), key=means(of_made).__getitem__)
    taus = [
        f"{kendall(*(list(compress(values, chosen)) for values in pair)):.2f}"
        for chosen in ([True] * len(POINTS), [point.startswith("weave") for point in POINTS])
        for pair in ((means(of_made), truth), halves)
    ]
    figures = (*taus, f"{list(POINTS)[best]}: {max(truth) - truth[best]:.3f}")
    return [name, str(len(made)), str(len(real)), *figures, ", ".join(by_kind)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--cache", type=Path, required=True, help="Folder of the indexes")
    parser.add_argument("--cells", type=Path, help="File of finished questions (default: in --cache)")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--budget", type=int, default=384)
    parser.add_argument("--chat", default="extractive")
    options = parser.parse_args()
    cells = Cells(options.cells or options.cache / "made.jsonl")
    of_weave = ["tau of weave", "halves of weave"]
    head = ["set", "made", "real", "tau", "tau of two halves", *of_weave, "best by made questions: its loss", "by kind"]
    rows = []
    for name in options.sets.split(","):
        index = mergewise.open(options.cache / name, views=VIEWS, chat=options.chat)
        if not len(index):
            index.add(load_question_set(bench_folder() / name).documents)
        rows.append(compare(name, index, cells, options.questions, options.budget))
        print(" | ".join(rows[-1]), flush=True)
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
