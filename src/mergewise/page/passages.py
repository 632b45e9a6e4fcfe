"""Cards of passages: location, text with the reason of each stretch, and surrounding text in grey."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from mergewise.page.detail import Detail
from mergewise.page.markup import Markup, join, shorten, tag, text
from mergewise.page.reasons import KINDS, Marks, Stretch, pieces_of
from mergewise.page.source_texts import Places, Styled, bounds_around, styles_of
from mergewise.text.sections import heading_path
from mergewise.text.spans import indent_of, margin_at
from mergewise.types import GAP, Citation, Passage, Span, frozen

GAP_SHOWN = tag("span", "\n…\n", class_="gap")
GOES_ON = tag("p", "The passage goes on.", class_="notice")


class Anchor(NamedTuple):
    """A stretch cited by an answer: `id` is the target of links, `number` the citation's number in the answer."""

    id: str
    number: int
    span: Span


class ShownPiece(NamedTuple):
    """A piece of a document on the page, either `taken` or surrounding text. `gap` marks a gap to the previous piece."""

    span: Span
    text: str
    taken: bool
    gap: bool = False
    cut: bool = False  # surrounding text that goes on in the document


def anchors(citations: Sequence[Citation]) -> list[Anchor]:
    return [Anchor(f"c{i}", citation.number, citation.span) for i, citation in enumerate(citations, 1)]


def stretches_of(passage: Passage, marks: Marks) -> list[Stretch]:
    parts = passage.parts() if passage.verbatim else []
    return [stretch for span, part in parts for stretch in marks.stretches(span, part)]


def shown_path(place: Passage | Citation) -> str:
    """Return title and headings, without a first heading that repeats the title."""
    repeats_title = place.headings[:1] == (place.title,)
    return heading_path(place.title, place.headings[repeats_title:])


def card_head(anchor: str, number: int, title: str, where: Markup, doc_id: str | None) -> Markup:
    return tag(
        "header",
        tag("a", str(number), class_="number", href=f"#{anchor}", aria_label=f"Passage {number}"),
        tag("h3", title, dir="auto"),
        tag("p", where, class_="where", title=doc_id),
    )


@frozen
class PassageCards:
    """The renderer of a context's passages. It adds the anchors of citations in the passages to `linked`."""

    marks: Marks
    places: Places
    cited: Sequence[Anchor]
    linked: set[str]
    detail: Detail

    def card(self, number: int, passage: Passage, tokens: str) -> Markup:
        """Draw a passage with its number in the context."""
        path = shown_path(passage)
        first = passage.spans[0] if passage.spans else None
        target = next((one.span for one in self.cited if any(map(one.span.overlaps, passage.spans))), None)
        where = text(tokens) if first is None else join([self.places.linked_location(first, target), " · ", tokens])
        doc_id = first.doc_id if first else None
        title = text(path or doc_id or "No title")
        if first is not None and self.places.page is not None:
            title = tag("a", title, href=self.places.address(target or first), class_="quiet")
        shown = _first_characters(passage, self.detail.characters)
        stretches = stretches_of(shown, self.marks)
        if passage.verbatim:
            body = self._verbatim(shown, stretches)
        else:
            # a model wrote it
            words = with_styles(Span("", 0, len(shown.text)), shown.text, styles_of(shown.text))
            sources = join(tag("li", self.places.location(span)) for span in shown.spans[:8])
            body = join(
                (
                    tag("div", tag("mark", words, class_="k written"), class_="text", dir="auto"),
                    tag("p", f"{KINDS['written'].meaning.capitalize()}. Sources:", class_="where"),
                    tag("ul", sources, class_="where"),
                )
            )
        return tag(
            "article",
            card_head(f"p{number}", number, title, where, doc_id),
            body,
            GOES_ON if shown is not passage else None,
            _reasons(stretches, self.detail.reasons),
            id=f"p{number}",
            class_="passage",
            tabindex="-1",
            aria_label=f"Passage {number}: {path}",
        )

    def _verbatim(self, passage: Passage, stretches: Sequence[Stretch]) -> Markup:
        pieces: list[str] = []
        runs = list(self._runs(passage))
        # without white space at the outer ends of the surrounding text, except the margin of the first line
        if runs and not (first := runs[0]).taken:
            trimmed = margin_at(first.text, indent_of(first.text)) + first.text.lstrip()
            runs[0] = first._replace(text=trimmed, span=replace(first.span, start=first.span.end - len(trimmed)))
        if runs and not (last := runs[-1]).taken:
            trimmed = last.text.rstrip()
            runs[-1] = last._replace(text=trimmed, span=replace(last.span, end=last.span.start + len(trimmed)))
        runs = [run for run in runs if run.text]
        if runs and runs[0].cut:
            pieces.append(tag("span", "… ", class_="around"))
        for run in runs:
            words, styles = self.places.screen_text(run.span, run.text)
            if run.gap:
                pieces.append(GAP_SHOWN)
            if not run.taken:
                pieces.append(self._surroundings(run.span, words, styles))
                continue
            for stretch in stretches:
                if run.span.contains(stretch.span):
                    inner = words[stretch.span.start - run.span.start : stretch.span.end - run.span.start]
                    pieces.append(self._stretch(stretch, inner, styles))
        if runs and runs[-1].cut:
            pieces.append(tag("span", " …", class_="around"))
        return tag("div", *pieces, class_="text", dir="auto")

    def _runs(self, passage: Passage) -> Iterator[ShownPiece]:
        """Yield the parts of a passage in document order with their surrounding text, without overlaps."""
        places = self.places
        end: tuple[str, int] | None = None
        for span, part in passage.parts():
            floor, ceiling = bounds_around(span, self.marks.taken, places)
            if end is not None and end[0] == span.doc_id:
                floor = max(floor, end[1])
            reach = self.detail.around if places.text(span) == part else 0
            before, after = places.around(span, reach, floor, ceiling)
            gap = end is not None and end != (before.doc_id, before.start)
            if len(before):
                cut = places.has_text(span.doc_id, floor, before.start)
                yield ShownPiece(before, places.text(before) or "", taken=False, gap=gap, cut=cut)
            yield ShownPiece(span, part, taken=True, gap=gap and not len(before))
            if len(after):
                cut = places.has_text(span.doc_id, after.end, ceiling)
                yield ShownPiece(after, places.text(after) or "", taken=False, cut=cut)
            end = span.doc_id, after.end

    def _stretch(self, stretch: Stretch, words: str, styles: Sequence[Styled]) -> Markup:
        """Draw a stretch with its mark and its anchors. White space at its ends stays unmarked."""
        lead, inner, tail = split_space(words)
        if not inner:
            return text(words)
        start = stretch.span.start + len(lead)
        span = Span(stretch.span.doc_id, start, start + len(inner))
        cited = [anchor for anchor in self.cited if anchor.span.overlaps(span)]
        pieces = []
        for piece, own in pieces_of(span, [anchor.span for anchor in cited], inner):
            body = with_styles(piece, own, styles)
            for anchor in cited:
                if anchor.span.overlaps(piece):
                    names = {"id": anchor.id, "data_number": anchor.number} if anchor.id not in self.linked else {}
                    body = tag("span", body, class_="cited", **names)
                    self.linked.add(anchor.id)
            pieces.append(body)
        body = join(pieces)
        if stretch.kind:
            score = "" if stretch.score is None else f" · {stretch.score:.2f}"
            body = tag("mark", body, class_=f"k {stretch.kind}", title=f"{stretch.label}: {_why(stretch)}{score}")
        return join([lead, body, tail])

    def _surroundings(self, span: Span, words: str, styles: Sequence[Styled]) -> Markup:
        """Draw surrounding text with slight marks on left-out candidates."""
        left = self.marks.left.at(span)
        pieces: list[str] = []
        for piece, own in pieces_of(span, [out.span for out in left], words):
            out = next((out for out in left if out.span.contains(piece)), None)
            lead, inner, tail = split_space(own)
            body = with_styles(Span(span.doc_id, piece.start + len(lead), piece.end - len(tail)), inner, styles)
            if out is not None and inner:
                body = tag("span", body, class_="left", title=f"{out.label}: {out.why}")
            pieces += [lead, body, tail]
        return tag("span", *pieces, class_="around")


