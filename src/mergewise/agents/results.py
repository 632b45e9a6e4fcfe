"""Results of tools as compact Markdown. The tokens of a whole result are counted, and never exceed its budget.

Quoted text stands below a line `### CODE PLACE HEADINGS`, whose code no quoted text holds. Lines that a number begins, of `grep`
and `outline`, need no code.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar
from unicodedata import normalize

from mergewise.agents.memory import Memory
from mergewise.errors import UsageError, did_you_mean
from mergewise.extend import SURROGATE, code_for, heading_path, line_at, line_starts, markdown_headings, on_one_line
from mergewise.protocols import TokenCounter
from mergewise.types import GAP, Document, DocumentInfo, Heading, Json, Part, Span, frozen

Made = TypeVar("Made")

BUDGET, LEAST = 1_500, 64
"""Tokens of a result, by default and at least."""
_TRIES = 5
# maximum characters of a token, but for runs of one character
_REACH = 16
_MOST_NAMED = 3
_LONGEST_LINE = 200
_LONGEST_PATH = 120


@frozen
class Room:
    """The tokens that a whole result may have."""

    budget: int
    count: TokenCounter

    def left(self, text: str) -> int:
        return self.budget - self.count([text])[0]

    def fit(self, render: Callable[[int], str], parts: int) -> int:
        """Return the most parts that fit."""
        return bisect_left(range(1, parts + 1), True, key=lambda number: self.left(render(number)) < 0)

    def filled(self, render: Callable[[int], str], parts: int) -> str:
        """Return the text with the most parts that fit."""
        return self.cut(render(self.fit(render, parts)))

    def cut(self, text: str) -> str:
        """Return the beginning that fits."""
        if self.left(text) >= 0:
            return text
        return text[: self.fit(lambda end: text[:end] + "…", min(len(text), _REACH * self.budget))] + "…"


async def fitted(
    make: Callable[[int], Awaitable[Made]], render: Callable[[Made], str], room: Room, first: int, *, grow: bool
) -> tuple[Made, str]:
    """Make a context whose whole text fits. Return it with its text, which is cut if none fits.

    `make` gets the budget `first`. After a text that is too long, or with `grow` too short, it gets as many tokens less or more.
    """
    asked, best, most, low, high = first, None, 0, 0, 2 * first + room.budget
    for _ in range(_TRIES):
        made = await make(asked)
        text = render(made)
        left = room.left(text)
        if left < 0:
            high = asked
            # a little less often gives the same context
            asked = min(asked + left, asked * 7 // 8)
        else:
            gained = room.budget - left > most
            if gained:
                best, most = (made, text), room.budget - left
            if not grow or not gained or left <= room.budget // 10:
                break
            low = asked
            asked += left
        if not low < asked < high:
            asked = (low + high) // 2
    return best or (made, room.cut(text))


# -- documents


def outline_of(document: Document | None) -> Sequence[Heading]:
    """Return the headings with a title: those that the document has, else those in its text."""
    if document is None:
        return ()
    outline = markdown_headings(document.text) if document.outline is None else document.outline
    return [heading for heading in outline if heading.title]


def sections_of(document: Document) -> list[tuple[Heading, int]]:
    """Return the headings, each with the end of the text below it."""
    outline = outline_of(document)
    ends = (
        next((later.start for later in outline[i + 1 :] if later.level <= one.level), len(document.text))
        for i, one in enumerate(outline)
    )
    return list(zip(outline, ends, strict=True))


def outline_text(document: Document, room: Room) -> str:
    """List the headings with their lines and tokens. Deeper headings are left out first."""
    text, sections = document.text, sections_of(document)
    order = sorted(range(len(sections)), key=lambda i: sections[i][0].level)
    tokens = room.count([text, *(text[heading.start : end] for heading, end in sections)])
    lines = [
        f"{line_at(text, heading.start)}: {'#' * heading.level} {on_one_line(heading.title)} ({count})"
        for (heading, _), count in zip(sections, tokens[1:], strict=True)
    ]
    head = f"{on_one_line(document.id)}: {len(line_starts(text))} lines, {tokens[0]} tokens"

    def render(number: int) -> str:
        more = [f"{len(order) - number} deeper headings left out"] if number < len(order) else []
        return "\n".join([head, *(lines[i] for i in sorted(order[:number])), *more])

    return room.filled(render, len(order))


_PLACE = re.compile(
    r"(.+?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?|@(?P<start>\d{1,12})(?:-(?P<end>\d{1,12}))?|\#(?P<heading>.+))",
    re.DOTALL,
)
_LINES = re.compile(r":\d{1,9}(-\d{1,9})?\Z")


def matching_ids(name: str, ids: Sequence[str]) -> list[str]:
    """Return the documents that a name may mean: those with this id, else this ending (a suffix may lack), else this part."""
    wanted, paths = normalize("NFC", name).casefold().strip("/"), [normalize("NFC", one).casefold() for one in ids]
    files = [f"/{path}" for path in paths]
    stems = [path.rpartition(".")[0] for path in files]
    for names, fits, part in (
        (paths, str.__eq__, wanted),
        (files, str.endswith, f"/{wanted}"),
        (stems, str.endswith, f"/{wanted}"),
        (paths, str.__contains__, wanted),
    ):
        if found := [one for one, known in zip(ids, names, strict=True) if fits(known, part)]:
            return found
    return []


def names_in(place: str) -> dict[str, None]:
    """Return the names of documents that a place may begin with: all of it, or what precedes lines, offsets or a heading."""
    read = _PLACE.fullmatch(place)
    return dict.fromkeys((place, _LINES.sub("", place), read[1] if read else place))


def name_in(place: str, ids: Sequence[str]) -> tuple[str, str]:
    """Split a place into the id of its document and the rest, such as ":12-20". Raises UsageError."""
    for name in names_in(place):
        found = matching_ids(name, ids)
        if len(found) == 1:
            return found[0], place[len(name) :]
        if found:
            raise UsageError(f"ambiguous name: {name}", f"one of: {_listed(found)}")
    hint = f"{did_you_mean(place, ids)}give its id, or a part of it"
    raise UsageError(f"unknown document: {on_one_line(place)[:200]}", hint)


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return ", ".join([*map(on_one_line, names[:_MOST_NAMED]), *more])


def part_at(document: Document, rest: str) -> Part:
    """Return the part of a document that the rest of a place names. Raises UsageError."""
    text, read = document.text, _PLACE.fullmatch(f"x{rest}")
    if read is None:
        return 0, len(text)
    if wanted := (read["heading"] or "").strip("# ").casefold():
        for fits in (str.__eq__, str.__contains__):
            for heading, end in sections_of(document):
                if fits(heading.title.casefold(), wanted):
                    return heading.start, end
        raise UsageError(f"{document.id} has no heading {wanted!r}", "list them with outline")
    lines = [*line_starts(text), len(text)]
    if read["first"]:
        first, last = int(read["first"]), int(read["last"] or len(lines))
        start, end = lines[min(max(first - 1, 0), len(lines) - 1)], lines[min(max(first, last), len(lines) - 1)]
    else:
        start, end = int(read["start"] or 0), int(read["end"] or len(text))
    if start >= len(text) > 0:
        raise UsageError(f"{document.id} has {len(lines) - 1} lines, {len(text)} characters")
    return start, min(end, len(text))


def read_text(document: Document, part: Part, room: Room, memory: Memory) -> str:
    """Return the text of the part, as far as it fits, and the place where it goes on."""
    text, name, (start, end) = document.text, on_one_line(document.id), part
    body = text[start : min(end, start + _REACH * room.budget)]
    code, lines = code_for([body]), set(line_starts(text))
    cuts = [0]

    def render(number: int) -> str:
        stop = start + cuts[number]
        where = f":{line_at(text, stop)}" if stop in lines else f"@{stop}"
        follows = f"next: {name}{where}" if stop < len(text) else "end"
        return f"### {code} {name}:{line_at(text, start)}\n{text[start:stop].rstrip()}\n### {code} {follows}"

    kept = 0
    for seam in (r"\n|\Z", r"\s|\Z", r"(?s:.)"):
        cuts[1:] = sorted({match.end() for match in re.finditer(seam, body)} - {0})
        if kept := room.fit(render, len(cuts) - 1):
            memory.add(document, [(start, start + cuts[kept])])
            break
    return room.cut(render(kept))


# -- lists


def documents_text(words: str, documents: Sequence[DocumentInfo], sections: Sequence[Json], room: Room) -> str:
    """List the documents whose names and metadata have all of the words, and the `sections` that a search found."""
    wanted = words.casefold().split()
    lines = [
        on_one_line(f"{one.id} {one.title}".rstrip()) + f" ({one.characters // 4} tokens)"
        for one in documents
        if all(word in f"{one.id} {one.title} {[*one.metadata.values()]}".casefold() for word in wanted)
    ]
    # the best place below each heading
    best = {_path(one): place_of(one) for one in reversed(sections)}
    lines += [f"{best[path]} {path}" for path in reversed(best)]

    def render(number: int) -> str:
        more = [f"{len(lines) - number} more: use narrower words"] if number < len(lines) else []
        return "\n".join([*lines[:number], *more]) or "no documents"

    return room.filled(render, len(lines))


class Match(NamedTuple):
    """A line with a match: its number, its start and end, and the start of the match, in characters."""

    document: Document
    line: int
    start: int
    end: int
    at: int


def matches_in(documents: Iterable[Document], pattern: str) -> Iterator[Match]:
    """Yield the lines that match a regular expression (RE2, which takes linear time), or a text if it is no expression.

    Capitals count only if the pattern has some.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    ignore = not any(map(str.isupper, re.sub(r"\\.", "", pattern)))
    try:
        pc.find_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        pattern = re.escape(pattern)
    for document in documents:
        lines = SURROGATE.sub("?", document.text).split("\n")
        found = pc.find_substring_regex(pa.array(lines, pa.large_string()), pattern, ignore_case=ignore).to_numpy()
        if (found >= 0).any():
            starts = line_starts(document.text)
            for i in (found >= 0).nonzero()[0].tolist():
                at = starts[i] + len(lines[i].encode()[: found[i]].decode())
                yield Match(document, i + 1, starts[i], starts[i] + len(lines[i]), at)


