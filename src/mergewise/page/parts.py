"""The other parts of a page: header, answer, left-out candidates and trace."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mergewise.grouping import group_by
from mergewise.page.detail import Detail, notice
from mergewise.page.markup import Markup, shorten, tag
from mergewise.page.passages import Anchor, score, shown_path, with_styles
from mergewise.page.reasons import LEFT_OUT, Marks
from mergewise.page.source_texts import Places, styles_of
from mergewise.text.light import laid_out
from mergewise.types import Answer, Citation, Span, Step

LONGEST_QUESTION = 2_000
LONGEST_ANSWER = 20_000
LONGEST_QUOTE = 600
CITATIONS = 60
REASON = 240  # longest reason of a step in characters
SPANS = 2  # number of spans of a step to list
# a mark, or an escaped character, which is text
_MARK = re.compile(r"\\.|\[(\d{1,3})\]")
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")


def page_header(question: str, facts: str, detail: Detail) -> Markup:
    asked = tag("h1", shorten(question, LONGEST_QUESTION), id="question", dir="auto", tabindex="-1")
    return tag("header", asked, tag("p", facts, class_="facts"), notice(detail), class_="top")


def answer_part(answer: Answer, cited: Sequence[Anchor], linked: set[str], places: Places) -> Markup:
    """Draw the answer, with its marks linked to the cited text, and the list of its citations."""
    targets: dict[int, str] = {}
    for anchor in cited:
        targets.setdefault(anchor.number, anchor.id if anchor.id in linked else f"q{anchor.id}")
    text = answer.text if len(answer.text) <= LONGEST_ANSWER else answer.text[:LONGEST_ANSWER] + " …"
    body = tag("div", *_paragraphs(text, targets), class_="said")
    pairs = zip(answer.citations[:CITATIONS], cited, strict=False)
    groups = group_by(pairs, lambda pair: (pair[0].number, shown_path(pair[0])))
    quotes = [_citations(number, path, group, linked, text, places) for (number, path), group in groups.items()]
    more = len(answer.citations) - CITATIONS
    if more > 0:
        quotes.append(tag("li", f"and {more} more citations"))
    listed = tag("ol", *quotes, class_="citations") if quotes else None
    kind = "answer" if answer.found else "answer nothing"
    return tag("section", tag("h2", "Answer"), body, listed, class_=kind, id="answer", tabindex="-1")


def _paragraphs(text: str, targets: dict[int, str]) -> list[Markup]:
    """Draw the paragraphs of an answer with its styles, and with links at all marks outside of code."""
    styles = styles_of(text)
    code = [styled.span for styled in styles if styled.name == "code"]
    marks = [
        (mark.start(), mark.end(), int(mark[1]))
        for mark in _MARK.finditer(text)
        if mark[1] and int(mark[1]) in targets and not any(span.start <= mark.start() < span.end for span in code)
    ]
    ends = [match.span() for match in _PARAGRAPH_END.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    stops = [*(start for start, _ in ends), len(text)]
    paragraphs = []
    for at, stop in zip(starts, stops, strict=True):
        pieces = []
        for first, last, number in (*(mark for mark in marks if at <= mark[0] < stop), (stop, stop, 0)):
            pieces.append(with_styles(Span("", at, first), text[at:first], styles))
            if number:
                name = f"Citation {number}"
                pieces.append(tag("a", str(number), href=f"#{targets[number]}", class_="cite", aria_label=name))
            at = last
        paragraphs.append(tag("p", *pieces, dir="auto"))
    return paragraphs


def _letters(words: str) -> str:
    """Remove white space and punctuation, to compare texts independent of their markup."""
    return re.sub(r"[\W_]+", "", words)


def _citations(
    number: int, path: str, group: Sequence[tuple[Citation, Anchor]], linked: set[str], text: str, places: Places
) -> Markup:
    """Draw the citations with one number and heading: their locations, and quotes that the answer does not repeat."""
    first = next((anchor for _, anchor in group if anchor.id in linked), None)
    mark = tag("a" if first else "span", str(number), href=first and f"#{first.id}", class_="cite")
    above = _letters(text)
    quotes = [
        tag("q", shorten(quote, LONGEST_QUOTE), dir="auto")
        for citation, _ in group
        if _letters(quote := laid_out(citation.text)) not in above
    ]
    where = []
    for citation, anchor in group:
        place = places.linked_location(citation.span)
        page = f", page {citation.page}" if citation.page is not None and ", page " not in place else ""
        where.append(tag("span", place, page, id=f"q{anchor.id}"))
    name = tag("span", path, class_="path", dir="auto") if path else None
    return tag("li", mark, tag("div", *quotes, tag("p", name, *where, class_="where")))


def left_out(marks: Marks, places: Places, detail: Detail) -> Markup | None:
    """Draw the best candidates that are not in the context, in grey."""
    if not marks.left_out or not detail.left:
        return None
    shown = []
    for out in marks.left_out[: detail.left]:
        words = places.text(out.span)
        quote = tag("p", shorten(words, 260), class_="quote", dir="auto") if words and words.strip() else None
        where = " · ".join(part for part in (places.title(out.span.doc_id), places.location(out.span)) if part)
        why = tag("span", f"{out.label}: {out.why}" if out.why else out.label, class_="because")
        line = tag("p", where, " · ", why, score(out.score), class_="where", title=out.span.doc_id)
        shown.append(tag("li", quote, line))
    more = len(marks.left_out) - len(shown)
    heading = tag("h2", "Left out", id="left-out")
    tail = tag("p", f"{more} more candidates were left out.", class_="where") if more > 0 else None
    return tag(
        "section", heading, tag("ul", *shown, class_="leftover"), tail, class_="left-out", aria_labelledby="left-out"
    )


def steps(trace: Sequence[Step], places: Places, most: int) -> Markup | None:
    """Draw all steps of the strategy, one per line, in a collapsed list."""
    if not trace or not most:
        return None
    lines = []
    for step in trace[:most]:
        where = [places.location(span) for span in step.inputs[:SPANS]]
        if len(step.inputs) > SPANS:
            where.append(f"and {len(step.inputs) - SPANS} more")
        spelled = ", ".join(where) + (f" → {places.location(step.output)}" if step.output else "")
        faint = "faint" if step.cause in LEFT_OUT else None
        why = tag("span", shorten(step.reason, REASON), class_="because", dir="auto")
        places_line = tag("span", spelled, class_="where") if spelled else None
        lines.append(tag("li", tag("b", step.action), " ", why, score(step.score), places_line, class_=faint))
    if len(trace) > most:
        lines.append(tag("li", f"and {len(trace) - most} more steps"))
    summary = tag("summary", f"Every step ({len(trace)})")
    return tag("details", summary, tag("ol", *lines, class_="steps"), class_="trace")