def _first_characters(passage: Passage, characters: int | None) -> Passage:
    """Return the passage cut to the given number of characters."""
    if characters is None or len(passage.text) <= characters:
        return passage
    if not passage.verbatim:
        return replace(passage, text=passage.text[:characters])
    spans: list[Span] = []
    left = characters
    for span in passage.spans:
        if left > 0:
            spans.append(Span(span.doc_id, span.start, min(span.end, span.start + left)))
            left -= len(span)
    texts = (part[: len(span)] for (_, part), span in zip(passage.parts(), spans, strict=False))
    return replace(passage, text=GAP.join(texts), spans=tuple(spans))


def split_space(words: str) -> tuple[str, str, str]:
    """Split a text into leading white space, the text, and trailing white space."""
    inner = words.strip()
    lead = words[: indent_of(words)]
    return lead, inner, words[len(lead) + len(inner) :]


def with_styles(span: Span, words: str, styles: Sequence[Styled]) -> Markup:
    """Draw the text of a span with code and emphasis as elements, without their Markdown marks."""
    own = [styled for styled in styles if styled.span.overlaps(span)]
    pieces = []
    for piece, part in pieces_of(span, [styled.span for styled in own], words):
        names = {styled.name for styled in own if styled.span.contains(piece)}
        body = text(part)
        for name in sorted(names - {"mark"}):
            body = tag(name, body)
        pieces += [] if "mark" in names else [body]
    return join(pieces)


def _why(stretch: Stretch) -> str:
    return "; ".join(dict.fromkeys(reason.why for reason in stretch.reasons)) or KINDS[stretch.kind].meaning


def _reasons(stretches: Sequence[Stretch], most: int) -> Markup | None:
    """Draw the reasons of the stretches as a collapsed list."""
    explained = [stretch for stretch in stretches if stretch.kind]
    if not explained or not most:
        return None
    lines = [
        tag(
            "li",
            tag("span", stretch.label, class_=f"chip {stretch.kind}"),
            tag("q", shorten(stretch.text, 72), dir="auto"),
            tag("span", _why(stretch), class_="because"),
            score(stretch.score),
        )
        for stretch in explained[:most]
    ]
    if len(explained) > most:
        lines.append(tag("li", f"and {len(explained) - most} more"))
    return tag("details", tag("summary", "Why this is here"), tag("ul", *lines, class_="reasons"), class_="why")


def score(value: float | None) -> Markup | None:
    return None if value is None else tag("span", f"{value:.2f}", class_="score", title="score")
