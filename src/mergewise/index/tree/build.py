"""Construction of the tree view from documents: document > section > leaf (Auto-Merge retrieval).

Sections follow the headings. A stretch without headings that is longer than `section_tokens` is divided at blank lines. Small
sibling sections are joined. Leaves consist of whole sentences up to `leaf_tokens` and never cross a heading. At every depth the
children tile their parent: no character is lost or repeated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Annotated, Literal, NamedTuple

from mergewise.protocols import TokenCounter
from mergewise.ranges import CheckedFields, Range
from mergewise.store.views import Presets
from mergewise.text.languages import ENGLISH, UNKNOWN, document_language, neutral_lengths
from mergewise.text.markup import readable, says_something
from mergewise.text.sections import outline_of, paragraphs, shared_path, short_name
from mergewise.text.sentences import MAX_CHARS_PER_TOKEN, split_long, strip_span
from mergewise.text.spans import texts_at
from mergewise.text.units import ITEM, TextUnit, split_units
from mergewise.types import Document, DocumentUnit, Heading, Kind, Lead, Leaf, Section, Sentence, frozen

_SIZE = Range(1, 1_000_000)


@frozen
class TreeSettings(CheckedFields):
    """Sizes in tokens of the built-in counter, or in characters. With the defaults, contexts of SQuAD hold the
    whole evidence for .78, .90 and .93 of the questions at 128, 384 and 640 tokens.

    Text in other languages counts as many tokens as English text of the same length (`text.languages.analysis`).
    Leaves have two sizes, because half a sentence is worth little.
    """

    leaf_tokens: Annotated[int, _SIZE, "size up to which sentences share a leaf"] = 64
    max_leaf_tokens: Annotated[int, _SIZE, "size above which a sentence is split"] = 160
    section_tokens: Annotated[int, _SIZE, "size above which text without headings is divided at blank lines"] = 384
    min_section_tokens: Annotated[int, Range(0, 1_000_000), "size up to which neighbouring sections are joined"] = 96
    unit: Annotated[Literal["tokens", "characters"], "unit of these sizes"] = "tokens"


PRESETS: Presets = {
    "paper": {
        "leaf_tokens": 200,
        "max_leaf_tokens": 1_000_000,
        "section_tokens": 1_000_000,
        "min_section_tokens": 500,
        "unit": "characters",
    }
}
"""`paper`: the text on Auto-Merge retrieval. Leaves have 200 characters, and sections with fewer than 500 are joined."""


@frozen
class Tree:
    """One document's nodes: leaves in document order, and sections in pre-order, beginning with the document itself.

    Ids count from 0, leaves before sections. The store moves them into the document's own range.
    """

    leaves: tuple[Leaf, ...]
    sections: tuple[Section, ...]


def build_trees(
    documents: Sequence[Document], count_tokens: TokenCounter, settings: TreeSettings = TreeSettings()
) -> list[Tree]:
    """Build a tree for each document, with ids from 0. One call tokenises the sentences of all documents."""
    outlines = [_clean_outline(document) for document in documents]
    plains = [readable(document.text) for document in documents]
    cut = list(map(_units, documents, outlines, plains))
    counts = iter(
        count_tokens([d.text[u.start : u.end] for d, units in zip(documents, cut, strict=True) for u in units])
    )
    trees = []
    for document, outline, plain, units in zip(documents, outlines, plains, cut, strict=True):
        counted = [unit._replace(tokens=next(counts)) for unit in units]
        measure = count_tokens if _is_english(document) else neutral_lengths
        measure = _characters if settings.unit == "characters" else measure
        if measure is not count_tokens:
            lengths = measure([document.text[unit.start : unit.end] for unit in units])
            counted = [unit._replace(own_size=length) for unit, length in zip(counted, lengths, strict=True)]
        sized = _split_long(document.text, counted, count_tokens, measure, settings.max_leaf_tokens)
        root = _heading_tree(document.text, outline, sized)
        _divide(document, root, settings)
        _weigh(root)
        _join_small(root, settings.min_section_tokens)
        trees.append(_Emitter(document, plain, settings.leaf_tokens).tree(_collapse(root)))
    return trees


def _characters(texts: Sequence[str]) -> list[int]:
    return [len(text.strip()) for text in texts]


def _is_english(document: Document) -> bool:
    """Return whether sizes are in tokens of the built-in counter: for English and unknown languages."""
    return document_language(document) in (ENGLISH, UNKNOWN)


class _SizedUnit(NamedTuple):
    """A unit with the white space after it, or a heading's line. The units of a document tile its text.

    `lead` is the start of the unit that this one needs before it. `own_size` replaces `tokens` in comparisons with settings.
    """

    start: int
    end: int
    tokens: int = 0
    lead: int | None = None
    own_size: int | None = None
    kind: Kind = "prose"

    @property
    def size(self) -> int:
        return self.tokens if self.own_size is None else self.own_size


@dataclass(slots=True)
class _TreeNode:
    """A section under construction. Its text is that of its own units, then that of its children."""

    start: int
    end: int
    # start of the text after the leading headings
    body: int
    headings: tuple[str, ...]
    units: list[_SizedUnit] = field(default_factory=list)
    children: list[_TreeNode] = field(default_factory=list)
    # true if the children are small sections whose leaves become direct children of this node
    joined: bool = False
    # sums over its own units and all units below
    tokens: int = 0
    size: int = 0


def _clean_outline(document: Document) -> list[Heading]:
    """Return the headings in order, without headings outside the text, in another heading, inside a given unit or empty."""
    outline = outline_of(document)
    kept: list[Heading] = []
    for heading in sorted(outline, key=lambda h: (h.start, -h.end)):
        fits = 0 <= (kept[-1].end if kept else 0) <= heading.start <= heading.end <= len(document.text)
        # a heading without a title and a line: the text after an entry continues its section
        fits = fits and (heading.start < heading.end or not heading.title)
        if fits and not _is_inside_unit(document.units, heading.start):
            kept.append(heading)
    ends = [*(heading.start for heading in kept[1:]), len(document.text)]
    return [heading for heading, end in zip(kept, ends, strict=False) if document.text[heading.start : end].strip()]


def _is_inside_unit(units: Sequence[DocumentUnit], position: int) -> bool:
    """Return whether a position is inside a given unit, and not at its start."""
    at = bisect_left(units, (position, 0)) - 1
    return at >= 0 and units[at][0] < position < units[at][1]


def _units(document: Document, outline: Sequence[Heading], plain: str) -> list[_SizedUnit]:
    """Split a document into units. A heading is a unit by itself. No unit crosses a heading or the bounds of a given unit.

    `plain` is the text without mark-up.
    """
    text = document.text
    language = ENGLISH if _is_english(document) else document_language(document)
    bounds = {0, len(text), *(bound for unit in document.units for bound in unit[:2])}
    heading_starts = {h.start for h in outline if h.start < h.end}
    # a section without a heading's line begins with its first unit
    bare = {h.start for h in outline} - heading_starts
    kinds = {unit[0]: unit[2] for unit in document.units if len(unit) > 2}
    # the start of each unit with that of its lead, and its kind
    starts: dict[int, tuple[int | None, Kind]] = {}
    for start, end in pairwise(sorted(bounds.union(*((h.start, h.end) for h in outline)))):
        kind = kinds.get(start, "prose")
        whole = start in heading_starts or (kind != "prose" and end - start <= ITEM)
        stretch = [TextUnit(0, end - start)] if whole else split_units(text[start:end], language, plain[start:end])
        for number, unit in enumerate(stretch):
            lead = unit.lead if kind == "prose" or not number else 0
            of = None if lead is None else start + stretch[lead].start
            at = start if start in bare and not number else start + unit.start
            starts[at] = of, unit.kind if kind == "prose" else kind
    if not starts:
        return [_SizedUnit(0, len(text))] if text else []
    begins = [0, *list(starts)[1:]]
    first = next(iter(starts))
    return [
        _SizedUnit(a, b, 0, 0 if lead == first else lead, None, kind)
        for a, b, (lead, kind) in zip(begins, [*begins[1:], len(text)], starts.values(), strict=True)
    ]


def _split_long(
    text: str, units: list[_SizedUnit], count_tokens: TokenCounter, measure: TokenCounter, limit: int
) -> list[_SizedUnit]:
    """Split the units that `measure` finds longer than a leaf, at clause or word bounds."""

    def size(piece: str) -> int:
        return measure([piece])[0]

    most = limit * MAX_CHARS_PER_TOKEN
    bounded: list[_SizedUnit] = []
    for unit in units:
        if unit.size <= limit and unit.end - unit.start <= most:
            bounded.append(unit)
        else:
            pieces = split_long(text, unit.start, unit.end, limit, size)
            tokens = count_tokens(texts_at(text, pieces))
            own_sizes = [None if unit.own_size is None else size(text[a:b]) for a, b in pieces]
            rest = None if unit.kind == "prose" else unit.start
            bounded += [
                # a piece of a row or a line needs the first one
                _SizedUnit(a, b, count, unit.lead if a == unit.start else rest, own_size, unit.kind)
                for (a, b), count, own_size in zip(pieces, tokens, own_sizes, strict=True)
            ]
    return bounded


# -- sections


def _heading_tree(text: str, outline: Sequence[Heading], units: Sequence[_SizedUnit]) -> _TreeNode:
    """Build nodes nested by heading level. Each node has the units from its heading to the next."""
    root = _TreeNode(0, len(text), 0, ())
    stack = [(0, root)]
    bounds = [*(heading.start for heading in outline), len(text)]
    if not text[: bounds[0]].strip():
        bounds[0] = 0
    starts = [unit.start for unit in units]
    root.units = list(units[: bisect_left(starts, bounds[0])])
    root.body = _body(text, 0, bounds[0])
    for heading, start, end in zip(outline, bounds, bounds[1:], strict=False):
        level = max(heading.level, 1)
        while stack[-1][0] >= level:
            stack.pop()
        parent = stack[-1][1]
        titles = (short_name(heading.title),) if heading.title else ()
        node = _TreeNode(start, end, _body(text, heading.end, end), (*parent.headings, *titles))
        node.units = list(units[bisect_left(starts, start) : bisect_left(starts, end)])
        parent.children.append(node)
        stack.append((level, node))
    _set_ends(root, len(text))
    _lower_bare_headings(root)
    return root


def _body(text: str, start: int, end: int) -> int:
    """Return the position of the first character other than white space, or `end`."""
    first, last = strip_span(text, start, end)
    return first if first < last else end


def _set_ends(node: _TreeNode, end: int) -> None:
    """Set the ends of sections. A section ends with its last child."""
    node.end = end
    for child, until in zip(node.children, [*(after.start for after in node.children[1:]), end], strict=False):
        _set_ends(child, until)


def _lower_bare_headings(node: _TreeNode) -> None:
    """Move a heading without text in front of its first child's text, so that it does not become a leaf by itself."""
    bare = node.children and (not node.units or node.body >= node.children[0].start)
    if bare:
        first = node.children[0]
        first.units[:0] = node.units
        first.start = node.start
        node.units = []
    for child in node.children:
        _lower_bare_headings(child)