def matches_text(found: Sequence[Match], around: int, room: Room, memory: Memory, note: str = "") -> str:
    """List matching lines with those `around` them, by document, and count those that do not fit."""
    counts = Counter(match.document.id for match in found)
    order = sorted(found, key=lambda match: -counts[match.document.id])

    def render(number: int) -> str:
        written = [f"{len(found)} lines in {len(counts)} documents{note}"]
        left = counts.copy()
        for _, group in groupby(order[:number], key=lambda match: match.document.id):
            own = list(group)
            text, name = own[0].document.text, on_one_line(own[0].document.id)
            left[own[0].document.id] -= len(own)
            lines, hits = text.split("\n"), {match.line: match for match in own}
            shown = sorted({n for at in hits for n in range(at - around, at + around + 1) if 0 < n <= len(lines)})
            written.append(f"### {name}")
            written += [
                f"{line}{':' if line in hits else '-'} {_excerpt(lines[line - 1], hits.get(line))}" for line in shown
            ]
        more = [f"{name} ({count})" for name, count in left.items() if count]
        return "\n".join([*written, *([f"not shown: {_listed(more)}"] if more else [])])

    # a line has a token at least
    kept = room.fit(render, min(len(order), room.budget))
    for match in order[:kept]:
        if match.end - match.start <= _LONGEST_LINE:
            memory.add(match.document, [(match.start, match.end)])
    return room.cut(render(kept))


