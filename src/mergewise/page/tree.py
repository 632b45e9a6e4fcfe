"""The trace as a tree: evidence, the names in it, the sections they lead to, and merges with their parts.

The parent of a hop is the evidence with its name. The parent of a section reached by a hop is the hop. The parent of a merge's
part is the merge. The rest has the question as its parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mergewise.page.markup import Markup, shorten, tag
from mergewise.page.passages import score
from mergewise.page.reasons import KIND_OF_CAUSE, KINDS, RANK
from mergewise.page.source_texts import Overlaps, Places
from mergewise.text.markup import readable
from mergewise.types import Cause, Context, HopNote, Span, Step

BRANCHES = 12  # branches shown at once; the rest are in a collapsed list
LONGEST_EVIDENCE, LONGEST_NAME, LONGEST_REASON = 130, 60, 300  # characters
_MERGES = ("merged", "fused")
_TOOK_NOTHING = (Cause.LINK, Cause.MISSING, Cause.LEFT, Cause.SKIP, Cause.DROP, Cause.STOP)


@dataclass(slots=True)
class TraceNode:
    """A span that a step took or linked. `kind` is one of `KINDS`, "link" or "evidence"; `first` is the number of the step."""

    kind: str
    step: Step | None
    span: Span
    first: int
    children: list[TraceNode] = field(default_factory=list)


class TraceTree:
    """The nodes of a trace, up to a limit. `more` counts the steps beyond the limit."""

    def __init__(self, trace: Sequence[Step], most: int) -> None:
        self.roots: list[TraceNode] = []
        self.more = 0
        self._nodes: list[TraceNode] = []
        for number, step in enumerate(trace):
            is_link = step.cause is Cause.LINK and step.output is not None and bool(step.inputs)
            kind = "link" if is_link else KIND_OF_CAUSE.get(step.cause)
            if not kind or not step.covers:
                continue
            if len(self._nodes) >= most:
                self.more += 1
            elif is_link:
                evidence = step.inputs[0]
                near = [node for node in self._nodes if node.span.overlaps(evidence)]
                above = self._last(node for node in near if node.kind not in ("link", "merged"))
                if above is None:
                    link = self._last(node for node in near if node.kind == "link")
                    above = self._add("evidence", None, evidence, number, link.children if link else self.roots)
                self._add("link", step, step.covers[0], number, above.children)
            elif step.cause in (Cause.MERGE, Cause.FUSION):
                wholes = [step.output] if step.output else step.inputs
                parts = [
                    node
                    for node in self.roots
                    if node.kind not in ("link", *_MERGES) and any(whole.contains(node.span) for whole in wholes)
                ]
                self.roots = [node for node in self.roots if node not in parts]
                self._add(kind, step, wholes[0], number, self.roots).children += parts
            else:
                for span in step.covers:
                    same = next((node for node in self._nodes if node.span == span and node.kind != "link"), None)
                    if same is None and len(self._nodes) < most:
                        above = self._last(node for node in self._nodes if _is_child(span, kind, node))
                        self._add(kind, step, span, number, above.children if above else self.roots)
                    elif same is not None and (same.kind == "evidence" or RANK[kind] < RANK[same.kind]):
                        same.kind, same.step = kind, step

    def _add(self, kind: str, step: Step | None, span: Span, first: int, among: list[TraceNode]) -> TraceNode:
        node = TraceNode(kind, step, span, first)
        self._nodes.append(node)
        among.append(node)
        return node

    def _last(self, nodes: Iterable[TraceNode]) -> TraceNode | None:
        return next(iter(reversed(list(nodes))), None)


def _is_child(span: Span, kind: str, node: TraceNode) -> bool:
    if node.kind == "link" and kind == "hop":
        return node.span.overlaps(span)
    return node.kind in _MERGES and node.span.contains(span)


def first_steps(context: Context, most: int) -> list[int]:
    """Return, for each of the first `most` passages, the number of the first step that took some of its text."""
    taking = [(number, step.covers) for number, step in enumerate(context.trace) if step.cause not in _TOOK_NOTHING]
    return [
        next(
            (
                number
                for number, covers in taking
                if any(own.overlaps(span) for span in covers for own in passage.spans)
            ),
            0,
        )
        for passage in context.passages[:most]
    ]


class TreePicture:
    """The drawing of a context's trace as a tree."""

    def __init__(self, context: Context, places: Places) -> None:
        self._context, self._places = context, places
        parts = [
            (number, span, text)
            for number, passage in enumerate(context.passages, 1)
            for span, text in (passage.parts() if passage.verbatim else [(span, "") for span in passage.spans])
        ]
        self._parts = Overlaps(parts, lambda part: part[1])

    def draw(self, most: int, linked: int) -> Markup | None:
        """Draw up to `most` nodes, branches with text of the context first. The first `linked` passages are on the page."""
        tree = TraceTree(self._context.trace, most)
        if not tree.roots:
            return None
        ranked = sorted(tree.roots, key=lambda node: (not self._is_used(node), node.first))
        branches = [self._node(node, linked) for node in ranked]
        rest = branches[BRANCHES:]
        further = f" {tree.more} more steps are not shown." if tree.more else ""
        return tag(
            "figure",
            tag("a", "Question", href="#question", class_="hop-question"),
            tag("ul", *branches[:BRANCHES]),
            tag("details", tag("summary", f"{len(rest)} more"), tag("ul", *rest)) if rest else None,
            tag("figcaption", f"Pale: not in the context.{further}"),
            class_="tree hops",
            aria_label="The trace as a tree",
        )

    def _is_used(self, node: TraceNode) -> bool:
        return bool(self._parts.at(node.span)) or any(map(self._is_used, node.children))

    def _node(self, node: TraceNode, linked: int) -> Markup:
        number = min((number for number, _, _ in self._parts.at(node.span)), default=0)
        leads = node.kind in ("link", "merged")
        words = self._section(node.span, number) if leads else self._quote(node.span)
        anchor = f"#p{number}" if 0 < number <= linked else None
        href = self._places.address(node.span) or anchor
        cite = tag("a", str(number), href=anchor, class_="cite", aria_label=f"Passage {number}")
        reason = shorten(node.step.reason, LONGEST_REASON) if node.step else None
        return tag(
            "li",
            tag("span", _label(node), class_=f"chip {_CLASSES.get(node.kind, node.kind)}", title=reason, dir="auto"),
            tag("span", " → ", aria_label="leads to", role="img") if node.kind == "link" else " ",
            tag("a" if href else "span", words, href=href, class_="section" if leads else "evidence", dir="auto"),
            [" ", cite] if anchor else None,
            score(node.step.score) if node.step else None,
            tag("ul", *(self._node(child, linked) for child in node.children)) if node.children else None,
            class_=None if number else "pale",
            data_step=node.first,
        )

    def _quote(self, span: Span) -> str:
        """Return the text of a span from its document, or from a passage if the document is not available."""
        inside = (text[max(0, span.start - own.start) : span.end - own.start] for _, own, text in self._parts.at(span))
        whole = self._places.text(span) or next(inside, "")
        return shorten(readable(whole).strip("| \n"), LONGEST_EVIDENCE) or self._places.location(span)

    def _section(self, span: Span, number: int) -> str:
        """Name a section by its innermost heading, its document's title, or its first line."""
        passage = self._context.passages[number - 1] if number else None
        if passage is not None and (passage.headings or passage.title):
            return shorten((passage.title, *passage.headings)[-1], LONGEST_NAME)
        lines = [line.strip("#*= \t") for line in (self._places.text(span) or "").splitlines()]
        return shorten(next(filter(None, lines), "") or self._places.location(span), LONGEST_NAME)


_CLASSES = {"link": "hop", "evidence": "taken"}


def _label(node: TraceNode) -> str:
    note = node.step.note if node.step else None
    if node.kind == "link":
        return f"“{shorten(note.name, LONGEST_NAME)}”" if isinstance(note, HopNote) else "hop"
    return "evidence" if node.kind == "evidence" else KINDS[node.kind].label
