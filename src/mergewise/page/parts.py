"""The other parts of a page: header, answer, left-out candidates and trace."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mergewise.page.detail import Detail, notice
from mergewise.page.markup import Markup, join, shorten, tag
from mergewise.page.passages import Anchor, score, shown_path, with_styles
from mergewise.page.reasons import LEFT_OUT, Marks, Reason
from mergewise.page.source_texts import Places, Styled, styles_of
from mergewise.text.markup import readable
from mergewise.types import Answer, Citation, Span, Step

LONGEST_QUESTION = 2_000
LONGEST_ANSWER = 20_000
LONGEST_QUOTE = 600
LONGEST_LEFT = 260
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
    groups: dict[tuple[int, str], list[tuple[Citation, Anchor]]] = {}
    for citation, anchor in zip(answer.citations[:CITATIONS], cited, strict=False):
        path = shown_path(citation)
        groups.setdefault((citation.number, path), []).append((citation, anchor))
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
    return [
        tag(
            "p", _with_links(text, start, stop, [m for m in marks if start <= m[0] < stop], styles, targets), dir="auto"
        )
        for start, stop in zip(starts, stops, strict=True)
    ]


def _with_links(
    text: str,
    start: int,
    stop: int,
    marks: Sequence[tuple[int, int, int]],
    styles: Sequence[Styled],
    targets: dict[int, str],
) -> Markup:
    """Draw the answer from `start` to `stop` with its marks as links."""
    pieces = []
    at = start
    for first, last, number in (*marks, (stop, stop, 0)):
        pieces.append(with_styles(Span("", at, first), text[at:first], styles))
        if number:
            pieces.append(
                tag("a", str(number), href=f"#{targets[number]}", class_="cite", aria_label=f"Citation {number}")
            )
        at = last
    return join(pieces)


def _letters(words: str) -> str:
    """Remove white space and punctuation, to compare texts independent of their markup."""
    return re.sub(r"[\W_]+", "", words)


def _citations(
    number: int, path: str, group: Sequence[tuple[Citation, Anchor]], linked: set[str], text: str, places: Places
) -> Markup:
    """Draw the citations with one number and heading: their locations, and quotes that the answer does not repeat."""
    first = next((anchor for _, anchor in group if anchor.id in linked), None)
    shown = str(number)
    mark = tag("span", shown, class_="cite") if first is None else tag("a", shown, href=f"#{first.id}", class_="cite")
    above = _letters(text)
    quotes = [
        tag("q", shorten(citation.text, LONGEST_QUOTE), dir="auto")
        for citation, _ in group
        if _letters(readable(citation.text)) not in above
    ]
    where = [tag("span", _place(citation, places), id=f"q{anchor.id}") for citation, anchor in group]
    name = tag("span", path, class_="path", dir="auto") if path else None
    return tag("li", mark, tag("div", *quotes, tag("p", name, *where, class_="where")))


def _place(citation: Citation, places: Places) -> Markup:
    where = places.linked_location(citation.span)
    return join([where, f", page {citation.page}"]) if citation.page is not None and ", page " not in where else where


def left_out(marks: Marks, places: Places, detail: Detail) -> Markup | None:
    """Draw the best candidates that are not in the context, in grey."""
    if not marks.left_out or not detail.left:
        return None
    shown = [_candidate(out, places) for out in marks.left_out[: detail.left]]
    more = len(marks.left_out) - len(shown)
    heading = tag("h2", "Left out", id="left-out")
    tail = tag("p", f"{more} more candidates were left out.", class_="where") if more > 0 else None
    return tag(
        "section", heading, tag("ul", *shown, class_="leftover"), tail, class_="left-out", aria_labelledby="left-out"
    )


def _candidate(out: Reason, places: Places) -> Markup:
    words = places.text(out.span)
    quote = tag("p", shorten(words, LONGEST_LEFT), class_="quote", dir="auto") if words and words.strip() else None
    where = " · ".join(part for part in (places.title(out.span.doc_id), places.location(out.span)) if part)
    why = tag("span", f"{out.label}: {out.why}" if out.why else out.label, class_="because")
    return tag("li", quote, tag("p", where, " · ", why, score(out.score), class_="where", title=out.span.doc_id))


def steps(trace: Sequence[Step], places: Places, most: int) -> Markup | None:
    """Draw all steps of the strategy, one per line, in a collapsed list."""
    if not trace or not most:
        return None
    lines = [_step(step, places) for step in trace[:most]]
    if len(trace) > most:
        lines.append(tag("li", f"and {len(trace) - most} more steps"))
    summary = tag("summary", f"Every step ({len(trace)})")
    return tag("details", summary, tag("ol", *lines, class_="steps"), class_="trace")


def _step(step: Step, places: Places) -> Markup:
    where = [places.location(span) for span in step.inputs[:SPANS]]
    if len(step.inputs) > SPANS:
        where.append(f"and {len(step.inputs) - SPANS} more")
    spelled = ", ".join(where) + (f" → {places.location(step.output)}" if step.output else "")
    faint = "faint" if step.cause in LEFT_OUT else None
    why = tag("span", shorten(step.reason, REASON), class_="because", dir="auto")
    places_line = tag("span", spelled, class_="where") if spelled else None
    return tag("li", tag("b", step.action), " ", why, score(step.score), places_line, class_=faint)