def _divide(document: Document, node: _TreeNode, settings: TreeSettings) -> None:
    """Divide a long text without headings into sections at blank lines, before the node's other children."""
    for child in node.children:
        _divide(document, child, settings)
    if sum(u.size for u in node.units) <= settings.section_tokens:
        return
    units = node.units
    starts = {start for start, _ in paragraphs(document.text, units[0].start, units[-1].end)}
    starts = {start for start in starts if not _is_inside_unit(document.units, start)}
    bounds = [0, *(i for i, unit in enumerate(units) if i and unit.start in starts), len(units)]
    groups: list[list[_SizedUnit]] = []
    size = 0
    for paragraph in (units[first:end] for first, end in pairwise(bounds)):
        more = sum(u.size for u in paragraph)
        if groups and (size < settings.min_section_tokens or size + more <= settings.section_tokens):
            groups[-1] += paragraph
            size += more
        else:
            groups.append(paragraph)
            size = more
    if len(groups) > 1:
        parts = [_TreeNode(g[0].start, g[-1].end, g[0].start, node.headings, g) for g in groups]
        parts[0].body = node.body
        node.children[:0] = parts
        node.units = []


def _weigh(node: _TreeNode) -> None:
    for child in node.children:
        _weigh(child)
    node.tokens = sum([part.tokens for parts in (node.units, node.children) for part in parts])
    node.size = sum([part.size for parts in (node.units, node.children) for part in parts])


