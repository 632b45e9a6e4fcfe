"""HTML pages of contexts, answers and comparisons: one self-contained file below 300 KB.

The functions share these optional arguments:

- `document` returns a document by its id (`Index.document`). With it, the page shows the surrounding text and line numbers.
- `count_tokens` counts tokens for the budget (`Index.tokens`).
- `link` returns the URL of a document's file, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mergewise.page.budget import MOST, budget_bar, legend, main_kind, shares
from mergewise.page.comparison import comparison_part
from mergewise.page.curves import CURVE_RULES as CURVE_RULES
from mergewise.page.curves import Curve as Curve
from mergewise.page.curves import CurveFigure as CurveFigure
from mergewise.page.curves import CurvePoint as CurvePoint
from mergewise.page.curves import figure_svg as figure_svg
from mergewise.page.detail import LIMIT, Detail, fit_page, notice
from mergewise.page.markup import Markup as Markup
from mergewise.page.markup import join as join
from mergewise.page.markup import shorten as shorten
from mergewise.page.markup import tag as tag
from mergewise.page.parts import answer_part, left_out, page_header, steps
from mergewise.page.passages import Anchor, PassageCards, anchors
from mergewise.page.reasons import Marks
from mergewise.page.shell import asset as asset
from mergewise.page.shell import html_page as html_page
from mergewise.page.source_texts import DocumentLookup, FileLink, Places, SpanAddress
from mergewise.page.tree import TreePicture
from mergewise.protocols import TokenCounter
from mergewise.types import Answer, Citation, Context, Step

__all__ = [
    "LIMIT",
    "answer_page",
    "comparison_fragment",
    "comparison_page",
    "context_fragment",
    "context_page",
    "notebook_frame",
]


def context_page(
    context: Context,
    *,
    document: DocumentLookup | None = None,
    count_tokens: TokenCounter | None = None,
    link: FileLink | None = None,
    limit: int = LIMIT,
) -> str:
    """Return the page of a context: budget, trace, passages with the reason of each part, and left-out candidates."""
    return _page(context, None, Places(document, link), count_tokens, limit)


def answer_page(
    answer: Answer,
    *,
    document: DocumentLookup | None = None,
    count_tokens: TokenCounter | None = None,
    link: FileLink | None = None,
    limit: int = LIMIT,
) -> str:
    """Return the page of an answer, with citations linked to the passages of its context."""
    return _page(answer.context, answer, Places(document, link), count_tokens, limit)


def comparison_page(
    contexts: Sequence[tuple[Context, float | None]],
    *,
    document: DocumentLookup | None = None,
    count_tokens: TokenCounter | None = None,
    link: FileLink | None = None,
    limit: int = LIMIT,
) -> str:
    """Return the page that compares contexts for one question, each with its time in seconds, if known."""
    question = contexts[0][0].question if contexts else ""

    def body(detail: Detail) -> str:
        head = page_header(question, f"{len(contexts)} strategies", detail)
        sides = comparison_part(contexts, Places(document, link), count_tokens, detail)
        return html_page(question, tag("div", head, *sides, class_="wide"), surroundings=False)

    return fit_page(body, limit, [context for context, _ in contexts])


def comparison_fragment(
    contexts: Sequence[tuple[Context, float | None]], *, document: DocumentLookup, address: SpanAddress
) -> str:
    """Return the columns of `comparison_page` as a fragment for the live page."""
    places = _live_places(document, address)
    shown = [context for context, _ in contexts]
    return _fragment(lambda detail: comparison_part(contexts, places, None, detail), shown)


def context_fragment(
    context: Context, citations: Sequence[Citation] = (), *, document: DocumentLookup, address: SpanAddress
) -> str:
    """Return the content of `context_page` below its header as a fragment for the live page.

    The `citations` of an answer are marked in the passages. `address` returns the live page's URL of a span.
    """
    drawing = _Drawing(context, _live_places(document, address), None, anchors(citations))
    facts = tag("p", drawing.facts(), class_="facts")
    return _fragment(lambda detail: [facts, notice(detail) or "", *drawing.parts(detail, set())], [context])


def _fragment(parts: Callable[[Detail], Sequence[str]], contexts: Sequence[Context]) -> str:
    """Draw a fragment. The live page's security policy forbids style attributes, so a script applies `data-style`."""
    page = fit_page(lambda detail: join(parts(detail)), 150_000, contexts)
    return page.replace(' style="', ' data-style="')


