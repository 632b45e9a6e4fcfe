"""The budget bar, with a segment for each passage and for the unused rest, and the legend of the marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mergewise.page.markup import Markup, tag
from mergewise.page.passages import stretches_of
from mergewise.page.reasons import KINDS, Marks, kinds_in
from mergewise.page.tree import first_steps
from mergewise.protocols import TokenCounter
from mergewise.text.blocks import blocks
from mergewise.types import Context, Passage

MOST = 60  # number of segments; all further passages share one


def shares(context: Context, count_tokens: TokenCounter | None) -> list[int]:
    """Return the tokens of each passage with its heading line. Without a counter, estimate them from the lengths."""
    rendered = list(blocks(context.passages))
    if count_tokens is not None:
        return count_tokens(rendered)
    lengths = [len(block) for block in rendered]
    return [round(context.tokens * length / max(1, sum(lengths))) for length in lengths]


def budget_bar(context: Context, tokens: Sequence[int], kinds: Sequence[str], linked: int, prefix: str = "p") -> Markup:
    """Draw the bar, each segment in the colour of its kind. The first `linked` segments link to passages on the page."""
    segments = []
    shown = zip(tokens[:MOST], kinds, first_steps(context, MOST), strict=False)
    for number, (share, kind, begun) in enumerate(shown, 1):
        label = f"Passage {number}: {share} tokens, {share / context.budget:.0%} of the budget"
        href = f"#{prefix}{number}" if number <= linked else None
        link = tag("a", str(number), href=href, title=label, aria_label=label, class_=f"k {kind}")
        segments.append(tag("li", link, style=f"flex-grow:{max(1, share)}", data_step=begun))
    if len(context.passages) > MOST:
        more = sum(tokens[MOST:])
        further = tag("span", f"{more} tokens in further passages", class_="sr")
        segments.append(tag("li", further, class_="more", style=f"flex-grow:{more}"))
    unused = max(0, context.budget - context.tokens)
    if unused:
        segments.append(tag("li", class_="rest", title=f"{unused} tokens unused", style=f"flex-grow:{unused}"))
    caption = f"{context.tokens:,} of {context.budget:,} tokens" + (f", {unused:,} unused" if unused else "")
    bar = tag("ol", *segments, class_="bar", aria_label="Tokens by passage")
    return tag("figure", bar, tag("figcaption", caption), class_="budget")


def main_kind(passage: Passage, marks: Marks) -> str:
    """Return the kind of most characters of the passage."""
    if not passage.verbatim:
        return "written"
    lengths: Counter[str] = Counter()
    for stretch in stretches_of(passage, marks):
        lengths[stretch.kind] += len(stretch.text) if stretch.kind else 0
    return max(lengths, key=lengths.__getitem__, default="taken") or "taken"


def legend(context: Context, marks: Marks, cited: bool) -> Markup:
    """Draw the legend: each kind on the page with its mark and its number of stretches."""
    stretches = [stretch for passage in context.passages for stretch in stretches_of(passage, marks)]
    lines = []
    for (kind, label), count in kinds_in(stretches).items():
        meaning = f"by the step “{label}”" if kind == "other" else KINDS[kind].meaning
        lines.append(tag("li", tag("mark", label, class_=f"k {kind}"), tag("span", f"{meaning} ({count})")))
    if any(not passage.verbatim for passage in context.passages):
        lines.append(tag("li", tag("mark", "written", class_="k written"), tag("span", KINDS["written"].meaning)))
    if cited:
        lines.append(tag("li", tag("span", "cited", class_="cited"), tag("span", "cited by the answer")))
    return tag("ul", *lines, class_="legend", aria_label="Legend")
