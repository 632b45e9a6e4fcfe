"""The hops as a graph: the question, the evidence that holds a name, the name, and the section that defines it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from unicodedata import east_asian_width

from mergewise.page.marks import Marks
from mergewise.page.markup import Markup, join, shorten, tag
from mergewise.page.places import Places
from mergewise.text.markup import readable
from mergewise.types import Context, Span, Step

_NAME = re.compile(r"“(.+)”", re.DOTALL)
_NUMBER = re.compile(r"(\d+)")

QUESTION, EVIDENCE, NAME, SECTION = "question", "evidence", "name", "section"
WIDTHS = {QUESTION: 84, EVIDENCE: 214, NAME: 118, SECTION: 174}
LETTERS = {EVIDENCE: 27, NAME: 14, SECTION: 20}  # in a line of a box; wide ones count twice
FAINT = 2  # hops that are drawn though nothing of their section was taken
LINES = {EVIDENCE: 4, NAME: 2, SECTION: 2}
GAP, ROW, LINE, PAD = 30, 22, 16, 9


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
class Node:
    """A box of the graph and those that it leads to."""

    kind: str
    label: str
    href: str | None = None
    faint: bool = False
    children: list[Node] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    lines: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        return WIDTHS[self.kind]

    @property
    def height(self) -> int:
        return LINE * len(self.lines) + 2 * PAD


def hops_of(trace: Sequence[Step], marks: Marks) -> list[Hop]:
    """Those that led to text in the context first, then the strongest."""
    found = [_hop(step, marks) for step in trace if step.action == "hop" and step.inputs and step.output is not None]
    return sorted(found, key=lambda hop: (not hop.used, -hop.score))


def _hop(step: Step, marks: Marks) -> Hop:
    assert step.output is not None
    note = {} if step.note is None else step.note.as_dict()
    quoted, counted = _NAME.search(step.reason), _NUMBER.match(step.reason)
    name = note.get("name") or (quoted[1] if quoted else step.reason)
    number = note.get("hop") or (counted[1] if counted else 1)
    used = bool(marks.taken.at(step.output))
    return Hop(int(str(number)), str(name), step.inputs[0], step.output, step.score or 0.0, used)


def hop_graph(context: Context, marks: Marks, places: Places, most: int) -> Markup | None:
    """The graph of the most telling hops; None where none led to what is in the context."""
    hops = hops_of(context.trace, marks)
    used = [hop for hop in hops if hop.used]
    shown = hops[: min(most, len(used) + FAINT)]
    if not used:
        return None
    root = _tree(context, shown, places)
    width, height = _laid_out(root)
    title = f"{len(shown)} hops from the question over evidence and names to sections"
    drawn = tag(
        "svg",
        tag("title", title),
        tag("g", *_edges(root), class_="edges"),
        *_boxes(root),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="group",
        aria_label=title,
    )
    more = f" {len(hops) - len(shown)} more in the trace." if len(hops) > len(shown) else ""
    faint = " Pale: nothing of the section was taken." if not all(hop.used for hop in shown) else ""
    caption = tag("figcaption", "Evidence that names something, and where the name leads." + faint + more)
    return tag(
        "figure",
        tag("div", drawn, class_="scroll", tabindex="0", role="region", aria_label="Hops"),
        caption,
        class_="hops",
    )


def _tree(context: Context, hops: Sequence[Hop], places: Places) -> Node:
    """Evidence hangs on the section of an earlier hop where it stands there, else on the question."""
    root = Node(QUESTION, "Question", "#question")
    sections: list[tuple[Hop, Node]] = []
    evidence: dict[Span, Node] = {}
    for hop in sorted(hops, key=lambda hop: hop.number):
        node = evidence.get(hop.evidence)
        if node is None:
            label = readable(_text(hop.evidence, context, places) or "").strip("| \n") or places.spelled(hop.evidence)
            node = evidence[hop.evidence] = Node(EVIDENCE, label, _link(hop.evidence, context))
            above = (n for h, n in sections if h.number < hop.number and _same_section(h.target, hop.evidence, context))
            next(above, root).children.append(node)
        section = Node(SECTION, _section(hop.target, context, places), _link(hop.target, context), not hop.used)
        node.children.append(Node(NAME, hop.name, None, not hop.used, [section]))
        sections.append((hop, section))
    return root


def _same_section(target: Span, evidence: Span, context: Context) -> bool:
    """Whether the evidence stands where a hop led to: in its leaf, or in one passage with it, which is of one section."""
    together = (p for p in context.passages if _in(p.spans, target) and _in(p.spans, evidence))
    return target.overlaps(evidence) or any(together)


def _in(spans: Sequence[Span], other: Span) -> bool:
    return any(span.overlaps(other) for span in spans)


def _link(span: Span, context: Context) -> str | None:
    return next((f"#p{n}" for n, p in enumerate(context.passages, 1) if _in(p.spans, span)), None)


def _text(span: Span, context: Context, places: Places) -> str | None:
    """The text of a span: from its document, or as far as a passage holds it."""
    whole = places.text(span)
    if whole is not None:
        return whole
    parts = [part for p in context.passages if p.verbatim for part in p.parts() if part[0].overlaps(span)]
    inside = [text[max(0, span.start - own.start) : span.end - own.start] for own, text in parts]
    return inside[0] if inside else None


def _section(span: Span, context: Context, places: Places) -> str:
    """A section by its innermost heading, its document's title, or its first line."""
    passage = next((p for p in context.passages if _in(p.spans, span)), None)
    if passage is not None and (passage.headings or passage.title):
        return (passage.title, *passage.headings)[-1]
    lines = [line.strip("#*= \t") for line in (places.text(span) or "").splitlines()]
    return next(filter(None, lines), "") or places.spelled(span)


