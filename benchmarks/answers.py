"""Answers without a model: weights of `generate.extractive` and `generate.confidence`, and how often answers are right.

python -m benchmarks.answers fit       fit the weights on the first halves, with and without vectors; needs --manuals
python -m benchmarks.answers errors    right and wrong answers by level of confidence, on --split
python -m benchmarks.answers show      print each question over the manuals with its answer, for reading
python -m benchmarks.answers adversarial   sure and wrong answers to questions with false premises, unknown names and near
                                       misses, by kind, and the curve of risk and coverage as adversarial.csv in the cache;
                                       its corpora in other languages are in --manuals: benchmarks/manuals/README.md

An answer is right if its quotations contain a gold answer from the gold's place, or nine tenths of a gold's spans.
Unanswerable questions over the manuals measure how often an answer is invented. Multi-hop questions (2wiki) keep the ranking from
preferring a sentence that only leads to the answer.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import mergewise
from benchmarks import manuals, sets
from benchmarks.corpus import bench_folder
from benchmarks.manuals import Asked
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.run import chosen_questions
from mergewise.evaluate.tuning.weights import logistic
from mergewise.evaluate.words import normalise
from mergewise.generate import extractive
from mergewise.generate.confidence import FOUND, SURE, SURE_ABROAD, SURE_WITHOUT_VECTORS, Signals
from mergewise.generate.quotable_texts import QuotableTexts
from mergewise.protocols import DoubleArray
from mergewise.text.terms import content_terms
from mergewise.types import Answer, Span

SETS = ("manuals", "squad", "covidqa", "2wiki")
RANKED = SETS[:3]  # sets for fitting the ranking of sentences
LANGUAGES = (
    (
        "manuals-fr",
        "handbook-fr",
        "handbook-de",
        "handbook-pt",
        "fastapi-de",
        "fastapi-es",
        "debian-faq-de",
        "debian-faq-nl",
        "debian-reference-es",
    ),
    ("xquad-de", "xquad-es"),
)
RIDGE = 1e-2

Rows: TypeAlias = tuple[DoubleArray, DoubleArray, float]


def load_asked(name: str, cache: Path, embedder: str, split: str, limit: int) -> tuple[Index, list[Asked]]:
    """Open the index of a set and load its questions."""
    if name == "manuals":
        return manuals.opened(cache, embedder), manuals.load("questions", split)
    task = load_question_set(bench_folder() / name)
    index = mergewise.open(cache / (name if embedder == "minilm" else f"{name}-{embedder}"), embedder=embedder)
    index.add(task.documents)
    questions = chosen_questions(task, split, limit)  # type: ignore[arg-type]
    return index, [Asked(question, (question.evidence,), (), "", split) for question in questions]


# -- weights


def rows_of(index: Index, asked: Sequence[Asked], names: Sequence[str]) -> tuple[DoubleArray, DoubleArray]:
    """Return the features of the sentences of each context, and a label for each: 1 if the sentence answers."""
    features, answers = [], []
    for one in asked:
        text = one.question.text
        for evidence in index.context(text).evidence or ():
            known = extractive.features(evidence, content_terms(text))
            features.append([known[name] for name in names])
            answers.append(any(_share_held([evidence.span], gold) >= 0.5 for gold in one.golds))
    return np.array(features), np.array(answers, float)


def fit(cache: Path, limit: int, corpora: Path | None) -> None:
    for embedder, standing in (("minilm", extractive.WITH_VECTORS), ("none", extractive.WITHOUT_VECTORS)):
        names = [name for name in standing if name != "bias"]
        loaded = [load_asked(name, cache, embedder, "dev", limit) for name in SETS]
        rows = [(*rows_of(index, asked, names), len(asked)) for index, asked in loaded[: len(RANKED)]]
        _print_weights(f"{embedder}, ranking", names, logistic(rows))
        vectors = embedder != "none"
        # a question may be in a language that the embedder does not know
        groups = [
            [one for one in judged(index, asked) if (one.signals.cosine is not None) == vectors]
            for index, asked in loaded
        ]
        found_names = [name for name in FOUND if name != "bias" and (name != "cosine" or vectors)]
        _print_weights(f"{embedder}, found", found_names, fit_found(groups, found_names))
        _, *sure_names = SURE if vectors else SURE_WITHOUT_VECTORS
        _print_weights(f"{embedder}, sure", sure_names, fit_sure(groups, sure_names))
    # MiniLM knows English alone, so questions in other languages are answered without vectors
    hostile = manuals.load_adversarial("dev")
    of_corpora = {
        corpus: [_as_asked(row) for row in hostile if row["corpus"] == corpus] for corpus in _corpora(hostile)
    }
    groups = [
        [one for name, asked in of_corpora.items() for one in judged(_opened(name, cache, "minilm", corpora), asked)],
        *(
            [
                one
                for name in names
                for one in judged(_opened(name, cache, "minilm", corpora), sets.asked(name, "dev", 60))
            ]
            for names in LANGUAGES
        ),
    ]
    _, *names = SURE_ABROAD
    abroad = [[one for one in group if one.signals.abroad and one.signals.cosine is None] for group in groups]
    _print_weights("abroad, sure", names, fit_sure(abroad, names))


def _as_asked(row: Mapping[str, Any]) -> Asked:
    """Return a row of the adversarial questions, whose gold has no place."""
    question = Question(row["id"], row["question"], tuple(row["answers"]), ())
    return Asked(question, ((),) if row["answers"] else (), (), row["kind"], row["half"])


def _corpora(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["corpus"] for row in rows))


def _opened(corpus: str, cache: Path, embedder: str, corpora: Path | None) -> Index:
    return sets.opened("questions" if corpus == "manuals" else corpus, cache, corpora, embedder)


def _print_weights(what: str, names: Sequence[str], weights: DoubleArray) -> None:
    print(
        what,
        {name: round(float(weight), 2) for name, weight in zip(("bias", *names), weights, strict=True)},
        flush=True,
    )


# -- levels


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer with its signals. `right`: its quotations hold the gold. `first_right`: the first quotation alone does."""

    asked: Asked
    answer: Answer
    signals: Signals
    right: bool
    first_right: bool

    @property
    def level(self) -> str:
        return "sure" if self.answer.sure else "likely" if self.answer.found else "nothing"