def _join_small(node: _TreeNode, limit: int) -> None:
    """Join neighbouring child sections up to `limit`."""
    joined: list[_TreeNode] = []
    for child in node.children:
        if joined and joined[-1].size + child.size <= limit:
            left = joined[-1]
            joined[-1] = _TreeNode(
                left.start,
                child.end,
                left.start,
                shared_path([left.headings, child.headings]),
                children=[*(left.children if left.joined else [left]), child],
                joined=True,
                tokens=left.tokens + child.tokens,
                size=left.size + child.size,
            )
        else:
            _join_small(child, limit)
            joined.append(child)
    node.children = joined


def _collapse(node: _TreeNode) -> _TreeNode:
    """Replace a section by its only child if it has no other content."""
    while not node.units and len(node.children) == 1:
        node = node.children[0]
    node.children = [_collapse(child) for child in node.children]
    return node


# -- rows


class _LeafDraft(NamedTuple):
    """A leaf before numbering. `path` has the section numbers, counted from 0."""

    node: _TreeNode
    path: tuple[int, ...]
    ordinal: int
    units: list[_SizedUnit]
    tokens: int


@dataclass(slots=True)
class _SectionDraft:
    node: _TreeNode
    ancestors: tuple[int, ...]
    ordinal: int
    first_leaf: int
    children: int = 0
    leaf_count: int = 0


