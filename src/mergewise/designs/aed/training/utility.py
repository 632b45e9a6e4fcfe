"""From labels to a predictor in a folder: trained, judged on held-out questions, exported, with a card that says all of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mergewise.designs.aed.training import curve
from mergewise.designs.aed.training.bases import check_base, check_packages
from mergewise.designs.aed.training.candidates import Kind
from mergewise.designs.aed.training.exporting import export
from mergewise.designs.aed.training.judging import RankingQuality, interval, judge
from mergewise.designs.aed.training.labels import LabelStore, write_whole
from mergewise.designs.aed.training.scoring import count_cut, question_utilities
from mergewise.designs.aed.training.trainer import History, OnProgress, Trained, TrainSettings, digest, train
from mergewise.errors import UsageError

RESULT, CARD, PICTURE, STATE = "training.json", "README.md", "curve.svg", "checkpoint"
CHECKED = 8  # candidates by which the exported model is compared with the trained one
_DROPPED = {"differing": "all candidates alike", "solved": "all candidates alike, or none that the reader can use"}
MEASURES = {"kl": "KL to the teacher", "rho": "rank correlation", "first": "use of the first"}


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """What `training.json` holds: parameters, how it went, and on held-out questions the means and differences.

    `candidates` are all, those whose beginning alone the reader was given, and those whose beginning alone the predictor reads.
    """

    parameters: Mapping[str, Any]
    questions: Mapping[str, int]
    candidates: Mapping[str, int]
    history: Mapping[str, Any]
    held_out: Mapping[str, Mapping[str, float]]
    differences: Mapping[str, Mapping[str, Sequence[float]]]
    shift: float
    apart: float


def train_utility(
    labels: LabelStore,
    kinds: Sequence[Kind],
    base: str,
    settings: TrainSettings,
    out: Path,
    progress: OnProgress | None = None,
) -> TrainingReport:
    """The predictor in `out`, which `cross-encoder:PATH` takes. Killed, the next call goes on where it was.

    A folder that holds the predictor of the same labels and parameters is left as it is; UsageError where it holds another one.
    """
    check_base(base)
    questions = labels.read(kinds)
    if not questions:
        raise UsageError(
            f"{labels.folder} has no question with labels of {', '.join(kinds)}",
            "label some first: QUESTIONS --chat hf:PATH",
        )
    parameters = {
        "base": base,
        "labels": digest(questions),
        "made_with": {kind: {k: v for k, v in labels.manifest(kind).items() if k != "sets"} for kind in kinds},
        **asdict(settings),
    }
    known = _standing_report(out / RESULT)
    if known is not None:
        if known.parameters == json.loads(json.dumps(parameters)):
            shutil.rmtree(out / STATE, ignore_errors=True)  # a kill may have come before it went
            return known
        raise UsageError(f"{out} holds a predictor of other labels or parameters", "name another --out")
    check_packages()
    trained = train(questions, base, settings, out / STATE, progress)
    return _export_with_report(trained, parameters, settings, out)


def _export_with_report(
    trained: Trained, parameters: Mapping[str, Any], settings: TrainSettings, out: Path
) -> TrainingReport:
    held_out = trained.split.held_out
    found = _ranking_qualities(trained, settings)
    sample = trained.split.learnt[0]
    texts = [one.candidate.predictor_text for one in sample.candidates[:CHECKED]]
    apart = export(trained.base, out, settings.tokens, sample.example.text, texts)
    used = [*trained.split.learnt, *held_out]
    labelled = [one.candidate for question in used for one in question.candidates]
    report = TrainingReport(
        parameters,
        {"learnt": len(trained.split.learnt), "held_out": len(held_out), "dropped": trained.split.dropped},
        {
            "all": len(labelled),
            "cut_for_reader": sum(candidate.cut for candidate in labelled),
            "cut_by_predictor": count_cut(trained.base, used, settings.tokens),
        },
        asdict(trained.history),
        {name: one.means() for name, one in found.items()},
        {name: _differences(found["trained"], one) for name, one in found.items() if name != "trained"},
        trained.shift,
        apart,
    )
    title = f"{parameters['base']}, {len(trained.split.learnt)} questions, {len(held_out)} held out"
    figures = json.dumps(asdict(report), indent=1) + "\n"
    for name, text in {PICTURE: curve.svg(trained.history, title), CARD: card(report), RESULT: figures}.items():
        write_whole(out / name, partial(Path.write_text, data=text, encoding="utf-8"))
    shutil.rmtree(out / STATE)
    return report


def _ranking_qualities(trained: Trained, settings: TrainSettings) -> dict[str, RankingQuality]:
    """The trained and the untrained network, and the scores of the search (those of generated passages are 0)."""
    held_out = trained.split.held_out
    if not held_out:
        return {}
    scores = [[labelled.candidate.score for labelled in one.candidates] for one in held_out]
    after = question_utilities(trained.base, held_out, settings.tokens)
    return {name: judge(held_out, values) for name, values in
            (("trained", after), ("untrained", trained.before), ("search", scores))}  # fmt: skip


def _differences(trained: RankingQuality, other: RankingQuality) -> dict[str, list[float]]:
    """What the trained one has more than the other, with the interval, by measure."""
    pairs = {name: zip(getattr(trained, name), getattr(other, name), strict=True) for name in MEASURES}
    less = {name: [None if a is None or b is None else a - b for a, b in both] for name, both in pairs.items()}
    return {name: list(interval(values)) for name, values in less.items()}


def card(report: TrainingReport) -> str:
    """The README of the folder."""
    counts, candidates, history = report.questions, report.candidates, History(**report.history)
    made = "\n".join(f"- `{name}`: {json.dumps(value)}" for name, value in report.parameters.items())
    levelled = (
        f" To the bias of the head {report.shift:+.4f} was added, so that 0 is the use of no context."
        if report.shift
        else ""
    )
    chosen = (
        f" The weights are those of epoch {history.best + 1} of {len(history.held_out)}."
        if report.parameters["patience"] and history.best is not None
        else ""
    )
    return f"""\