def _laid_out(root: Node) -> tuple[int, int]:
    """Give every box its place: leaves below each other, the others in the middle of what they lead to."""
    _wrap(root)
    right, bottom = _place(root, 1.0, 1.0)
    return round(right + 2), round(bottom + 2)


def _wrap(node: Node) -> None:
    node.lines = _lines(node.label, LETTERS[node.kind], LINES[node.kind]) if node.kind in LETTERS else [node.label]
    for child in node.children:
        _wrap(child)


def _place(node: Node, x: float, y: float) -> tuple[float, float]:
    """Place the node and all below it from this corner on; how far right and down they reach."""
    node.x = x
    right, bottom = x + node.width, y
    for i, child in enumerate(node.children):
        far, bottom = _place(child, x + node.width + GAP, bottom + (ROW if i else 0))
        right = max(right, far)
    if not node.children:
        node.y = y
        return right, y + node.height
    first, last = node.children[0], node.children[-1]
    middle = (first.y + first.height / 2 + last.y + last.height / 2) / 2
    node.y = max(y, middle - node.height / 2)
    return right, max(bottom, node.y + node.height)


def _lines(label: str, letters: int, most: int) -> list[str]:
    """The label in lines of so many letters, with an ellipsis where there were more."""
    lines: list[str] = [""]
    for word in " ".join(label.split()).split(" "):
        for piece in _split(word, letters):
            longer = f"{lines[-1]} {piece}".strip()
            if _wide(longer) <= letters:
                lines[-1] = longer
            else:
                lines.append(piece)
    if len(lines) > most:
        last = lines[most - 1]
        while _wide(last) >= letters:
            last = last[:-1]
        lines = [*lines[: most - 1], last.rstrip() + "…"]
    return lines


def _split(word: str, letters: int) -> Iterator[str]:
    while _wide(word) > letters:
        size = letters if _wide(word) == len(word) else letters // 2
        yield word[:size]
        word = word[size:]
    yield word


def _wide(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _edges(node: Node) -> Iterator[Markup]:
    for child in node.children:
        x1, y1 = node.x + node.width, node.y + node.height / 2
        x2, y2 = child.x, child.y + child.height / 2
        bend = (x1 + x2) / 2
        path = f"M{x1:g} {y1:g}C{bend:g} {y1:g} {bend:g} {y2:g} {x2:g} {y2:g}"
        yield tag("path", d=path, class_="faint" if child.faint else None)
        yield from _edges(child)


def _boxes(node: Node) -> Iterator[Markup]:
    radius = node.height / 2 if node.kind in (NAME, QUESTION) else 8
    box = tag("rect", x=f"{node.x:g}", y=f"{node.y:g}", width=node.width, height=node.height, rx=f"{min(radius, 18):g}")
    x = node.x + (node.width / 2 if node.kind in (NAME, QUESTION) else 12)
    spans = [tag("tspan", line, x=f"{x:g}", y=f"{node.y + PAD + 12 + LINE * i:g}") for i, line in enumerate(node.lines)]
    content = [tag("title", shorten(node.label, 300)), box, tag("text", join(spans, " "))]
    kind = f"node {node.kind}" + (" faint" if node.faint else "")
    if node.href is None:
        yield tag("g", *content, class_=kind)
    else:
        yield tag("a", *content, class_=kind, href=node.href)
    for child in node.children:
        yield from _boxes(child)