class _Emitter:
    """The conversion of nodes to `Section` and `Leaf` records.

    Sections are numbered after the leaves, so both are drafts until the leaves are counted.
    """

    def __init__(self, document: Document, plain: str, leaf_tokens: int) -> None:
        self.document = document
        self.plain = plain
        self.title = short_name(document.title)
        self.leaf_tokens = leaf_tokens
        self.leaves: list[_LeafDraft] = []
        self.sections: list[_SectionDraft] = []

    def tree(self, root: _TreeNode) -> Tree:
        self._section(root, (), 0)
        by = len(self.leaves)
        sections = tuple(
            Section(
                id=number,
                doc_id=self.document.id,
                parent=draft.ancestors[-1] + by if draft.ancestors else None,
                depth=len(draft.ancestors),
                ordinal=draft.ordinal,
                children=draft.children,
                start=draft.node.start,
                end=draft.node.end,
                headings=self._headings(draft.node),
                first_leaf=draft.first_leaf,
                leaf_count=draft.leaf_count,
                tokens=draft.node.tokens,
            )
            for number, draft in enumerate(self.sections, start=by)
        )
        leaves: list[Leaf] = []
        # the start of a unit, with its leaf and its number among the leaf's sentences
        places: dict[int, tuple[int, int]] = {}
        for (_, path), drafts in groupby(self.leaves, key=lambda draft: (id(draft.node), draft.path)):
            below = list(drafts)
            headings, ancestors = self._headings(below[0].node), tuple([number + by for number in path])
            for draft in below:
                leaves.append(self._leaf(len(leaves), draft, headings, ancestors, places))
        return Tree(tuple(leaves), sections)

    def _section(self, node: _TreeNode, ancestors: tuple[int, ...], ordinal: int) -> None:
        draft = _SectionDraft(node, ancestors, ordinal, len(self.leaves))
        path = (*ancestors, len(self.sections))
        self.sections.append(draft)
        children = self._leaves(node, path, 0)
        for child in node.children:
            if node.joined:
                children += self._flatten(child, path, children)
            else:
                self._section(child, path, children)
                children += 1
        draft.children, draft.leaf_count = children, len(self.leaves) - draft.first_leaf

    def _flatten(self, node: _TreeNode, ancestors: tuple[int, ...], ordinal: int) -> int:
        """Add the leaves of a whole subtree as direct children. Return their number."""
        count = self._leaves(node, ancestors, ordinal)
        for child in node.children:
            count += self._flatten(child, ancestors, ordinal + count)
        return count

    def _leaves(self, node: _TreeNode, ancestors: tuple[int, ...], ordinal: int) -> int:
        runs = _leaf_runs(self.document, node, self.leaf_tokens) if node.units else []
        self.leaves += [_LeafDraft(node, ancestors, ordinal + i, *run) for i, run in enumerate(runs)]
        return len(runs)

    def _leaf(
        self,
        number: int,
        draft: _LeafDraft,
        headings: tuple[str, ...],
        ancestors: tuple[int, ...],
        places: dict[int, tuple[int, int]],
    ) -> Leaf:
        text = self.document.text
        start, end = draft.units[0].start, draft.units[-1].end
        body = max(start, draft.node.body)
        body = body if text[body:end].strip() else start
        sentences, leads = self._sentences(number, draft.units, body, places)
        return Leaf(
            id=number,
            doc_id=self.document.id,
            title=self.title,
            ancestors=ancestors,
            ordinal=draft.ordinal,
            start=start,
            end=end,
            body=body,
            headings=headings,
            text=text[start:end],
            tokens=draft.tokens,
            sentences=sentences,
            leads=leads,
        )

    def _sentences(
        self, leaf: int, units: Sequence[_SizedUnit], body: int, places: dict[int, tuple[int, int]]
    ) -> tuple[tuple[Sentence, ...], tuple[Lead, ...]]:
        """Return the units with content as sentences, and their leads. Add the sentences to `places`."""
        sentences: list[Sentence] = []
        leads: list[Lead] = []
        for unit in units:
            start, end = strip_span(self.document.text, max(unit.start, body), unit.end)
            if start == end or not says_something(self.plain[start:end]):
                continue
            if unit.lead in places:
                lead_leaf, lead_number = places[unit.lead]
                leads.append(Lead(len(sentences), leaf - lead_leaf, lead_number))
            places[unit.start] = leaf, len(sentences)
            sentences.append(Sentence(start, end, unit.tokens, unit.kind))
        return tuple(sentences), tuple(leads)

    def _headings(self, node: _TreeNode) -> tuple[str, ...]:
        """Return the heading path below the title. A first heading that repeats the title is left out."""
        repeats = node.headings and node.headings[0].strip() == self.title.strip()
        return node.headings[1:] if repeats else node.headings