# A utility predictor

It tells how much a text helps a reader to answer a question (AED-RAG, S of Eq. 6). Use it as
`--reranker cross-encoder:` and this folder: it ranks passages, and the strategy `aed` weighs its streams by it.

Trained on {counts["learnt"]} questions by `mergewise train utility`; {counts["held_out"]} others were held out, and
{counts["dropped"]} had nothing to teach ({_DROPPED[report.parameters["questions"]]}).{chosen}{levelled}
Of {candidates["all"]} candidates the predictor reads no more than the beginning of {candidates["cut_by_predictor"]}
({report.parameters["tokens"]} tokens with the question); the reader was given that of {candidates["cut_for_reader"]}.
`model.onnx` and `model.safetensors` differ by {report.apart:.1g} at most.

![learning curve]({PICTURE})

## Held-out questions

{_table(report)}

The use of a candidate is log(C_0 + 1) - log(C + 1), with C its contrastive perplexity and C_0 that of no context; that of
the best candidate is {report.held_out.get("trained", {}).get("best", 0.0):.3f}. Intervals are of 95 %, over questions.

## Parameters

{made}
"""


def _table(report: TrainingReport) -> str:
    if not report.held_out:
        return "None were held out."
    lines = ["| | " + " | ".join(MEASURES.values()) + " |", "| --- " * (len(MEASURES) + 1) + "|"]
    for name, means in report.held_out.items():
        values = ["-" if name == "search" and key == "kl" else f"{means[key]:.3f}" for key in MEASURES]
        lines.append(f"| {name} | {' | '.join(values)} |")
    for name, differences in report.differences.items():
        values = [
            "-" if name == "search" and key == "kl" else "{:+.3f} ({:+.3f} to {:+.3f})".format(*differences[key])
            for key in MEASURES
        ]
        lines.append(f"| trained, more than {name} | {' | '.join(values)} |")
    return "\n".join(lines)


def _standing_report(path: Path) -> TrainingReport | None:
    if not path.exists():
        return None
    try:
        return TrainingReport(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "name another --out") from None
