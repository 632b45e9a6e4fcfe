"""`info --markers`: how the markers of an index came to be, for people or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mergewise.cli.output import say, say_json
from mergewise.designs import VIEWS

if TYPE_CHECKING:
    from mergewise.engine import Index

VIEW = "marker"


def say_markers(opened: Index, as_json: bool) -> None:
    """Raises UsageError for an index without markers."""
    from mergewise.retrieve.hybrid import HybridReader

    report = HybridReader(opened.store.reader(), None, VIEWS).view(VIEW).report()
    if as_json:
        say_json(report.as_dict())
        return
    made = ", ".join(f"{count} by {how}" if how != "copy" else f"{count} copies" for how, count in report.made.items())
    say(f"{report.documents} documents, {sum(report.made.values())} markers: {made or 'none'}")
    say(
        f"  coverage: {report.coverage_mean:.2%} on average, variance {1e4 * report.coverage_variance:.4f} "
        f"(of percent), least {report.coverage_least:.2%}"
    )
    say(f"  fallback: {report.fallback_share:.2%} of the segments, in {report.fallback_documents} documents")
    if report.attempts:
        rejected = ", ".join(f"{count} {kind}" for kind, count in report.rejects.items())
        say(
            f"  attempts: {report.attempts:.2f} on average; not taken: {rejected or 'nothing'}; {report.renumbered} renumbered"
        )
        say(
            f"  sentences of values without support: {report.unsupported_share:.2%} as they were written, "
            f"{report.unsupported_left:.2%} now; {report.replaced} replaced by the document's own"
        )
    for name, lengths in (("keys", report.keys), ("values", report.values)):
        say(f"  {name}: {_box(lengths)}")
    for doc_id, reason in report.failures.items():
        say(f"  not complete: {doc_id}: {reason}")
    if report.failures:
        say("  `mergewise index` with the chat model takes these documents up again; what was answered is kept")


def _box(lengths: Any) -> str:
    low, middle, high = lengths.quartiles
    return f"{lengths.mean:.1f} tokens on average, quartiles {low:.0f}, {middle:.0f}, {high:.0f}, most {lengths.most}"
