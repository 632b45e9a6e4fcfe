"""`tune` and `questions`: parameters and weights tuned on a user's own questions, and questions made where there are none."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mergewise import defaults
from mergewise.cli import options, settings
from mergewise.cli.configuration import open_permitted
from mergewise.cli.output import say, say_aside, say_json, say_warning
from mergewise.cli.progress import progress
from mergewise.errors import UsageError

if TYPE_CHECKING:
    from mergewise.evaluate.tuning import TuningReport

_UNITS = {"s": 1, "m": 60, "h": 3600}
SHOWN = 8
"""Points that are shown."""
METRIC, BUDGET, TIME = "evidence", 384, "10m"


@options.with_options
def tune(
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS",
            help="Questions that people asked, with evidence or answers: CSV, JSONL, or another question set.",
        ),
    ],
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    strategy: options.StrategyOption = defaults.STRATEGY,
    seconds: Annotated[
        str, typer.Option("--time", metavar="TIME", help="About how long it takes: 90s, 10m or 1h.")
    ] = TIME,
    metric: Annotated[
        str, typer.Option(help="What is made as large as it can be: evidence, all, answer or density.")
    ] = METRIC,
    budget: Annotated[int, typer.Option("--budget", "-b", help="Tokens of a context.", min=1)] = BUDGET,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the lines of mergewise.toml to this new file; without, they are printed."
        ),
    ] = None,
    fit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of parameters, fit weave's weights to these questions and models, and write them to this new file.",
        ),
    ] = None,
    trust_made: Annotated[
        bool, typer.Option("--trust-made", help="Also tune on made questions (`mergewise questions`).")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the rows and of the log of held-out questions.", show_default=".tuning in the index"
        ),
    ] = None,
    embedder: options.NamedEmbedderOption = None,
    chat: options.ChatOption = defaults.CHAT,
    reranker: options.RerankerOption = defaults.RERANKER,
    timeout: settings.TimeoutSetting = None,
    retries: settings.RetriesSetting = None,
    cache: settings.CacheSetting = None,
    as_json: options.JsonOption = False,
) -> None:
    """Tune the parameters of a strategy, and of the search, on your own questions; or say that the defaults are as good.

    Of the questions 40 percent are held out, by document, and looked at once. The defaults are changed only where these show a
    gain that is no chance. A tuning that was stopped goes on where it was.
    """
    from mergewise.evaluate.loaders import load_question_set
    from mergewise.evaluate.tuning import fit_weights
    from mergewise.evaluate.tuning import tune as tuned

    limit = parse_time(seconds)
    for file in (write, fit):
        if file is not None and file.exists():
            raise UsageError(f"{file} is there already", "name a new file")
    settings.set_patience(timeout, retries)
    task = load_question_set(questions)
    for skipped in task.skipped[:3]:
        say_warning(f"left out: {skipped}")
    index = open_permitted(index_dir, embedder=embedder, chat=chat, reranker=reranker, cache=cache, create=False)
    common: dict[str, Any] = {"metric": metric, "budget": budget, "trust_made": trust_made, "folder": out}
    with index, nullcontext() if as_json else progress("Tuning") as advance:
        if fit is None:
            report = tuned(index, task.questions, strategy, seconds=limit, progress=advance, **common)
        else:
            fitted = fit_weights(index, task.questions, strategy, progress=advance, **common)
            report = fitted.tuning
    if as_json:
        say_json(report.as_dict() if fit is None else {**report.as_dict(), **fitted.as_dict()})
    else:
        _say_report(report)
    more = {}
    if fit is not None and report.is_better:
        more = {"weights": str(fit) if fitted.weights else "", "reranker": fitted.reranker}
        if fitted.weights:
            _write_new(fit, fitted.file_text())
            say_aside(f"written: {fit}")
    fragment = report.fragment(more)
    if fragment and write is not None:
        _write_new(write, fragment)
        say_aside(f"written: {write}")
    elif fragment and not as_json:
        say()
        say(fragment.rstrip())


def _say_report(report: TuningReport) -> None:
    say(f"{report.seen} of {report.questions} questions to tune on, {len(report.points)} points", style="bold")
    for name, reason in report.idle.items():
        say_aside(f"{name} is left as it is: {reason}")
    say(f"{report.metric:>8}  tokens  questions")
    for point in report.points[:SHOWN]:
        named = [point["strategy"], *(f"{name} {point[name]}" for name in ("search", "weights") if point[name])]
        say(f"{point['mean']:8.3f}  {point['tokens']:6.0f}  {point['questions']:9}  {', '.join(named)}")
    say(report.verdict(), style="bold")


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", "name a new file in a folder that exists"
        ) from None


def parse_time(text: str) -> float:
    """Seconds of "90s", "10m", "1.5h", or of a number of seconds."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,3})?)\s*([smh]?)\s*", text)
    seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
    if not 1 <= seconds <= 1_000_000:
        raise UsageError(f"{text!r} is no time to tune", "write 90s, 10m or 1h")
    return seconds


@options.with_options
def questions(
    index_dir: Annotated[
        Path, typer.Argument(metavar="INDEX", help="Directory of the index.", callback=options.in_this_folder)
    ] = options.DEFAULT_INDEX,
    count: Annotated[int, typer.Option("--count", "-n", help="Questions to make.", min=1)] = 200,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The new file, in JSON lines.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    chat: options.ChatOption = defaults.CHAT,
    window: settings.WindowSetting = None,
    cache: settings.CacheSetting = None,
    timeout: settings.TimeoutSetting = None,
    retries: settings.RetriesSetting = None,
    as_json: options.JsonOption = False,
) -> None:
    """Make questions from the documents of an index, with their evidence marked, for `eval` and for `tune --trust-made`.

    Without a chat model they are made by rules. A question whose source full-text search finds at once is left out.
    """
    from mergewise.evaluate.synthetic import make_questions, write_questions
    from mergewise.models import load_chat

    if out is None:
        raise UsageError("there is no file for the questions", "name one: --out made.jsonl")
    if out.exists():
        raise UsageError(f"{out} is there already", "name a new file")
    settings.set_patience(timeout, retries)
    index = open_permitted(index_dir, chat=load_chat(chat, window) or defaults.CHAT, cache=cache, create=False)
    with index, nullcontext() if as_json else progress("Making questions") as advance:
        made = make_questions(index, count, seed=seed, progress=advance)
    write_questions(out, made)
    kinds = Counter(question.kind for question in made)
    if len(made) < count:
        say_warning(f"the documents gave {len(made)} questions that are not too easy")
    if as_json:
        say_json({"questions": len(made), "kinds": kinds, "file": str(out)})
    else:
        say(f"{len(made)} questions in {out}: {', '.join(f'{kind} {number}' for kind, number in kinds.most_common())}")
