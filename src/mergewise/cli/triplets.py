"""`info --triplets`: how the triplets of an index came to be, for people or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.cli.output import say, say_json
from mergewise.designs import VIEWS

if TYPE_CHECKING:
    from mergewise.engine import Index

VIEW = "triplet"


def say_triplets(opened: Index, as_json: bool) -> None:
    """Raises UsageError for an index without triplets."""
    from mergewise.retrieve.hybrid import HybridReader

    report = HybridReader(opened.store.reader(), None, VIEWS).view(VIEW).report()
    if as_json:
        say_json(report.as_dict())
        return
    made = ", ".join(f"{count} by {how}" for how, count in report.made.items())
    say(f"{report.documents} documents, {report.triplets} triplets: {made or 'none'}")
    mean = report.triplets / report.found if report.found else 0.0
    say(f"  {report.found} of {report.passages} passages have some, {mean:.1f} on average, {report.most} at most")
    if report.calls or report.rejects:
        rejected = ", ".join(f"{count} {kind}" for kind, count in report.rejects.items())
        say(f"  {report.calls} calls of a chat model; not taken: {rejected or 'nothing'}")
    for doc_id, reason in report.failures.items():
        say(f"  not complete: {doc_id}: {reason}")
    if report.failures:
        say("  `mergewise index` with the chat model takes these documents up again; what was answered is kept")