def judged(index: Index, asked: Sequence[Asked]) -> Iterator[Judged]:
    for one in asked:
        answer = index.ask(one.question.text, mode="extractive")
        quoted = extractive.quotations_of(answer.context, QuotableTexts(index.document, answer.context))
        if quoted is None:
            continue
        first = replace(answer, citations=quoted.quotations[0].citations)
        yield Judged(one, answer, quoted.signals, is_right(answer, one), is_right(first, one))


def fit_found(groups: Sequence[Sequence[Judged]], names: Sequence[str]) -> DoubleArray:
    """Fit the weights of `confidence.FOUND`, with the bias in front.

    Positives are the right answers, negatives the answers to unanswerable questions; wrong answers are left out. Every set has
    the same weight; the unanswerable questions weigh twice as much.
    """
    answered = [_rows([one for one in judged if one.right], names, 1.0) for judged in groups]
    absent = [one for judged in groups for one in judged if not one.asked.answerable]
    return logistic([*answered, _rows(absent, names, 0.0, weight=2)], RIDGE)


def fit_sure(groups: Sequence[Sequence[Judged]], names: Sequence[str]) -> DoubleArray:
    """Fit the weights of `confidence.SURE`, with the bias in front, on the answers that no rule keeps from being sure.

    Positives are the right answers. Every group has the same weight.
    """
    return logistic([_rows([one for one in judged if one.signals.sure()], names) for judged in groups], RIDGE)


def _rows(judged: Sequence[Judged], names: Sequence[str], label: float | None = None, weight: int = 1) -> Rows:
    """Return signals, labels (default: the answer is right), and the number of questions divided by `weight`."""
    x = np.array([[getattr(one.signals, name) for name in names] for one in judged], float)
    y = np.array([one.right if label is None else label for one in judged], float)
    return x, y, len(judged) / weight


def is_right(answer: Answer, asked: Asked) -> bool:
    quoted = [citation.span for citation in answer.citations]
    said = normalise(" ".join(citation.text for citation in answer.citations))
    for gold in asked.golds:
        held = _share_held(quoted, gold) if gold else 0.5  # the place does not count
        if held >= 0.9 or (asked.parts and held > 0 and all(normalise(part) in said for part in asked.parts)):
            return True
        if held > 0 and any(normalise(text) in said for text in asked.question.answers):
            return True
    return False


def _share_held(spans: Sequence[Span], gold: Sequence[tuple[Span, str]]) -> float:
    """Return the share of the gold's characters in these spans, which must not overlap."""
    shared = sum(
        max(0, min(span.end, piece.end) - max(span.start, piece.start))
        for piece, _ in gold
        for span in spans
        if span.doc_id == piece.doc_id
    )
    return shared / sum(len(piece) for piece, _ in gold)


