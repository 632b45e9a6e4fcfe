"""What a strategy did, for people: a line for each step with its sentences quoted, merges as the tree that they make, and at
last the best of what was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mergewise.cli.output import say, say_drawn
from mergewise.cli.places import Locations, place
from mergewise.types import Context, Span, Step

if TYPE_CHECKING:
    from rich.tree import Tree

    from mergewise.designs.aed.triplet_passages import TripletNote
    from mergewise.designs.mergerag.notes import MergeNode, MergeNote
    from mergewise.designs.mrag.notes import MarkerNote

LEFT_OUT = ("left", "skip", "drop")  # actions that took nothing
SHOWN_LEFT = 5
TRACED_SKIPS = 3
SHOWN_SPANS = 4


def say_trace(assembled: Context, places: Locations | None = None, steps: Sequence[Step] | None = None) -> None:
    """Print every step, but of what was left out only the first few, which are the best; with `places` texts are quoted."""
    from mergewise.designs.aed.triplet_passages import TripletNote
    from mergewise.designs.mergerag.notes import MergeNote
    from mergewise.designs.mrag.notes import MarkerNote

    steps = assembled.trace if steps is None else steps
    say()
    notes = [step.note for step in steps if isinstance(step.note, MergeNote)]
    for step in steps:
        if step.action == "merged" and notes:
            say_tree(step, notes)
        elif isinstance(step.note, MergeNote):
            if "model failed" in step.reason:
                say(f"merge: {step.reason}", style="dim")
        elif isinstance(step.note, MarkerNote):
            _say_marker(step, step.note, places)
        elif isinstance(step.note, TripletNote):
            _say_triplets(step, step.note, places)
        elif step.action not in LEFT_OUT:
            _say_step(step, places)
    for action in LEFT_OUT:
        _say_left_out(action, [step for step in steps if step.action == action], places)


def _say_left_out(action: str, steps: Sequence[Step], places: Locations | None) -> None:
    shown = SHOWN_LEFT if action == "left" else TRACED_SKIPS
    best_first = sorted(steps, key=lambda step: 0.0 if step.score is None else -step.score)
    for step in best_first[:shown]:
        _say_step(step, places)
    if len(steps) > shown:
        more = "more did not fit" if action == "skip" else "more were left out"
        say(f"{action}: {len(steps) - shown} {more}", style="dim")


def _say_step(step: Step, places: Locations | None) -> None:
    score = f"  score {step.score:.3f}" if step.score is not None else ""
    say(f"{step.action}: {step.reason}{score}", style="dim")
    if places is None:
        output = f" → {_spelled(step.output)}" if step.output else ""
        if told := f"{_spans(step.inputs)}{output}":
            say(f"    {told}", style="dim")
        return
    for span in step.inputs[:SHOWN_SPANS]:
        _say_quoted(span, places)
    if len(step.inputs) > SHOWN_SPANS:
        say(f"    and {len(step.inputs) - SHOWN_SPANS} more", style="dim")
    if step.output and step.output not in step.inputs:
        _say_quoted(step.output, places, "→ ")


def _say_marker(step: Step, note: MarkerNote, places: Locations | None) -> None:
    """The key of a marker, and its value a sentence a line; below a written one, what it rests on."""
    marker = note.marker
    score = "" if step.score is None else f"  score {step.score:.3f}"
    say(f"marker: {step.reason}{score}", style="dim")
    where = _spans(step.inputs) if places is None else places.of(step.inputs)
    say(f"    {_MADE.get(marker.made, marker.made)}: {where}", style="dim")
    for sentence in note.sentences:
        said = " ".join(marker.value[sentence.start : sentence.end].split())
        state = (
            "stands for one without support" if sentence.replaced else "" if sentence.supported else "without support"
        )
        told = "; ".join(filter(None, (state, *sentence.flags)))
        say(f"    “{said}”{f'  ({told})' if told else ''}", style="dim")
        if marker.written and not sentence.replaced:
            for start, end in sentence.support[:SHOWN_SPANS]:
                span = Span(marker.doc_id, start, end)
                told = _spelled(span) if places is None else f"{place(places.citation(span))}  {places.quote(span)}"
                say(f"      rests on {told}".rstrip(), style="dim")


def _say_triplets(step: Step, note: TripletNote, places: Locations | None) -> None:
    """The triplets of a set, each with the sentence that it came from."""
    score = "" if step.score is None else f"  utility {step.score:.3f}"
    say(f"triplets: {step.reason}{score}", style="dim")
    for triplet in note.triplets.triplets:
        say(f"    {triplet.text}", style="dim")
        span = Span(note.triplets.doc_id, triplet.start, triplet.end)
        told = _spelled(span) if places is None else f"{place(places.citation(span))}  {places.quote(span)}"
        say(f"      from {told}".rstrip(), style="dim")


_MADE = {"model": "written by a model", "rules": "made by rules, verbatim", "copy": "a copy of its paragraph"}


def _say_quoted(span: Span, places: Locations, before: str = "") -> None:
    say(f"    {before}{place(places.citation(span))}  {places.quote(span)}".rstrip(), style="dim")


def say_tree(summary: Step, notes: Sequence[MergeNote]) -> None:
    """Print the tree of merges: what each remaining chunk was made of, the host above the source."""
    from rich.text import Text
    from rich.tree import Tree

    made = {note.result.number: note for note in notes if note.taken}
    used = {node.number for note in made.values() for node in (note.source, note.host)}
    tree = Tree(Text(f"merged: {summary.reason}"), style="dim", guide_style="dim")
    for number in [number for number in made if number not in used]:
        _grow(tree, made[number].result, made)
    for note in [note for note in notes if not note.taken]:
        _grow(tree, note.result, {note.result.number: note})
    say_drawn(tree)


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
