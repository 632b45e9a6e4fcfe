"""Train a predictor on labels: evaluate it on held-out questions, and export it to a folder with its report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from mergewise.designs.aed.training.bases import check_base, check_packages
from mergewise.designs.aed.training.candidates import Kind
from mergewise.designs.aed.training.judging import judge
from mergewise.designs.aed.training.labels import DAMAGE, LabelStore, write_whole
from mergewise.designs.aed.training.scoring import count_cut, question_utilities
from mergewise.designs.aed.training.trainer import OnProgress, Trained, TrainSettings, digest, export, train
from mergewise.errors import UsageError
from mergewise.types import Json, frozen

RESULT, STATE = "training.json", "checkpoint"
CHECKED = 8  # candidates to compare the exported model with the trained one


@frozen
class TrainingReport:
    """The content of `training.json`: parameters, counts, learning curve, and measures on held-out questions.

    Attributes:
        parameters: Base, labels and training settings.
        questions: Number of questions that were learnt, held out and dropped.
        candidates: Number of candidates: all, cut for the reader, and cut by the predictor.
        history: Loss of each step, and held-out KL of each epoch.
        held_out: Means on held-out questions, by ranking and measure.
        shift: Constant added to the bias of the head.
        apart: Largest difference between the utilities of the two exported forms.
    """

    parameters: Json
    questions: Mapping[str, int]
    candidates: Mapping[str, int]
    history: Json
    held_out: Mapping[str, Mapping[str, float]]
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
    """Train a utility predictor, and write it to a folder that `cross-encoder:PATH` can load.

    A call after a crash resumes. If the folder already has the predictor of these labels and parameters, it is not changed.

    Args:
        labels: Labels to learn from.
        kinds: Kinds of candidates to use.
        base: Model to start from: `cross-encoder:PATH`.
        settings: Settings of the training.
        out: Folder to write.
        progress: Called after every step.

    Returns:
        The report, also stored in the folder as `training.json`.

    Raises:
        UsageError: if the base or the labels are unusable, or the folder has another predictor.
        MissingExtra: if a package for training is not installed.
    """
    check_base(base)
    questions = labels.read(kinds)
    if not questions:
        raise UsageError(
            f"no question with labels of {', '.join(kinds)} in {labels.folder}",
            "label questions first: QUESTIONS --chat hf:PATH",
        )
    parameters = {
        "base": base,
        "labels": digest(questions),
        "made_with": {kind: {k: v for k, v in labels.manifest(kind).items() if k != "sets"} for kind in kinds},
        **asdict(settings),
    }
    if (out / RESULT).exists():
        try:
            known = TrainingReport(**json.loads((out / RESULT).read_text("utf-8")))
        except DAMAGE as error:
            raise UsageError(f"cannot read {out / RESULT}: {error}", "choose another --out") from None
        if known.parameters == json.loads(json.dumps(parameters)):
            shutil.rmtree(out / STATE, ignore_errors=True)  # a crash may have left the checkpoint
            return known
        raise UsageError(f"{out} has a predictor of other labels or parameters", "choose another --out")
    check_packages()
    return _export_with_report(train(questions, base, settings, out / STATE, progress), parameters, settings, out)


def _export_with_report(trained: Trained, parameters: Json, settings: TrainSettings, out: Path) -> TrainingReport:
    held_out = trained.split.held_out
    found: dict[str, dict[str, float]] = {}
    if held_out:
        # The trained network, the untrained one, and the scores of the search (0 for generated passages).
        after = question_utilities(trained.base, held_out, settings.tokens)
        scores = [[labelled.candidate.score for labelled in one.candidates] for one in held_out]
        judged = {"trained": after, "untrained": trained.before, "search": scores}
        found = {name: judge(held_out, values) for name, values in judged.items()}
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
        found,
        trained.shift,
        apart,
    )
    figures = json.dumps(asdict(report), indent=1) + "\n"
    write_whole(out / RESULT, lambda part: part.write_text(figures, "utf-8"))
    shutil.rmtree(out / STATE)
    return report