def errors(cache: Path, split: str, limit: int, embedder: str) -> None:
    """Print shares of the answerable questions and counts of the unanswerable ones, by level of confidence."""
    print("| | right, sure | wrong, sure | right, likely | wrong, likely | nothing (would be right) | ", end="")
    print("first right of sure | first right | right | characters | unanswerable: sure / likely / nothing |")
    for name in SETS:
        results = list(judged(*load_asked(name, cache, embedder, split, limit)))
        answerable = [result for result in results if result.asked.answerable]
        absent = Counter(result.level for result in results if not result.asked.answerable)
        counts = Counter((result.level, result.right) for result in answerable)
        share = {key: count / len(answerable) for key, count in counts.items()}
        cells = [f"{share.get((level, right), 0):.3f}" for level in ("sure", "likely") for right in (True, False)]
        nothing = share.get(("nothing", True), 0)
        cells.append(f"{nothing + share.get(('nothing', False), 0):.3f} ({nothing:.3f})")
        sure = [result.first_right for result in answerable if result.level == "sure"]
        cells.append(f"{np.mean(sure):.2f}" if sure else "-")
        cells += [
            f"{np.mean([getattr(result, which) for result in answerable]):.3f}" for which in ("first_right", "right")
        ]
        lengths = [sum(len(citation.text) for citation in result.answer.citations) for result in answerable]
        cells.append(f"{np.mean(lengths):.0f}")
        cells.append(" / ".join(str(absent[level]) for level in ("sure", "likely", "nothing")))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def show(cache: Path, split: str) -> None:
    for result in judged(*load_asked("manuals", cache, "minilm", split, 0)):
        verdict = "right" if result.right else "WRONG" if result.asked.answerable else "absent"
        found, sure = result.signals.found(), result.signals.sure()
        print(
            f"--- {result.asked.question.id} {verdict} found {found:.2f} sure {sure:.2f}  {result.asked.question.text}"
        )
        print(result.answer.text)
        if not result.right and result.asked.answerable:
            print("gold:", " … ".join(text for _, text in result.asked.golds[0]))


# -- adversarial questions


def adversarial(cache: Path, split: str, embedder: str, corpora: Path | None) -> None:
    """Print the outcomes of the adversarial questions and of the answerable ones next to them, and the curve of both."""
    rows = manuals.load_adversarial(split)  # type: ignore[arg-type]
    counts: dict[tuple[str, str], Counter[str]] = {}
    curve: list[tuple[float, bool, bool]] = []
    for corpus in _corpora(rows):
        index = _opened(corpus, cache, embedder, corpora)
        for row in rows:
            if row["corpus"] != corpus:
                continue
            answer = index.ask(row["question"], mode="extractive")
            texts = [normalise(citation.text) for citation in answer.citations]
            right = any(normalise(gold) in text for gold in row["answers"] for text in texts)
            quoted = extractive.quotations_of(answer.context, QuotableTexts(index.document, answer.context))
            level = "sure" if answer.sure else "likely" if answer.found else "nothing"
            contradicted = answer.text.startswith("The documents say otherwise")
            outcome = f"{level}, {'right' if right else 'wrong'}" if row["answers"] else level
            counts.setdefault((row["kind"], row["language"]), Counter()).update(
                [outcome, *["contradicted"] * contradicted]
            )
            curve.append((quoted.signals.sure() if quoted and answer.found else 0.0, right, bool(row["answers"])))
            print(f"{row['id']} {row['kind']}: {outcome}{', contradicted' * contradicted}  {row['question']}")
    _print_outcomes(counts)
    _write_curve(curve, cache / "adversarial.csv")


def _print_outcomes(counts: Mapping[tuple[str, str], Counter[str]]) -> None:
    print("| kind | language | questions | sure, right | sure, wrong | wrongly refused | contradicted |")
    kinds = {kind for kind, _ in counts}
    totals = {(kind, "all"): sum((c for (k, _), c in counts.items() if k == kind), Counter()) for kind in kinds}
    hostile = sum((c for (kind, _), c in totals.items() if kind != "answerable"), Counter[str]())
    for (kind, language), count in [*sorted((counts | totals).items()), (("all adversarial", "all"), hostile)]:
        total = sum(number for outcome, number in count.items() if outcome != "contradicted")
        cells = count["sure, right"], count["sure, wrong"] + count["sure"], count["nothing, right"]
        print(f"| {kind} | {language} | {total} | {' | '.join(map(str, cells))} | {count['contradicted']} |")


def _write_curve(curve: Sequence[tuple[float, bool, bool]], path: Path) -> None:
    """Write, for each threshold of `sure`, the coverage of answerable questions and the share of wrong answers."""
    answerable = max(1, sum(asked for _, _, asked in curve))
    lines = ["threshold,coverage,sure_right,risk,adversarial_sure"]
    for step in range(21):
        sure = [one for one in curve if one[0] >= step / 20]
        right = sum(right for _, right, _ in sure)
        coverage, risk = sum(asked for *_, asked in sure) / answerable, 1 - right / max(1, len(sure))
        hostile = sum(not asked for *_, asked in sure)
        lines.append(f"{step / 20:.2f},{coverage:.3f},{right / answerable:.3f},{risk:.3f},{hostile}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fit", "errors", "show", "adversarial"))
    parser.add_argument("--split", default="dev", choices=("dev", "test", "all"))
    parser.add_argument("--limit", type=int, default=150, help="Questions per question set")
    parser.add_argument("--embedder", default="minilm", choices=("minilm", "e5", "none"))
    parser.add_argument("--cache", type=Path, default=Path("weave.cache"))
    parser.add_argument("--manuals", type=Path, help="folder with the manuals")
    options = parser.parse_args()
    if options.what == "adversarial":
        adversarial(options.cache, options.split, options.embedder, options.manuals)
    elif options.what == "fit":
        fit(options.cache, options.limit, options.manuals)
    elif options.what == "errors":
        errors(options.cache, options.split, options.limit, options.embedder)
    else:
        show(options.cache, options.split)


if __name__ == "__main__":
    main()
