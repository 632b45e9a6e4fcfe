"""The command `show`: a citation with the lines around it, or a document."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mergewise.agents.results import name_in, names_in, part_at
from mergewise.cli import last
from mergewise.cli.options import DEFAULT_INDEX, IndexOption, JsonOption
from mergewise.cli.output import CLOSES, OPENS, is_plain, say, say_json, say_styled
from mergewise.cli.places import DocumentNames, Locations, locations_in, one_line, place
from mergewise.errors import UsageError
from mergewise.extend import citation_json, heading_path, line_at, line_starts
from mergewise.types import Citation, Document, JsonDict, Span, frozen

if TYPE_CHECKING:
    from mergewise import Index

AROUND = 3
_LONGEST_NUMBER = 20


@frozen
class Excerpt:
    """Lines `first` to `last` of a document, counted from 1, with the spans to mark, if any."""

    document: Document
    citation: Citation
    spans: tuple[Span, ...]
    first: int
    last: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", min(self.last, len(line_starts(self.document.text))))

    def lines(self) -> list[tuple[int, int, str]]:
        """Return the number, offset and text of each line."""
        starts = line_starts(self.document.text)
        shown = range(self.first, self.last + 1)
        ends = [*(start - 1 for start in starts[1:]), len(self.document.text)]
        return [(n, starts[n - 1], self.document.text[starts[n - 1] : ends[n - 1]]) for n in shown]

    def as_dict(self) -> JsonDict:
        return {
            **{key: value for key, value in citation_json(self.citation).items() if key not in ("mark", "text")},
            "first_line": self.first,
            "last_line": self.last,
            "text": "\n".join(text for _, _, text in self.lines()),
            "spans": [
                {"start": span.start, "end": span.end, "text": self.document.text[span.start : span.end]}
                for span in self.spans
            ],
        }


def show(
    what: Annotated[
        str,
        typer.Argument(
            metavar="N|NAME[:LINE[-LINE]|#HEADING]",
            help="Number in the last answer, or a document's path, id or unique name.",
        ),
    ],
    index_dir: IndexOption = DEFAULT_INDEX,
    around: Annotated[int, typer.Option("--around", "-a", min=0, help="Lines to show before and after.")] = AROUND,
    as_json: JsonOption = False,
) -> None:
    """Show a citation of the last answer with the lines around it, or a document. Needs an index."""
    import mergewise

    opened = mergewise.open(index_dir, create=False)
    locations = locations_in(opened)
    number = _number(what)
    remembered = last.load(index_dir) if number is not None else None
    excerpts = excerpts_of(opened, locations, what, around, remembered)
    if as_json:
        question = None if remembered is None else remembered.question
        say_json({"number": number, "question": question, "places": [excerpt.as_dict() for excerpt in excerpts]})
    else:
        say_excerpts(excerpts, locations.names)


def excerpts_of(
    opened: Index, locations: Locations, what: str, around: int, remembered: last.Last | None
) -> list[Excerpt]:
    """Find the excerpts of a number of the last answer, or of a document, with the lines around them."""
    number = _number(what)
    known = {} if remembered is None else remembered.numbers
    if number is None or number not in known:
        if number is not None and all(info.id != what for info in opened.documents()):
            if remembered is None:
                raise UsageError("no last answer of this index", "ask a question first, or give the id of a document")
            numbers = ", ".join(map(str, sorted(known))) or "none"
            raise UsageError(f"no number {what} in the last answer", f"its numbers: {numbers} ({remembered.question})")
        doc_id, rest = document_at(opened, what)
        document = opened.document(doc_id)
        # a single line, where `read` goes on to the end
        only = f"-{rest[1:]}" if rest[:1] == ":" and "-" not in rest else ""
        meant = Span(doc_id, *part_at(document, rest + only))
        whole = Excerpt(document, locations.citation(meant), (), 1, 10**9)
        return _excerpts(locations, [meant], around) if rest else [whole]
    for span, check in known[number]:
        cited = locations.document(span.doc_id)
        if cited is None or (check is not None and check != last.checksum(cited.text[span.start : span.end])):
            raise UsageError(f"{span.doc_id} has changed since the last answer", "ask again, or give the document's id")
    return _excerpts(locations, [span for span, _ in known[number]], around)


def say_excerpts(excerpts: Sequence[Excerpt], names: DocumentNames) -> None:
    for i, excerpt in enumerate(excerpts):
        if i:
            say()
        title, doc_id = excerpt.citation.title, excerpt.document.id
        path = heading_path(title, excerpt.citation.headings) if excerpt.spans else title
        named = place(excerpt.citation, names) if excerpt.spans else names.name(doc_id) + names.remark(doc_id)
        say(one_line(f"{named}  {path}").rstrip(), style="cyan")
        width = len(str(excerpt.last))
        for number, offset, text in excerpt.lines():
            # the parts of the line that the spans cover
            parts = [(max(0, span.start - offset), min(len(text), span.end - offset)) for span in excerpt.spans]
            covered = [(start, end) for start, end in parts if start < end]
            sign = ">" if covered else " "
            say_styled((f"{sign} {number:{width}} │ ", "dim"), *_pieces(text, covered, signs=is_plain()))


def _number(what: str) -> int | None:
    bare = what.strip("[] ")
    return int(bare) if bare.isascii() and bare.isdigit() and len(bare) < _LONGEST_NUMBER else None


def _excerpts(locations: Locations, spans: Sequence[Span], around: int) -> list[Excerpt]:
    """Make excerpts of spans, merging spans of a document that are close together."""
    excerpts: list[Excerpt] = []
    for span in sorted(set(spans)):
        document = locations.document(span.doc_id)
        if document is None:
            continue
        first = max(1, line_at(document.text, span.start) - around)
        end = line_at(document.text, max(span.start, span.end - 1)) + around
        before = excerpts[-1] if excerpts else None
        if before is not None and before.document.id == document.id and first <= before.last + 1:
            merged = max(before.last, end)
            excerpts[-1] = Excerpt(document, before.citation, (*before.spans, span), before.first, merged)
        else:
            excerpts.append(Excerpt(document, locations.citation(span), (span,), first, end))
    return excerpts


def document_at(opened: Index, place: str) -> tuple[str, str]:
    """Split a place into the id of its document and the rest, such as ":12-20". A path from here comes first."""
    for name in names_in(place):
        here = os.path.normpath(Path.cwd() / name)
        if len(found := opened.find(here)[here]) == 1:
            return found[0], place[len(name) :]
    return name_in(place, [info.id for info in opened.documents()])


def _pieces(text: str, covered: Sequence[tuple[int, int]], *, signs: bool) -> list[tuple[str, str | None]]:
    """Split the line into pieces with their styles. `signs` puts marks around parts of the line, for output without colours."""
    pieces: list[tuple[str, str | None]] = []
    position = 0
    for start, end in covered:
        shown = text[max(position, start) : end]
        if signs and shown.strip() != text.strip():
            shown = f"{OPENS}{shown}{CLOSES}"
        pieces += [(text[position:start], None), (shown, "bold yellow")]
        position = max(position, end)
    return [*pieces, (text[position:], None)]
