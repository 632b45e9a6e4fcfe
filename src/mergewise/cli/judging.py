"""Printing of a judge's verdicts, for `report --judge`. The cost is printed before the first call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mergewise.cli.output import say, say_aside, usage_text
from mergewise.cli.progress import progress
from mergewise.errors import UsageError
from mergewise.evaluate.judging import FOLDER, judge_cost, judge_requests, judged_methods
from mergewise.evaluate.runs.folder import open_run
from mergewise.models import CachedChat, load_chat, release

COLUMNS = ("answers", "correct", "EM", "agreement", "kappa", "faithful", "unread")


def judge_runs(folders: Sequence[Path], spec: str, price_in: float, price_out: float, *, dry_run: bool) -> None:
    """Judge the answers of each run. Raises UsageError without a chat model, or if a run has no answers."""
    chat = load_chat(spec)
    if chat is None:
        raise UsageError(f"not a chat model: {spec!r}", "pass --judge openai:MODEL")
    try:
        for folder in folders:
            requests = judge_requests(open_run(folder))
            if not requests:
                raise UsageError(f"no answers in {folder}", "run `mergewise eval --answers --out RUN` first")
            cached = CachedChat(chat, folder / FOLDER)
            cost = judge_cost(requests, cached)
            say(f"{folder}: {usage_text(cost, price_in, price_out)}")
            if dry_run:
                continue
            with progress("Judging") as advance:
                found = judged_methods(requests, cached, advance)
            say("  ".join(["budget", *(f"{name:>9}" for name in COLUMNS), "method"]), style="bold")
            for one in found:
                shares = (one.correct, one.em, one.agreement, one.kappa, one.faithful)
                cells = [f"{one.answers:>9}", *(f"{'-' if share is None else f'{share:.3f}':>9}" for share in shares)]
                say("  ".join([f"{one.budget:>6}", *cells, f"{one.unread:>9}", one.method]))
            say_aside(f"judged by {chat.spec}; agreement and kappa compare its verdicts with exact match")
    finally:
        release(chat)
