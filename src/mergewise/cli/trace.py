"""What a strategy did, for people: a line for each step, and merges as the tree that they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mergewise.cli.output import console, say
from mergewise.types import Context, Span, Step

if TYPE_CHECKING:
    from rich.tree import Tree

    from mergewise.assemble.mergerag import MergeNode, MergeNote

TRACED_SKIPS = 3
SHOWN_SPANS = 4


def say_trace(assembled: Context) -> None:
    """Print every step, but of the candidates that did not fit only the first few."""
    from mergewise.assemble.mergerag import MergeNote

    say()
    notes = [step.note for step in assembled.trace if isinstance(step.note, MergeNote)]
    skipped = [step for step in assembled.trace if step.action == "skip"]
    for step in assembled.trace:
        if step.action == "merged" and notes:
            say_tree(step, notes)
        elif isinstance(step.note, MergeNote):
            if "model failed" in step.reason:
                say(f"merge: {step.reason}", style="dim")
        elif step not in skipped[TRACED_SKIPS:]:
            _say_step(step)
    if len(skipped) > TRACED_SKIPS:
        say(f"skip: {len(skipped) - TRACED_SKIPS} more did not fit", style="dim")


def _say_step(step: Step) -> None:
    output = f" → {_spelled(step.output)}" if step.output else ""
    score = f"  score {step.score:.3f}" if step.score is not None else ""
    say(f"{step.action}: {step.reason}{score}\n    {_spans(step.inputs)}{output}".rstrip(), style="dim")


def say_tree(summary: Step, notes: Sequence[MergeNote]) -> None:
    """Print the tree of merges: what each remaining chunk was made of, the host above the source."""
    from rich.tree import Tree

    made = {note.result.number: note for note in notes if note.taken}
    used = {node.number for note in made.values() for node in (note.source, note.host)}
    tree = Tree(f"merged: {summary.reason}", style="dim", guide_style="dim")
    for number in [number for number in made if number not in used]:
        _grow(tree, made[number].result, made)
    for note in [note for note in notes if not note.taken]:
        _grow(tree, note.result, {note.result.number: note})
    console().print(tree)


def _grow(tree: Tree, node: MergeNode, made: dict[int, MergeNote]) -> None:
    from rich.text import Text

    note = made.get(node.number)
    shown = f"{_spans(node.spans) or 'nothing'}  score {node.score:.3f}, {node.tokens} tokens"
    branch = tree.add(Text(shown if note is None else f"{shown}: {_how(note)}"))
    if note is not None:
        _grow(branch, note.host, made)
        _grow(branch, note.source, made)


def _how(note: MergeNote) -> str:
    parts = [
        f"round {note.round}",
        note.how,
        f"{note.source.tokens} + {note.host.tokens} → {note.result.tokens} tokens",
    ]
    if note.nll is not None:
        parts.append(f"NLL {note.nll:.2f}")
    if note.calls:
        parts.append(f"{note.calls} call{'' if note.calls == 1 else 's'}")
    if note.unsupported:
        parts.append(f"{note.unsupported} unsupported dropped")
    if not note.taken:
        parts.append("not needed")
    return ", ".join(parts)


def _spans(spans: Sequence[Span]) -> str:
    more = f" and {len(spans) - SHOWN_SPANS} more" if len(spans) > SHOWN_SPANS else ""
    return ", ".join(map(_spelled, spans[:SHOWN_SPANS])) + more


def _spelled(span: Span) -> str:
    return f"{span.doc_id}:{span.start}-{span.end}"
