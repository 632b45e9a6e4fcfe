"""Labels of `mergewise train utility`: which source helps the reader most, and whether rankings predict it.

python -m benchmarks.labels LABELS [--reranker cross-encoder:PATH,...]

LABELS is the folder given to `--labels`, or `labels` in the folder given to `--out`. The first table gives for each set the
share of questions whose gold answer is likeliest with a passage, with a set of triplets, or with the model's own background
(AED-RAG, Figure 1, over all candidates). It also compares the use of candidates that contain the gold answer with the use of
the others. The use of a candidate is log(C_0 + 1) - log(C + 1), with C its CPPL and C_0 the CPPL without a context. The second
table compares the orders of the search, the cosines of the shipped embedder and each `--reranker` with an order that knows
which candidates contain the gold answer. Intervals are 95 %.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from mergewise.designs.aed.training.candidates import KINDS
from mergewise.designs.aed.training.distilling import gains
from mergewise.designs.aed.training.judging import interval, judge
from mergewise.designs.aed.training.labels import Label, LabelledQuestion, LabelStore
from mergewise.evaluate.metrics import mean
from mergewise.evaluate.statistics import wilson
from mergewise.evaluate.words import normalise
from mergewise.models import load_embedder, load_reranker
from mergewise.models.utilities import utilities_of
from mergewise.protocols import UtilityPredictor

SOURCES = {"passages": "a passage", "triplets": "triplets", "generated": "its own background"}

Ranking = Callable[[LabelledQuestion], Sequence[float]]


def by_set(questions: Iterable[LabelledQuestion]) -> dict[str, list[LabelledQuestion]]:
    sets: dict[str, list[LabelledQuestion]] = defaultdict(list)
    for question in questions:
        sets[question.example.set].append(question)
    return dict(sorted(sets.items()))


def holds(question: LabelledQuestion, candidate: Label) -> bool:
    """Return True if a gold answer appears in the candidate, as whole words."""
    text = normalise(candidate.candidate.predictor_text)
    return any(normalise(answer) in text for answer in question.example.answers)


def best_sources(questions: Sequence[LabelledQuestion]) -> dict[str, int]:
    """Count, by kind of candidate, the questions with the least CPPL. Ties go to the first kind."""
    wins = dict.fromkeys(SOURCES, 0)
    for question in questions:
        first = min(question.candidates, key=lambda one: (one.cppl, KINDS.index(one.candidate.kind)))
        wins[first.candidate.kind] += 1
    return wins


def uses(questions: Sequence[LabelledQuestion]) -> dict[bool, list[float]]:
    """Return the uses of the candidates that contain the gold answer (True) and of the others (False)."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for question in questions:
        use = gains([one.cppl for one in question.candidates], question.alone)
        for candidate, value in zip(question.candidates, use.tolist(), strict=True):
            found[holds(question, candidate)].append(value)
    return found


def rankings(rerankers: Sequence[str]) -> dict[str, Ranking]:
    """Return the rankings to compare: the search, the cosines, each reranker, and an order that knows the answer."""
    judges = {"cosine": utilities_of(None, load_embedder("minilm"))}
    judges |= {spec: utilities_of(load_reranker(spec), None) for spec in rerankers}

    def by(judge: UtilityPredictor) -> Ranking:
        return lambda question: judge.utilities(
            question.example.text, [one.candidate.predictor_text for one in question.candidates]
        )

    return {
        "search": lambda question: [one.candidate.score for one in question.candidates],
        **{name: by(judge) for name, judge in judges.items()},
        "holds the answer": lambda question: [
            holds(question, one) + 1e-6 * one.candidate.score for one in question.candidates
        ],
    }


def source_table(sets: Mapping[str, Sequence[LabelledQuestion]]) -> Iterable[str]:
    """Yield the table of sources and uses."""
    yield f"| set | questions | {' | '.join(SOURCES.values())} | use with the answer | helps | use without | helps |"
    yield "| --- " * (len(SOURCES) + 6) + "|"
    for name, questions in sets.items():
        wins, found = best_sources(questions), uses(questions)
        shares = [_share(count, len(questions)) for count in wins.values()]
        cells = [
            cell
            for values in (found[True], found[False])
            for cell in (f"{mean(values):+.2f} ({len(values)})", f"{mean([float(v > 0) for v in values]):.2f}")
        ]
        yield f"| {name} | {len(questions)} | {' | '.join(shares + cells)} |"


def ranking_table(questions: Sequence[LabelledQuestion], orders: Mapping[str, Ranking]) -> Iterable[str]:
    """Yield the table of rankings."""
    yield "| order | rank correlation | use of the first |"
    yield "| --- | --- | --- |"
    best = 0.0
    for name, ranking in orders.items():
        result = judge(questions, [ranking(question) for question in questions])
        best = result.means()["best"]
        cells = ["{:+.3f} ({:+.3f} to {:+.3f})".format(*interval(values)) for values in (result.rho, result.first)]
        yield f"| {name} | {' | '.join(cells)} |"
    yield f"| the best one | | {best:+.3f} |"


def _share(count: int, of: int) -> str:
    low, high = wilson(count / of, of)
    return f"{count / of:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--reranker", default="", help="Rerankers, separated by commas")
    options = parser.parse_args()
    store = LabelStore(options.labels)
    kinds = [kind for kind in KINDS if (options.labels / kind).is_dir()]
    questions = store.read(kinds)
    if not questions:
        parser.error(f"labels not found: {options.labels}")
    print("\n".join(source_table(by_set(questions))), end="\n\n")
    print("\n".join(ranking_table(questions, rankings([spec for spec in options.reranker.split(",") if spec]))))


if __name__ == "__main__":
    main()
