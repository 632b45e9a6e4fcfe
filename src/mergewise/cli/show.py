"""The command `show`: a citation with the lines around it, or a document."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from unicodedata import normalize

import typer

from mergewise.cli import last
from mergewise.cli.options import DEFAULT_INDEX, IndexOption, JsonOption
from mergewise.cli.output import CLOSES, OPENS, is_plain, say, say_json, say_styled
from mergewise.cli.places import DocumentNames, Locations, locations_in, one_line, place
from mergewise.errors import UsageError
from mergewise.extend import citation_json, heading_path, line_at, line_starts, short_repr
from mergewise.types import Citation, Document, Span

if TYPE_CHECKING:
    from mergewise import Index

AROUND = 3
MOST_NAMED = 10
"""Documents that an error lists."""
_PLAIN = re.compile(r"[\w./@+,-]+")
_LONGEST_NUMBER = 20
_LINES = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
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

    def as_dict(self) -> dict[str, Any]:
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


def _remembered_names(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Complete the numbers and documents of the last answer. Opening the index takes too long for shell completion."""
    remembered = last.load(context.params.get("index_dir") or DEFAULT_INDEX)
    if remembered is None:
        return []
    documents = {str(number): spans[0][0].doc_id for number, spans in sorted(remembered.numbers.items()) if spans}
    names = [*documents.items(), *((doc_id, "") for doc_id in dict.fromkeys(documents.values()))]
    # a shell interprets the completed words: offer only plain ones
    return [(name, about) for name, about in names if name.startswith(incomplete) and _PLAIN.fullmatch(name + about)]


def show(
    what: Annotated[
        str,
        typer.Argument(
            metavar="N|NAME[:LINE[-LINE]]",
            help="Number in the last answer, or a document's path, id or unique name.",
            show_default=False,
            autocompletion=_remembered_names,
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
    if number is None or remembered is None or number not in remembered.numbers:
        doc_id, lines = _meant_document(opened, what, remembered)
        document = opened.document(doc_id)
        if lines is None:
            return [Excerpt(document, locations.citation(Span(doc_id, 0, len(document.text))), (), 1, 10**9)]
        starts = line_starts(document.text)
        first, end = lines
        if first > len(starts):
            raise UsageError(f"{doc_id} has {len(starts)} lines", f"mergewise show {doc_id}:1")
        meant = Span(doc_id, starts[first - 1], starts[end] - 1 if end < len(starts) else len(document.text))
        return [Excerpt(document, locations.citation(meant), (meant,), max(1, first - around), end + around)]
    for span, check in remembered.numbers[number]:
        cited = locations.document(span.doc_id)
        if cited is None or (check is not None and check != last.checksum(cited.text[span.start : span.end])):
            raise UsageError(f"{span.doc_id} has changed since the last answer", "ask again, or give the document's id")
    return _excerpts(locations, [span for span, _ in remembered.numbers[number]], around)


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


def _meant_document(
    opened: Index, what: str, remembered: last.Last | None = None
) -> tuple[str, tuple[int, int] | None]:
    """Resolve `what` to the id of one document, and its line numbers, if any.

    It is tried first as a path from the working directory, an id or a pattern of ids, then as a file name, then as a part of
    an id.
    """
    name, _, behind = what.rpartition(":")
    match = _LINES.fullmatch(behind) if name else None
    lines = (int(match[1]), max(int(match[1]), int(match[2] or match[1]))) if match and int(match[1]) else None
    readings = [(what, None), *([(name, lines)] if lines is not None else [])]
    ids = [info.id for info in opened.documents()]
    finders: list[Callable[[str], list[str]]] = [partial(_documents_of, opened=opened)]
    if _number(what) is None:
        finders.append(lambda wanted: [one for one in ids if wanted in (Path(one).name, Path(one).stem)])
        finders.append(lambda wanted: [one for one in ids if _plain(wanted) in _plain(one)])
    for matching in finders:
        for wanted, named in readings:
            found = matching(wanted)
            if len(found) > 1:
                more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
                raise UsageError(
                    f"ambiguous name: {wanted!r} matches {len(found)} documents",
                    f"name one of: {', '.join(found[:MOST_NAMED])}{more}",
                )
            if found:
                return found[0], named
    if _number(what) is not None:
        if remembered is None:
            raise UsageError("no last answer of this index", "ask a question first, or give the id of a document")
        numbers = ", ".join(str(number) for number in sorted(remembered.numbers)) or "none"
        raise UsageError(f"no number {what} in the last answer", f"its numbers: {numbers} ({remembered.question})")
    if lines is None:
        name = what
    paths = {Path(doc_id).name: doc_id for doc_id in ids}
    near = [*get_close_matches(name, ids), *(paths[near] for near in get_close_matches(Path(name).name, paths))]
    hint = "run `mergewise info --documents` to list the ids"
    if near:
        hint = f"did you mean {', '.join(dict.fromkeys(near[:3]))}?"
    raise UsageError(f"unknown document: {short_repr(what)}", hint)


def _plain(name: str) -> str:
    return normalize("NFC", name).casefold()


def _documents_of(name: str, opened: Index) -> list[str]:
    """Find the documents of a path from here, or of an id. A path to one file has priority: answers print such paths."""
    here = str(Path.cwd() / name)
    found = opened.find(here, name)
    return found[here] if len(found[here]) == 1 else found[name] or found[here]


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
