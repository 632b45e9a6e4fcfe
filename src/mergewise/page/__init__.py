"""Contexts, answers and comparisons as a page to look at: one HTML file, complete in itself, below 300 KB.

Every function takes `document`, which gives a document by its id (`Index.document`): with it, the page shows what surrounds
the text that was taken, and names lines. `count_tokens` is the counter that the budget is measured by (`Index.tokens`), and
`link` gives the address of a document's file, or None. Without them the page does with what the context holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mergewise.page.budget import MOST, budget_bar, legend, main_kind, shares
from mergewise.page.comparison import columns, comparison_legend
from mergewise.page.detail import LIMIT, Detail, fit_page
from mergewise.page.hops import hop_list
from mergewise.page.markup import Markup, join, tag
from mergewise.page.parts import answer_part, left_out, page_header, steps
from mergewise.page.passages import PassageCards, anchors
from mergewise.page.reasons import Marks
from mergewise.page.shell import whole
from mergewise.page.source_texts import DocumentLookup, FileLink, Places
from mergewise.protocols import TokenCounter
from mergewise.types import Answer, Context

__all__ = ["LIMIT", "answer_page", "comparison_page", "context_page", "notebook_frame"]

_NOTEBOOK_LIMIT = 150_000  # a page inside another one: quotes take six characters there
_NOTEBOOK_HEIGHT = 640


def context_page(
    context: Context,
    *,
    document: DocumentLookup | None = None,
    count_tokens: TokenCounter | None = None,
    link: FileLink | None = None,
    limit: int = LIMIT,
) -> str:
    """The page of a context: the budget, the hops, every passage with the reason of every stretch, what was left out."""
    return _page(context, None, Places(document, link), count_tokens, limit)


def answer_page(
    answer: Answer,
    *,
    document: DocumentLookup | None = None,
    count_tokens: TokenCounter | None = None,
    link: FileLink | None = None,
    limit: int = LIMIT,
) -> str:
    """The page of an answer: its citations lead to the passages of its context."""
    return _page(answer.context, answer, Places(document, link), count_tokens, limit)


def comparison_page(
    contexts: Sequence[tuple[Context, float | None]],
    *,
    document: DocumentLookup | None = None,
    count_tokens: TokenCounter | None = None,
    link: FileLink | None = None,
    limit: int = LIMIT,
) -> str:
    """The page of several contexts for one question, each with the seconds that it took, if known."""
    places = Places(document, link)
    asked = contexts[0][0].question if contexts else ""

    def body(detail: Detail) -> str:
        sides = columns(contexts, places, count_tokens, detail)
        head = page_header(asked, f"{len(contexts)} strategies", detail)
        inside = join([head, comparison_legend(), tag("div", sides, id="sources")])
        return whole(asked, tag("div", inside, class_="wide"), surroundings=False)

    return fit_page(body, limit, [context for context, _ in contexts])


def notebook_frame(shown: Context | Answer) -> str:
    """The page inside a frame, as notebooks show it: its style and the notebook's do not meet."""
    context, answer = (shown.context, shown) if isinstance(shown, Answer) else (shown, None)
    inner = _page(context, answer, Places(), None, _NOTEBOOK_LIMIT)
    return tag(
        "iframe",
        srcdoc=inner,
        title=f"mergewise: {shown.question}",
        sandbox="allow-scripts",
        style=f"width:100%;height:{_NOTEBOOK_HEIGHT}px;border:0",
    )


def _page(
    context: Context, answer: Answer | None, places: Places, count_tokens: TokenCounter | None, limit: int
) -> str:
    marks = Marks(context)
    tokens = shares(context, count_tokens)
    kinds = [main_kind(passage, marks) for passage in context.passages[:MOST]]
    cited = anchors(answer.citations) if answer is not None else []

    def body(detail: Detail) -> str:
        shown = replace(context, passages=context.passages[: detail.passages])
        cards = PassageCards(marks, places, cited, set(), detail)
        sources = _sources(shown, tokens, cards)
        inside = [
            _top(context, answer, detail),
            answer_part(answer, cited, cards.linked, places) if answer is not None else None,
            budget_bar(context, tokens, kinds, len(shown.passages)),
            hop_list(shown, marks, places, detail.hops),
            sources,
            left_out(marks, places, detail),
            steps([*context.trace, *(answer.trace if answer is not None else ())], places, detail.steps),
        ]
        return whole(context.question, join(filter(None, inside)), surroundings=bool(detail.around and places.lookup))

    return fit_page(body, limit, [context])


def _top(context: Context, answer: Answer | None, detail: Detail) -> Markup:
    documents = len({span.doc_id for passage in context.passages for span in passage.spans})
    passages = len(context.passages)
    facts = [
        context.strategy,
        f"{passages} passage{'' if passages == 1 else 's'} of {documents} document{'' if documents == 1 else 's'}",
    ]
    if answer is not None:
        facts += [answer.mode, *([f"{answer.usage.calls} calls of a model"] if answer.usage.calls else [])]
    return page_header(context.question, " · ".join(facts), detail)


def _sources(context: Context, tokens: Sequence[int], cards: PassageCards) -> Markup:
    passages = [
        cards.card(number, passage, f"{share} tokens")
        for number, (passage, share) in enumerate(zip(context.passages, tokens, strict=False), 1)
    ]
    heading = tag("h2", "Sources", id="sources")
    if not passages:
        return tag("section", heading, tag("p", "Nothing was found.", class_="notice"), aria_labelledby="sources")
    listed = legend(context, cards.marks, bool(cards.cited))
    return tag("section", heading, listed, *passages, aria_labelledby="sources")