def _leaf_runs(document: Document, node: _TreeNode, limit: int) -> list[tuple[list[_SizedUnit], int]]:
    """Group whole units into leaves up to the leaf size. Return the units and tokens of each leaf.

    The end of a paragraph also closes a leaf that is half full, but not between an announcement and its continuation. Headings
    stay with the text below them. A given unit is one leaf.
    """
    units, text = node.units, document.text
    paragraph_starts = {start for start, _ in paragraphs(text, units[0].start, units[-1].end)}
    given = {bound for unit in document.units for bound in unit[:2]}
    runs: list[tuple[list[_SizedUnit], int]] = []
    run, size = [units[0]], units[0].size
    for unit in units[1:]:
        at = unit.start
        announced = unit.lead == run[-1].start
        settled = 2 * size >= limit and at in paragraph_starts and not announced
        closes = at > node.body and (size + unit.size > limit or settled or at in given)
        if closes and not _is_inside_unit(document.units, at):
            # an announcement moves to the leaf of its continuation
            closed = run[:-1] if announced and len(run) > 1 and run[-1].start > node.body else run
            runs.append((closed, sum(u.tokens for u in closed)))
            run = run[len(closed) :]
            size = sum(u.size for u in run)
        run.append(unit)
        size += unit.size
    return [*runs, (run, sum(u.tokens for u in run))]
