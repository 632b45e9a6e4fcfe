"""Tables 1 and 2 of AED-RAG, Figures 1 and 3, and the costs of Tables 7 and 8, on real questions, by a real model.

python -m benchmarks.answers_aed run      --chat hf:PATH --utility cross-encoder:PATH [--limit 50] [--methods table-1,beta]
python -m benchmarks.answers_aed tables   the same options: what is known so far, no question is asked
python -m benchmarks.answers_aed costs    the same options: seconds and tokens of --limit questions, one at a time
python -m benchmarks.answers_aed sources  the same options: which source makes the gold answer likeliest (Figure 1)

Questions are of the second halves of `--sets`. Every answer is kept under `--keep` as soon as its batch is done, so a run that
was stopped goes on where it was; of `--together` questions all methods are asked before the next ones, so that what is known is
of the same questions. What the model writes by itself is written once for all methods, and prompts that methods of one mode
share are read once: seconds come from `costs`, which shares nothing. The reranker of the tables is `--reranker`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import mergewise
from benchmarks.cells import Cells, averaged
from benchmarks.corpus import bench_folder
from mergewise.concurrency import run as awaited
from mergewise.designs.aed.ensemble import prompts
from mergewise.designs.aed.units import map_triplets, retrieve
from mergewise.engine import Index
from mergewise.evaluate.answering import Answering, Asking, MethodAnswers
from mergewise.evaluate.loaders import load_task
from mergewise.evaluate.methods import GROUPS, METHODS, methods_of
from mergewise.evaluate.metrics import mean
from mergewise.evaluate.run import chosen_questions
from mergewise.evaluate.statistics import bootstrap, paired_interval, wilson
from mergewise.evaluate.tasks import Question, Task
from mergewise.generate.sources import Source
from mergewise.models import load_chat, load_reranker
from mergewise.models.cppl import cppl
from mergewise.models.decoding import Decoded
from mergewise.prompting.quoting import code_for
from mergewise.protocols import ChatModel, Reranker

SETS = "hotpotqa-long,2wiki,squad"
BUDGET = 4096  # no method comes near
STANDARD = "rag-5"
FIRST = "gainrag-1"  # writes the backgrounds of a batch, which others then find
SOURCES = ("passage", "triplets", "memory")
PASSAGES = 5  # whose sources are compared


@dataclass(frozen=True, slots=True)
class Campaign:
    """One set: its questions, and the answers of each method."""

    task: Task
    questions: Sequence[Question]
    answering: Answering
    answered: Mapping[str, MethodAnswers]
    written: dict[str, Decoded] = field(default_factory=dict)

    def batches(self, size: int) -> Iterator[Sequence[Question]]:
        for first in range(0, len(self.questions), size):
            yield self.questions[first : first + size]

    def known(self) -> list[Question]:
        """The questions that all methods have answered."""
        return [q for q in self.questions if all(q in one.kept for one in self.answered.values())]


@dataclass(frozen=True, slots=True)
class CampaignModels:
    chat: ChatModel
    reranker: Reranker | None
    utility: Reranker | None


def campaign(
    name: str, models: CampaignModels, options: argparse.Namespace, together: int, apart: str = ""
) -> Campaign:
    task = load_task(bench_folder() / name)
    index = mergewise.open(options.cache / name, views=("leaf", "triplet"), chat=models.chat)
    index.add(task.documents)
    asking = Asking(options.max_tokens, together, models.reranker, models.utility, options.keep / f"answers{apart}")
    written: dict[str, Decoded] = {}
    answering = Answering(index, task, asking, None if apart else written)
    questions = chosen_questions(task, "second", options.limit)
    answered = {method.name: answering.kept_answers(method, BUDGET) for method in methods_of(options.methods)}
    return Campaign(task, questions, answering, answered, written)


def groups_of(answered: Mapping[str, MethodAnswers]) -> list[list[MethodAnswers]]:
    """What writes backgrounds first; then the methods of a mode together, which share many prompts."""
    groups: dict[str, list[MethodAnswers]] = {}
    for name, one in sorted(answered.items(), key=lambda item: item[0] != FIRST):
        groups.setdefault(name if name == FIRST else one.mode, []).append(one)
    return list(groups.values())


def run(models: CampaignModels, options: argparse.Namespace) -> None:
    for name in options.sets.split(","):
        asked = campaign(name, models, options, options.together)
        for number, batch in enumerate(asked.batches(options.together), 1):
            for group in groups_of(asked.answered):
                missing, began = sum(len(one.missing(batch)) for one in group), perf_counter()
                if missing:
                    asked.answering.complete(group, batch)
                    took = (perf_counter() - began) / missing
                    title = ", ".join(one.method.name for one in group)
                    print(f"{name} batch {number}: {took:.2f} s an answer of {title}", flush=True)
            asked.written.clear()
        for one in asked.answered.values():
            for question, error in one.failures.items():
                print(f"{name}: {one.method.name} failed on {question}: {error}", flush=True)
    tables(models, options)


def tables(models: CampaignModels, options: argparse.Namespace) -> None:
    for name in options.sets.split(","):
        asked = campaign(name, models, options, options.together)
        known = asked.known()
        if not known:
            print(f"\n{name}: no question is answered by all methods")
            continue
        print(f"\n### {name}, {len(known)} questions\n")
        for group in GROUPS.values():
            chosen = [asked.answered[method.name] for method in group if method.name in asked.answered]
            if chosen:
                _table(chosen, asked.answered.get(STANDARD), known)


def _table(chosen: Sequence[MethodAnswers], standard: MethodAnswers | None, questions: Sequence[Question]) -> None:
    print(
        "| method | EM (relaxed) | F1 | Avg | EM (strict) | accuracy | F1 less that of standard RAG, k = 5 | read | written |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for one in chosen:
        scores = one.scores(questions)
        f1, relaxed = [score.f1 for score in scores], mean([score.relaxed_em for score in scores])
        against = "" if standard is None or standard is one else _difference(one, standard, questions)
        given = [one.kept[question] for question in questions]
        cells = [
            one.method.name,
            f"{_percent(relaxed)} {_range(wilson(relaxed, len(questions)))}",
            f"{_percent(mean(f1))} {_range(bootstrap(f1))}",
            _percent((relaxed + mean(f1)) / 2),
            _percent(mean([score.em for score in scores])),
            _percent(mean([score.accuracy for score in scores])),
            against,
            f"{mean([float(g.input_tokens) for g in given]):.0f}",
            f"{mean([float(g.output_tokens) for g in given]):.0f}",
        ]
        print(f"| {' | '.join(cells)} |")
    print()


def _difference(one: MethodAnswers, standard: MethodAnswers, questions: Sequence[Question]) -> str:
    """With a star where the interval holds no 0: n carries it."""
    ours, theirs = ([score.f1 for score in answered.scores(questions)] for answered in (one, standard))
    bounds = paired_interval(ours, theirs)
    star = " *" if bounds[0] > 0 or bounds[1] < 0 else ""
    return f"{100 * (mean(ours) - mean(theirs)):+.1f} {_range(bounds)}{star}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _range(bounds: tuple[float, float]) -> str:
    return f"[{100 * bounds[0]:.1f}, {100 * bounds[1]:.1f}]"


# -- costs


def costs(models: CampaignModels, options: argparse.Namespace) -> None:
    """Tables 7 and 8: each method by itself, one question at a time."""
    print(
        "| set | method | seconds | of these for the answer | read | written |\n| --- | --- | --- | --- | --- | --- |"
    )
    for name in options.sets.split(","):
        asked = campaign(name, models, options, 1, "-one-by-one")
        for one in asked.answered.values():
            asked.answering.complete([one], asked.questions)
            given = [one.kept[question] for question in asked.questions if question in one.kept]
            means = averaged(
                [
                    {"s": g.seconds, "a": g.answer_seconds, "in": float(g.input_tokens), "out": float(g.output_tokens)}
                    for g in given
                ]
            )
            row = f"{means['s']:.2f} | {means['a']:.2f} | {means['in']:.0f} | {means['out']:.0f}" if given else "failed"
            print(f"| {name} | {one.method.name} | {row} |", flush=True)


# -- Figure 1


def sources(models: CampaignModels, options: argparse.Namespace) -> None:
    """The share of questions whose gold answer is likeliest (least CPPL) from a passage, from triplets, from the model itself."""
    print("| set | questions | passage | triplets | memory |\n| --- | --- | --- | --- | --- |")
    for name in options.sets.split(","):
        asked = campaign(name, models, options, options.together)
        cells = Cells(options.keep / "sources.jsonl")
        index = asked.answering.index
        wins: list[str] = []
        for question in asked.questions:
            key = f"{name} {question.id} {models.chat.identity}"
            least = cells(key, partial(least_of_each, index, question))
            wins.append(min(least, key=lambda source: least[source]))
        shares = [wins.count(source) / len(wins) for source in SOURCES]
        told = " | ".join(f"{_percent(s)} {_range(wilson(s, len(wins)))}" for s in shares)
        print(f"| {name} | {len(wins)} | {told} |", flush=True)


def least_of_each(index: Index, question: Question) -> dict[str, float]:
    """The least CPPL of each source: of the passages, of their triplet sets, and of what the model writes itself."""
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
    asked = [index.causal.prompt(prompts.answer_from_all(question.text, [text], code)) for text in texts]
    alone = index.causal.prompt(prompts.answer(question.text, [], code))
    values = cppl(index.causal, alone, asked, list(question.answers))
    least: dict[str, float] = {}
    for kind, value in zip(kinds, values.tolist(), strict=True):
        least[kind] = min(least.get(kind, value), value)
    return least


COMMANDS = {"run": run, "tables": tables, "costs": costs, "sources": sources}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=COMMANDS)
    parser.add_argument("--chat", required=True, help="hf:PATH")
    parser.add_argument("--utility", default="none", help="the trained predictor; none: the cosines of the embedder")
    parser.add_argument("--reranker", default="none", help="a reranker that nobody trained for this; none: the cosines")
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--methods", default="table-1,table-2,beta", help=f"of {', '.join([*GROUPS, *METHODS])}")
    parser.add_argument("--limit", type=int, default=50, help="questions of a set")
    parser.add_argument("--together", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--cache", type=Path, default=Path("answers.cache"), help="the indexes")
    parser.add_argument("--keep", type=Path, default=Path("answers.kept"))
    options = parser.parse_args()
    chat = load_chat(options.chat)
    if chat is None:
        parser.error("--chat names a model: hf:PATH")
    models = CampaignModels(chat, load_reranker(options.reranker), load_reranker(options.utility))
    COMMANDS[options.what](models, options)


if __name__ == "__main__":
    main()