def _excerpt(line: str, match: Match | None) -> str:
    """Return a line, or the part around its match if it is long."""
    middle = 0 if match is None else match.at - match.start
    start = max(0, min(middle - _LONGEST_LINE // 2, len(line) - _LONGEST_LINE))
    end = start + _LONGEST_LINE
    return f"{'…' if start else ''}{on_one_line(line[start:end])}{'…' if end < len(line) else ''}"


# -- contexts and answers


class _Fresh(NamedTuple):
    """The new parts of a passage. `held` is true if other parts of it were shown before."""

    passage: Json
    text: str
    parts: dict[str, list[Part]]
    held: bool


async def context_text(
    make: Callable[[int], Awaitable[Sequence[Json]]],
    documents: Callable[[Sequence[str]], Awaitable[Mapping[str, Document]]],
    room: Room,
    memory: Memory,
) -> str:
    """Return the passages of a context, without the parts that were shown before.

    Args:
        make: Assembles the passages, as `context_json` has them, within a budget.
        documents: Returns documents by id.
        room: Tokens of the text.
        memory: Parts shown before. The parts of this text are added.
    """
    known: dict[str, Document] = {}

    async def blocks(budget: int) -> list[_Fresh]:
        passages = await make(budget)
        known.update(await documents([s["doc"] for p in passages for s in p["spans"] if s["doc"] not in known]))
        return [_block(passage, known, memory) for passage in passages]

    def render(found: Sequence[_Fresh], number: int | None = None) -> str:
        new = [block for block in found if block.text]
        best = sorted(range(len(new)), key=lambda i: -new[i].passage["score"])[:number]
        chosen = [new[i] for i in sorted(best)]
        code = code_for([block.text for block in chosen])
        held = [place_of(block.passage) for block in found if block.held]
        notes = [f"shown before (again=true repeats): {_listed(held)}"] if held else []
        notes += [f"{len(new) - len(best)} passages did not fit"] if len(best) < len(new) else []
        notes += [] if found else ["nothing was found: ask in other words, or use find"]
        bodies = [f"### {code} {place_of(one.passage)} {_path(one.passage)}\n{one.text}" for one in chosen]
        return "\n".join([*bodies, " · ".join([f"### {code} end", *notes])])

    found, _ = await fitted(blocks, render, room, room.budget * 5 // 6, grow=True)
    new = sorted((block for block in found if block.text), key=lambda block: -block.passage["score"])
    kept = room.fit(lambda number: render(found, number), len(new))
    for doc_id, parts in [item for block in new[:kept] for item in block.parts.items()]:
        memory.add(known[doc_id], parts)
    return room.cut(render(found, kept))


def _block(passage: Json, documents: Mapping[str, Document], memory: Memory) -> _Fresh:
    """Return the parts of a passage that were not shown. Text by a model is always new."""
    if not passage["verbatim"]:
        return _Fresh(passage, f"(written, not quoted) {passage['text']}", {}, False)
    spans = [Span(one["doc"], one["start"], one["end"]) for one in passage["spans"]]
    new = [(span, part) for span in spans for part in memory.new(documents[span.doc_id], span)]
    parts: dict[str, list[Part]] = {}
    for span, part in new:
        parts.setdefault(span.doc_id, []).append(part)
    texts = [documents[span.doc_id].text[start:end].strip("\n") for span, (start, end) in new]
    held = [(span.start, span.end) for span in spans] != [part for _, part in new]
    return _Fresh(passage, GAP.join(text for text in texts if any(map(str.isalnum, text))), parts, held)


def place_of(passage: Json) -> str:
    """Write the place of a passage or citation so that `read` takes it: a line, or characters without lines."""
    span = passage["span"] if "span" in passage else next(iter(passage["spans"]), None)
    if span is None:
        return ""
    where = f"@{span['start']}" if passage["line"] is None else f":{passage['line']}"
    return on_one_line(span["doc"] + where) + ("" if passage["page"] is None else f" p. {passage['page']}")


def _path(passage: Json) -> str:
    """Write the headings, or the title of a document without any."""
    return on_one_line(heading_path("", passage["headings"]) or passage["title"])[:_LONGEST_PATH]


def answer_text(answer: Json, remark: str, citations: Sequence[Json], room: Room) -> str:
    """Return the answer with its marks, and the places that it cites. A quotation that it holds is not repeated."""
    said = answer["answer"]
    folded = " ".join(said.split())
    cited = ["" if " ".join(one["text"].split()) in folded else f"\n{one['text']}" for one in citations]
    code = code_for([said, remark, *cited])
    notes = [] if answer["found"] else ["probably not in the documents"]
    notes += ["not sure"] if answer["found"] and not answer["sure"] else []
    notes += [] if answer["complete"] else ["cut at the limit of tokens"]
    parts = [f"### {code} answer\n{said}", *([f"### {code} remark\n{remark}"] if remark else [])]
    parts += [
        f"### {code} [{one['mark']}] {place_of(one)} {_path(one)}{text}"
        for one, text in zip(citations, cited, strict=True)
    ]

    def render(number: int) -> str:
        more = [f"{len(parts) - number} sources did not fit"] if number < len(parts) else []
        return "\n".join([*parts[:number], " · ".join([f"### {code} end", *notes, *more])])

    return room.cut(render(max(1, room.fit(render, len(parts)))))