def _live_places(document: DocumentLookup, address: SpanAddress) -> Places:
    return Places(document, page=address, most=24, longest=100_000)


def notebook_frame(shown: Context | Answer) -> str:
    """Return the page of a context or an answer for notebooks."""
    context, answer = (shown.context, shown) if isinstance(shown, Answer) else (shown, None)
    # smaller than a file, because each quote takes six characters in `srcdoc`
    return frame(_page(context, answer, Places(), None, 150_000), shown.question)


def frame(page: str, title: str) -> str:
    """Return a page in an iframe for notebooks, so that its styles do not mix with the notebook's."""
    style = "width:100%;height:640px;border:0"
    return tag("iframe", srcdoc=page, title=f"mergewise: {title}", sandbox="allow-scripts", style=style)


def _page(
    context: Context, answer: Answer | None, places: Places, count_tokens: TokenCounter | None, limit: int
) -> str:
    drawing = _Drawing(context, places, count_tokens, anchors(answer.citations) if answer is not None else [])

    def body(detail: Detail) -> str:
        linked: set[str] = set()
        parts = drawing.parts(detail, linked, () if answer is None else answer.trace)
        top = page_header(context.question, drawing.facts(answer), detail)
        answer_parts = [] if answer is None else [answer_part(answer, drawing.cited, linked, places)]
        surroundings = bool(detail.around and places.lookup)
        return html_page(context.question, join([top, *answer_parts, *parts]), surroundings=surroundings)

    return fit_page(body, limit, [context])


class _Drawing:
    """The parts of a context's page, drawn in a given detail."""

    def __init__(
        self, context: Context, places: Places, count_tokens: TokenCounter | None, cited: Sequence[Anchor]
    ) -> None:
        self.cited = cited
        self._context, self._places = context, places
        self._marks, self._tokens = Marks(context), shares(context, count_tokens)
        self._tree = TreePicture(context, places)
        self._kinds = [main_kind(passage, self._marks) for passage in context.passages[:MOST]]

    def facts(self, answer: Answer | None = None) -> str:
        passages = self._context.passages
        documents = len({span.doc_id for passage in passages for span in passage.spans})
        facts = [
            self._context.strategy,
            f"{len(passages)} passage{'' if len(passages) == 1 else 's'}"
            f" of {documents} document{'' if documents == 1 else 's'}",
        ]
        facts += ["there may be more"] if self._context.may_lack else []
        if answer is not None:
            facts += [answer.mode, *([f"{answer.usage.calls} model calls"] if answer.usage.calls else [])]
        return " · ".join(facts)

    def parts(self, detail: Detail, linked: set[str], then: Sequence[Step] = ()) -> list[Markup]:
        """Draw budget, tree, passages, candidates and steps. Add the anchors of citations in the passages to `linked`."""
        context, marks, places = self._context, self._marks, self._places
        shown = replace(context, passages=context.passages[: detail.passages])
        cards = PassageCards(marks, places, self.cited, linked, detail)
        drawn = [
            cards.card(number, passage, f"{share} tokens")
            for number, (passage, share) in enumerate(zip(shown.passages, self._tokens, strict=False), 1)
        ]
        heading = tag("h2", "Sources", id="sources")
        above = legend(shown, marks, bool(self.cited)) if drawn else tag("p", "No passages found.", class_="notice")
        parts = [
            budget_bar(context, self._tokens, self._kinds, len(shown.passages)),
            self._tree.draw(detail.nodes, len(shown.passages)),
            tag("section", heading, above, *drawn, aria_labelledby="sources"),
            left_out(marks, places, detail),
            steps([*context.trace, *then], places, detail.steps),
        ]
        return [part for part in parts if part is not None]
