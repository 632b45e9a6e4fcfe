"""`train utility`: labels of candidates by a causal model, and a utility predictor that is trained on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mergewise.cli.options import DEFAULT_INDEX, EmbedderOption
from mergewise.cli.output import progress, say
from mergewise.cli.progress import working
from mergewise.errors import UsageError

if TYPE_CHECKING:
    from mergewise.evaluate.run import Half
    from mergewise.evaluate.tasks import Task
    from mergewise.train.candidates import Example, LabelSource
    from mergewise.train.labels import LabelSettings
    from mergewise.train.trainer import TrainSettings
    from mergewise.train.utility import TrainingReport

app = typer.Typer(name="train", help="Train the models that mergewise uses.", no_args_is_help=True)


@app.command("utility")
def utility(
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of the labels and of the predictor.")],
    questions: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="QUESTIONS...",
            help="Question sets, folders of them, or CSV or JSONL files with questions and answers; none: labels that stand.",
            show_default=False,
        ),
    ] = None,
    chat: Annotated[
        str, typer.Option("--chat", "-c", envvar="MERGEWISE_CHAT", help="The reader whose use is learnt: hf:PATH.")
    ] = "",
    index_dir: Annotated[
        Path | None,
        typer.Option(
            "--index",
            "-i",
            help="For question sets, keep their indexes in this folder and use them again. For a file of questions, the "
            "index that is searched. [default: mergewise.index]",
        ),
    ] = None,
    labels_dir: Annotated[
        Path | None, typer.Option("--labels", help="Directory of the labels. [default: labels in --out]")
    ] = None,
    labels_only: Annotated[
        bool, typer.Option("--labels-only", help="Measure the candidates, and train nothing.")
    ] = False,
    half: Annotated[str, typer.Option(help="first (for training), second or all.")] = "first",
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Only N questions of each set.")] = None,
    without: Annotated[
        Path | None, typer.Option("--except", help="A file of questions, one a line, that are left out.")
    ] = None,
    passages: Annotated[int, typer.Option(help="Passages of a question that are candidates.", min=1)] = 20,
    triplets: Annotated[
        int | None, typer.Option(help="Triplet sets that are candidates; 0 for none. [default: 20]", min=0)
    ] = None,
    generated: Annotated[bool, typer.Option(help="Whether a passage that the reader writes is a candidate.")] = True,
    longest: Annotated[int, typer.Option(help="Tokens of a section up to which it is one passage.", min=1)] = 256,
    alpha: Annotated[float, typer.Option(help="How much of what the question alone makes likely is taken off.")] = 0.5,
    embedder: EmbedderOption = None,
    base: Annotated[
        str, typer.Option("--base", help="What is trained: cross-encoder:PATH, or minilm with a new head.")
    ] = "minilm",
    preset: Annotated[
        str, typer.Option(help="aed, or gainrag: no triplets, the best candidate and 15 drawn, two epochs.")
    ] = "aed",
    epochs: Annotated[
        int | None,
        typer.Option(help="Times that all questions are gone through, at most. [default: by the preset]", min=1),
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Questions of a step. [default: by the preset]", min=1)] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate at its highest. [default: by the preset]")] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Epochs without a better held-out loss after which it ends; 0: never. [default: by the preset]", min=0
        ),
    ] = None,
    held_out: Annotated[
        float | None, typer.Option(help="Share of the questions that are kept for judging. [default: by the preset]")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(help="Tokens of question and candidate together, at most. [default: by the preset]", min=8),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            help="What utilities are measured from: gain (over no context), or free. [default: by the preset]"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="What heads, orders and draws are made by. [default: by the preset]", min=0)
    ] = None,
) -> None:
    """Train a utility predictor: a cross-encoder that tells how much a text helps a reader to answer (AED-RAG, GainRAG)."""
    from mergewise.train.bases import check_base, demand_packages
    from mergewise.train.labels import LabelSettings, LabelStore
    from mergewise.train.utility import train_utility

    given = {"epochs": epochs, "batch": batch, "rate": rate, "patience": patience, "held_out": held_out,
             "tokens": tokens, "level": level, "seed": seed}  # fmt: skip
    chosen = _training(preset, {name: value for name, value in given.items() if value is not None})
    if triplets is None:
        triplets = 0 if preset == "gainrag" else LabelSettings().triplets
    settings = LabelSettings(passages, triplets, generated, longest, alpha)
    folder = labels_dir or out / "labels"
    if not labels_only:
        check_base(base)
        demand_packages()
    excluded = frozenset() if without is None else _lines(without)
    if labels_only and not questions:
        raise UsageError("there are no questions to label", "give question sets, or a file of questions")
    with TemporaryDirectory(prefix="mergewise-train-") as temporary:
        place = Path(temporary)
        sources = list(_sources(questions or (), index_dir, place, settings, embedder, half, limit, excluded))
        if sources:
            _label(sources, chat, folder, settings)
    if not labels_only:
        with progress("Training") as advance:
            report = train_utility(LabelStore(folder), settings.kinds(), base, chosen, out, advance)
        _say(report, out)


def _training(preset: str, given: Mapping[str, Any]) -> TrainSettings:
    from mergewise.train.trainer import PRESETS

    if preset not in PRESETS:
        raise UsageError(f"unknown preset {preset!r}", f"one of: {', '.join(PRESETS)}")
    return replace(PRESETS[preset], **given)


def _say(report: TrainingReport, out: Path) -> None:
    counts = report.questions
    say(f"trained on {counts['learnt']} questions, {counts['held_out']} held out, {counts['dropped']} dropped")
    for name, means in report.held_out.items():
        say(
            f"{name:10} KL {means['kl']:7.3f}  rank correlation {means['rho']:6.3f}  use of the first {means['first']:7.3f}"
        )
    say(f"use it: --reranker cross-encoder:{out}")


def _label(sources: Sequence[LabelSource], chat: str, folder: Path, settings: LabelSettings) -> None:
    from mergewise.models import load_causal
    from mergewise.train.labels import LabelStore, label

    model = load_causal(chat) if chat else None
    if model is None:
        raise UsageError("labels need a causal model", "give one: --chat hf:PATH")
    with progress("Labelling") as advance:
        done = label(LabelStore(folder), sources, model, settings, advance)
    say(f"{done} questions labelled, in {folder}")


def _sources(
    paths: Sequence[Path],
    index_dir: Path | None,
    temporary: Path,
    settings: LabelSettings,
    embedder: str | None,
    half: str,
    limit: int | None,
    excluded: frozenset[str],
) -> Iterator[LabelSource]:
    import mergewise
    from mergewise.evaluate.tables import load_table
    from mergewise.evaluate.tasks import find_tasks, load_task
    from mergewise.train.candidates import source_of

    if half not in ("first", "second", "all"):
        raise UsageError(f"unknown half {half!r}", "one of: first, second, all")
    chosen: Half = half  # type: ignore[assignment]
    views = ["leaf", *(["triplet"] if settings.triplets else [])]
    for path in paths:
        if path.is_file():
            index = mergewise.open(index_dir or DEFAULT_INDEX, embedder=embedder, create=False)
            yield source_of(index, _examples(load_table(path), chosen, limit, excluded))
            continue
        for folder in find_tasks(path):
            task = load_task(folder)
            with working(f"Indexing {task.name}") as advance:
                place = (index_dir or temporary) / task.name
                index = mergewise.open(place, views=views, embedder=embedder, progress=advance)
                index.add(task.documents, progress=advance)
            yield source_of(index, _examples(task, chosen, limit, excluded))


def _examples(task: Task, half: Half, limit: int | None, excluded: frozenset[str]) -> list[Example]:
    """The questions of a half that are not left out, those with answers, as many as are wanted."""
    from mergewise.evaluate.run import chosen_questions
    from mergewise.train.candidates import Example

    kept = [q for q in chosen_questions(task, half) if _folded(q.text) not in excluded and any(q.answers)]
    return [Example(q.id, q.text, q.answers, task.name) for q in kept[:limit]]


def _lines(file: Path) -> frozenset[str]:
    try:
        return frozenset(map(_folded, file.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", "a text file with a question a line") from None


def _folded(text: str) -> str:
    return " ".join(text.lower().split())
