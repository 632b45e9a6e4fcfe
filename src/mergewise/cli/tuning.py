"""The commands `tune` (parameters and weights for the user's questions) and `questions` (questions made from documents)."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from mergewise import defaults
from mergewise.cli import options, settings
from mergewise.cli.configuration import open_permitted
from mergewise.cli.output import say, say_aside, say_json, say_warning, write_text
from mergewise.cli.progress import progress
from mergewise.cli.settings import Setting
from mergewise.errors import UsageError
from mergewise.extend import Range

_UNITS = {"s": 1, "m": 60, "h": 3600}
SHOWN = 8
"""Points that the report lists."""


@options.with_options
def tune(
    questions: Annotated[
        Path,
        typer.Argument(metavar="QUESTIONS", help="Questions with evidence or answers: CSV, JSONL, or a question set."),
    ],
    index_dir: options.IndexOption = options.DEFAULT_INDEX,
    strategy: options.StrategyOption = defaults.STRATEGY,
    seconds: Annotated[
        str, typer.Option("--time", metavar="TIME", help="Approximate time limit, such as 90s, 10m or 1h.")
    ] = "10m",
    metric: Annotated[str, typer.Option(help="Metric to maximise: evidence, all, answer or density.")] = "evidence",
    budget: Annotated[int, typer.Option("--budget", "-b", help="Token budget of a context.", min=1)] = 384,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New file for the lines of mergewise.toml, instead of printing.")
    ] = None,
    fit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="New file for weave's weights, which are fitted instead of parameters."),
    ] = None,
    trust_made: Annotated[
        bool, typer.Option("--trust-made", help="Also tune on questions that `mergewise questions` made.")
    ] = False,
    out: Annotated[
        Path | None, Setting("Directory of the rows and the log of held-out questions; .tuning in the index by default")
    ] = None,
    embedder: settings.EmbedderSetting = None,
    chat: options.ChatOption = defaults.CHAT,
    reranker: options.RerankerOption = defaults.RERANKER,
    cache: settings.CacheSetting = None,
    as_json: options.JsonOption = False,
    *,
    patience: settings.Patience,
) -> None:
    """Tune the parameters of a strategy and of the search. Needs an index and questions that people asked.

    A winner is compared with the defaults once, by cross-fitting over five folds of documents: each fold is held out from the
    choice of its winner. Without a significant gain, the defaults stay. A stopped tuning continues where it was.
    """
    from mergewise.evaluate.loaders import load_question_set
    from mergewise.evaluate.tuning import fit_weights
    from mergewise.evaluate.tuning import tune as tuned

    limit = parse_time(seconds)
    for file in (write, fit):
        if file is not None and file.exists():
            raise UsageError(f"file exists: {file}", "name a new file")
    patience.set_patience()
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
        for name, reason in report.idle.items():
            say_aside(f"{name} is not tuned: {reason}")
        if report.points:
            say(f"{report.seen} of {report.questions} questions to tune on, {len(report.points)} points", style="bold")
            say(f"{report.metric:>8}  tokens  questions")
        for point in report.points[:SHOWN]:
            named = [point["strategy"], *(f"{name} {point[name]}" for name in ("search", "weights") if point[name])]
            say(f"{point['mean']:8.3f}  {point['tokens']:6.0f}  {point['questions']:9}  {', '.join(named)}")
        say(report.verdict(), style="bold")
    more = {}
    if fit is not None:
        if fitted.completeness is not None and not as_json:
            say(fitted.completeness.verdict(), style="bold")
        text = fitted.file_text()
        more = {"weights": str(fit) if text else "", "reranker": fitted.reranker}
        if text:
            _write_new(fit, text)
    fragment = report.fragment(more)
    if fragment and write is not None:
        _write_new(write, fragment)
    elif fragment and not as_json:
        say()
        say(fragment.rstrip())


def _write_new(path: Path, text: str) -> None:
    write_text(path, text, "x", "name a new file in an existing folder")
    say_aside(f"written: {path}")


def parse_time(text: str) -> float:
    """Convert "90s", "10m", "1.5h" or a number of seconds to seconds."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,3})?)\s*([smh]?)\s*", text)
    seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
    if not 1 <= seconds <= 1_000_000:
        raise UsageError(f"invalid time: {text!r} (expected 1 to 1,000,000 s)", "write a time such as 90s, 10m or 1h")
    return seconds


@options.with_options
def questions(
    index_dir: Annotated[
        Path, typer.Argument(metavar="INDEX", help="Directory of the index.", callback=options.in_this_folder)
    ] = options.DEFAULT_INDEX,
    count: Annotated[int, typer.Option("--count", "-n", help="Number of questions.", min=1)] = 200,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="New file for the questions, in JSON lines.")
    ] = None,
    seed: Annotated[int, Setting("Random seed of the questions", Range(0, 1 << 63))] = 0,
    chat: options.ChatOption = defaults.CHAT,
    window: settings.WindowSetting = None,
    cache: settings.CacheSetting = None,
    as_json: options.JsonOption = False,
    *,
    patience: settings.Patience,
) -> None:
    """Make questions with marked evidence for `eval` and `tune --trust-made`. Needs an index; a chat model is optional.

    Without a chat model, rules make the questions. A question is left out if full-text search ranks its source first.
    """
    from mergewise.evaluate.synthetic import make_questions, write_questions
    from mergewise.extend import load_chat

    if out is None:
        raise UsageError("missing output file", "add --out made.jsonl")
    if out.exists():
        raise UsageError(f"file exists: {out}", "name a new file")
    patience.set_patience()
    index = open_permitted(index_dir, chat=load_chat(chat, window) or defaults.CHAT, cache=cache, create=False)
    with index, nullcontext() if as_json else progress("Making questions") as advance:
        made = make_questions(index, count, seed=seed, progress=advance)
    write_questions(out, made)
    kinds = Counter(question.kind for question in made)
    if len(made) < count:
        say_warning(f"only {len(made)} questions made: all others are too easy")
    if as_json:
        say_json({"questions": len(made), "kinds": kinds, "file": str(out)})
    else:
        say(f"{len(made)} questions in {out}: {', '.join(f'{kind} {number}' for kind, number in kinds.most_common())}")
