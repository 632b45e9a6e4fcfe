"""The hops as a nested list: the question, the evidence that holds a name, the name, and the section that defines it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mergewise.page.markup import Markup, shorten, tag
from mergewise.page.reasons import Marks
from mergewise.page.source_texts import Places
from mergewise.text.markup import readable
from mergewise.types import Context, HopNote, Span, Step

PALE = 2  # hops that are shown though nothing of their section was taken
LONGEST_EVIDENCE, LONGEST_NAME = 120, 60  # characters


@dataclass(frozen=True, slots=True)
class Hop:
    """A step from evidence by a name to a section. `used`: something of the section is in the context."""

    number: int
    name: str
    evidence: Span
    target: Span
    score: float
    used: bool


@dataclass(slots=True)
class HopEvidence:
    """Evidence with the hops that lead on from it, each with the evidence that stands where it led to."""

    span: Span
    hops: list[tuple[Hop, list[HopEvidence]]] = field(default_factory=list)


def hops_of(trace: Sequence[Step], marks: Marks) -> list[Hop]:
    """Those that led to text in the context first, then the strongest."""
    hops = [
        Hop(note.number, note.name, step.inputs[0], step.output, step.score or 0.0, bool(marks.taken.at(step.output)))
        for step in trace
        if isinstance(note := step.note, HopNote) and step.inputs and step.output is not None
    ]
    return sorted(hops, key=lambda hop: (not hop.used, -hop.score))


def hop_list(context: Context, marks: Marks, places: Places, most: int) -> Markup | None:
    """The most telling hops; None where none led to what is in the context."""
    hops = hops_of(context.trace, marks)
    used = sum(hop.used for hop in hops)
    if not used:
        return None
    shown = hops[: min(most, used + PALE)]
    more = f" {len(hops) - len(shown)} more in the trace." if len(hops) > len(shown) else ""
    pale = " Pale: nothing of the section was taken." if not all(hop.used for hop in shown) else ""
    caption = f"Evidence that names something, and where the name leads.{pale}{more}"
    question = tag("a", "Question", href="#question", class_="hop-question")
    evidence = [_evidence(one, context, places) for one in _tree(shown, context)]
    return tag("figure", question, tag("ul", *evidence), tag("figcaption", caption), class_="hops")


def _tree(hops: Sequence[Hop], context: Context) -> list[HopEvidence]:
    """Evidence hangs on an earlier hop to the section where it stands, else on the question."""
    root: list[HopEvidence] = []
    sections: list[tuple[Hop, list[HopEvidence]]] = []
    known: dict[Span, HopEvidence] = {}
    for hop in sorted(hops, key=lambda hop: hop.number):
        if hop.evidence not in known:
            known[hop.evidence] = HopEvidence(hop.evidence)
            above = (
                below
                for earlier, below in sections
                if earlier.number < hop.number and _same_section(earlier.target, hop.evidence, context)
            )
            next(above, root).append(known[hop.evidence])
        sections.append((hop, []))
        known[hop.evidence].hops.append(sections[-1])
    return root


def _same_section(target: Span, evidence: Span, context: Context) -> bool:
    """Whether the evidence stands where a hop led to: in its leaf, or in one passage with it, which is of one section."""
    together = (p for p in context.passages if _in(p.spans, target) and _in(p.spans, evidence))
    return target.overlaps(evidence) or any(together)


def _in(spans: Sequence[Span], other: Span) -> bool:
    return any(span.overlaps(other) for span in spans)


def _evidence(evidence: HopEvidence, context: Context, places: Places) -> Markup:
    text = readable(_text(evidence.span, context, places) or "").strip("| \n") or places.location(evidence.span)
    hops = [_hop(hop, below, context, places) for hop, below in evidence.hops]
    return tag("li", _link(shorten(text, LONGEST_EVIDENCE), evidence.span, context, "evidence"), tag("ul", *hops))


def _hop(hop: Hop, below: Sequence[HopEvidence], context: Context, places: Places) -> Markup:
    section = shorten(_section(hop.target, context, places), LONGEST_NAME)
    return tag(
        "li",
        tag("b", shorten(hop.name, LONGEST_NAME), dir="auto"),
        tag("span", " → ", aria_label="leads to", role="img"),
        _link(section, hop.target, context, "section"),
        tag("ul", *(_evidence(one, context, places) for one in below)) if below else None,
        class_=None if hop.used else "pale",
    )


def _link(label: str, span: Span, context: Context, kind: str) -> Markup:
    """A link to the passage that holds some of the span; the label alone where none does."""
    number = next((n for n, passage in enumerate(context.passages, 1) if _in(passage.spans, span)), None)
    return tag("span" if number is None else "a", label, href=number and f"#p{number}", class_=kind, dir="auto")


def _text(span: Span, context: Context, places: Places) -> str | None:
    """The text of a span: from its document, or as far as a passage holds it."""
    parts = (part for p in context.passages if p.verbatim for part in p.parts() if part[0].overlaps(span))
    inside = (text[max(0, span.start - own.start) : span.end - own.start] for own, text in parts)
    whole = places.text(span)
    return next(inside, None) if whole is None else whole


def _section(span: Span, context: Context, places: Places) -> str:
    """A section by its innermost heading, its document's title, or its first line."""
    passage = next((p for p in context.passages if _in(p.spans, span)), None)
    if passage is not None and (passage.headings or passage.title):
        return (passage.title, *passage.headings)[-1]
    lines = [line.strip("#*= \t") for line in (places.text(span) or "").splitlines()]
    return next(filter(None, lines), "") or places.location(span)
