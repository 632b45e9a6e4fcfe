"""CRAG's evaluator without a model: cosine and coverage against the evidence, on the first halves of the question sets.

python -m benchmarks.crag fit --cache DIR [--limit N]   weights of `designs/crag/strategy.py`, and quantiles of the best scores

`DIR` holds one index per set, named after the set.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import mergewise
from benchmarks.corpus import bench_folder
from mergewise.assemble.passages import search_passages
from mergewise.defaults import PASSAGE_TOKENS
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import QuestionSet
from mergewise.evaluate.run import chosen_questions
from mergewise.evaluate.tuning.weights import logistic
from mergewise.models.record import EmbedderUtilities, WordUtilities
from mergewise.protocols import DoubleArray
from mergewise.text.sections import search_key

SETS = ("2wiki", "covidqa", "hotpotqa-long", "squad")
OUT = "musique-long"
K = 10


def features(index: Index, task: QuestionSet, limit: int) -> tuple[DoubleArray, DoubleArray, int]:
    """Return (passages, 2) cosine and coverage, (passages,) labels (overlap with the evidence), and the number of questions."""
    state = index.state()
    reader = state.reader(None)
    assert state.models.embedder is not None
    cosines, words = EmbedderUtilities(state.models.embedder), WordUtilities()
    rows, held = [], []
    questions = [one for one in chosen_questions(task, "dev") if one.evidence][:limit]
    for question in questions:
        found = search_passages(question.text, reader, K, PASSAGE_TOKENS, None, by="search")
        leaves = reader.sentences(sorted({leaf for one in found for leaf in one.leaves}))
        texts = []
        for one in found:
            first = leaves[one.leaves[0]]
            texts.append(search_key(first.title, first.headings, "".join(leaves[n].text for n in one.leaves)).strip())
        rows += list(zip(cosines.utilities(question.text, texts), words.utilities(question.text, texts), strict=True))
        gold = [span for span, _ in question.evidence or ()]
        held += [any(own.overlaps(span) for own in one.candidate.spans for span in gold) for one in found]
    return np.array(rows), np.array(held, float), len(questions)


def fit(cache: Path, limit: int) -> None:
    known = {}
    for name in (*SETS, OUT):
        with mergewise.open(cache / name, create=False) as index:
            known[name] = features(index, load_question_set(bench_folder() / name), limit)
    for kind, columns in (("cosine and coverage", [0, 1]), ("coverage alone", [1])):
        chosen = [(known[name][0][:, columns], known[name][1], float(known[name][2])) for name in SETS]
        weights = logistic(chosen)
        print(kind, "bias, weights:", np.round(weights, 2).tolist())
        for name in (*SETS, OUT):
            x, held, count = known[name]
            shares = 1 / (1 + np.exp(-(weights[0] + x[:, columns] @ weights[1:])))
            # Every question has the same number of passages, unless the index is small.
            best = np.array([part.max() for part in np.array_split(2 * shares - 1, count)])
            quantiles = np.quantile(best, [0.1, 0.25, 0.5, 0.75, 0.9]).round(2).tolist()
            loss = -(held * np.log(shares) + (1 - held) * np.log(1 - shares)).mean()
            print(
                f"  {name}: {held.mean():.3f} hold evidence, predicted {shares.mean():.3f}, log loss {loss:.3f}; best {quantiles}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["fit"])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=100)
    given = parser.parse_args()
    fit(given.cache, given.limit)
