"""The command `train utility`: labels of candidates by a causal model, and a utility predictor trained on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise.cli.configuration import open_permitted
from mergewise.cli.options import (
    DEFAULT_INDEX,
    LimitOption,
    NamingCommand,
    PlainGroup,
    SetIndexOption,
    SplitOption,
    with_options,
)
from mergewise.cli.output import say, say_warning
from mergewise.cli.progress import characters, progress
from mergewise.cli.settings import EmbedderSetting, GPUsSetting, Setting
from mergewise.errors import UsageError, check_known
from mergewise.extend import load_toml

if TYPE_CHECKING:
    from mergewise import Index
    from mergewise.extend import Example, Executors, LabelSettings, LabelSource, TrainSettings

app = typer.Typer(name="train", help="Train the models that mergewise uses.", no_args_is_help=True, cls=PlainGroup)


@app.command("utility", cls=NamingCommand)
@with_options
def utility(
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of the labels and the trained predictor.")],
    questions: Annotated[
        list[Path] | None,
        typer.Argument(metavar="QUESTIONS...", help="Question sets, folders of them, or CSV or JSONL files."),
    ] = None,
    chat: Annotated[
        str,
        typer.Option("--chat", "-c", envvar="MERGEWISE_CHAT", help="Causal model that labels the candidates: hf:PATH."),
    ] = "",
    index_dir: SetIndexOption = None,
    labels: Annotated[Path | None, Setting("Directory of the labels; the folder labels in --out by default")] = None,
    labels_only: Annotated[bool, typer.Option("--labels-only", help="Label the candidates without training.")] = False,
    split: SplitOption = "dev",
    limit: LimitOption = None,
    embedder: EmbedderSetting = None,
    ray: Annotated[str | None, Setting("Ray cluster that labels: local, auto or HOST:PORT")] = None,
    gpus_per_worker: GPUsSetting = 0.0,
    base: Annotated[str, typer.Option(help="Base model: cross-encoder:PATH.")] = "",
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TOML file of settings, such as preset, passages, triplets, epochs and seed."
        ),
    ] = None,
) -> None:
    """Train a utility predictor, which scores how much a text helps to answer. Needs the extra train and a causal model.

    The predictor is a cross-encoder (AED-RAG). The causal model labels the questions. Without questions, training uses the
    existing labels and needs no causal model. The preset of the settings is aed, or paper: AED-RAG as published, two epochs,
    nothing held out.
    """
    from mergewise.extend import Example, LabelStore, check_base, check_packages, executors_of, train_utility

    settings, chosen = _settings(config)
    folder = labels or out / "labels"
    if not labels_only:
        check_base(base)
        check_packages()
    if labels_only and not questions:
        raise UsageError("no questions to label", "give question sets or a file of questions")
    from mergewise.evaluate.run import chosen_questions, tasks_at
    from mergewise.evaluate.set_indexes import existing_index, task_index

    with TemporaryDirectory(prefix="mergewise-train-") as temporary:
        views = ["leaf", *(["triplet"] if settings.triplets else [])]
        open_index, show = partial(open_permitted, embedder=embedder), partial(progress, amount=characters)
        sources = []
        for task in (task for path in questions or () for task in tasks_at(path)):
            if task.documents:
                place = (index_dir or Path(temporary)) / task.name
                index = task_index(task, place, open_index, show, views=views)
            else:
                index = existing_index(task, index_dir or DEFAULT_INDEX, open_index)
            asked = chosen_questions(task, split)
            kept = [question for question in asked if any(question.answers)]
            sources.append(label_source(index, [Example(q.id, q.text, q.answers, task.name) for q in kept[:limit]]))
        if sources:
            _label(sources, chat, folder, settings, executors_of(None, ray, gpus_per_worker))
    if not labels_only:
        with progress("Training") as advance:
            report = train_utility(LabelStore(folder), settings.kinds(), base, chosen, out, advance)
        counts = report.questions
        say(f"trained on {counts['learnt']} questions, {counts['held_out']} held out, {counts['dropped']} dropped")
        cut, tokens = report.candidates["cut_by_predictor"], report.parameters["tokens"]
        if cut:
            longer = f"{cut} of {report.candidates['all']} candidates are too long"
            say_warning(f"{longer}: the predictor reads only their first {tokens} tokens")
        for name, means in report.held_out.items():
            figures = f"KL {means['kl']:7.3f}  rank correlation {means['rho']:6.3f}"
            say(f"{name:10} {figures}  utility of the first {means['first']:7.3f}")
        say(f"use it: --reranker cross-encoder:{out}")


def _settings(config: Path | None) -> tuple[LabelSettings, TrainSettings]:
    """Return the settings of labels and training. Those of the file override those of its preset."""
    from mergewise.extend import PRESETS, LabelSettings, TrainSettings

    loaded = {} if config is None else load_toml(config)
    preset = loaded.pop("preset", "aed")
    check_known("preset", preset, list(PRESETS))
    of_labels = {field.name for field in fields(LabelSettings)}
    of_training = {field.name for field in fields(TrainSettings)}
    if unknown := loaded.keys() - of_labels - of_training:
        known = ", ".join(sorted(of_labels | of_training))
        raise UsageError(f"{config}: unknown settings: {', '.join(sorted(unknown))}", f"known settings: {known}")
    training = replace(PRESETS[preset], **{name: loaded[name] for name in loaded.keys() & of_training})
    labels = {name: loaded[name] for name in loaded.keys() & of_labels}
    return LabelSettings(**labels), training


def _label(
    sources: Sequence[LabelSource], chat: str, folder: Path, settings: LabelSettings, executors: Executors
) -> None:
    from mergewise.extend import LabelStore, label, load_causal

    model = load_causal(chat) if chat else None
    if model is None:
        raise UsageError("missing causal model for labels", "add --chat hf:PATH")
    with executors(1) as executor, progress("Labelling") as advance:
        counts = label(LabelStore(folder), sources, model, settings, advance, executor)
    say(f"{counts.questions} questions labelled, in {folder}")
    window = f"the window of {model.spec} ({model.window} tokens)"
    if counts.cut:
        say_warning(f"{counts.cut} candidates exceed {window}: only their first sentences are labelled")
    if counts.left_out:
        say_warning(f"{counts.left_out} questions have no labels: they or a candidate exceed {window}")


def label_source(index: Index, examples: Sequence[Example]) -> LabelSource:
    """Combine questions with the index that they search."""
    from mergewise import VIEWS
    from mergewise.extend import HybridReader, LabelSource, label_facts

    settings = index.search_settings
    reader = HybridReader(index.store.reader(), index.embedder, VIEWS, None, settings)
    return LabelSource(examples, reader, label_facts(index.documents(), index.manifest, settings, reader))
