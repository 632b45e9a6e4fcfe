"""The base of all loaders: rows of files with their places, unreadable rows, and documents that occur more than once.

Files are in UTF-8, with or without a byte order mark, packed with gzip or plain, with any line ends.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeAlias, TypeVar

from mergewise.errors import UsageError
from mergewise.evaluate.question_sets import Question, QuestionSet, SkippedRow
from mergewise.text.sentences import split_sentences
from mergewise.types import Document, Span

Record: TypeAlias = Mapping[str, Any]
T = TypeVar("T")
R = TypeVar("R")

HEAD = 1 << 16
"""Characters of a file by which its form is told."""
BETWEEN = "\n\n"
"""Paragraphs of one document."""
_GZIP = b"\x1f\x8b"


class BadRow(ValueError):
    """What is wrong with a row, as a sentence that begins with the row: "has no question"."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a form is told by: the names in a folder, or the first characters of a file and its first record, if it has any."""

    path: Path
    names: frozenset[str]
    head: str
    record: Record


@dataclass(slots=True)
class SetReader:
    """Reads the rows of files, and keeps what it had to leave out; where it `is_strict`, such a row is an error."""

    is_strict: bool = False
    skipped: list[SkippedRow] = field(default_factory=list)

    def skip(self, path: Path, place: str, reason: str) -> None:
        """Leave out a row. Raises UsageError where that is not wanted."""
        row = SkippedRow(str(path), place, reason)
        if self.is_strict:
            raise UsageError(str(row), "mend the row, or read the others without it")
        self.skipped.append(row)

    def records(self, path: Path) -> Iterator[tuple[str, Record]]:
        """The objects of a file with their places: JSON lines, or one JSON list."""
        with open_text(path) as file:
            is_listed = not is_lines(path) and file.read(HEAD).lstrip().startswith("[")
            file.seek(0)
            yield from self._listed(path, file.read()) if is_listed else self._lines(path, file)

    def _lines(self, path: Path, file: Iterable[str]) -> Iterator[tuple[str, Record]]:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                self.skip(path, f"line {number}", f"is no JSON: {error}")
                continue
            yield from self._object(path, f"line {number}", row)

    def _listed(self, path: Path, text: str) -> Iterator[tuple[str, Record]]:
        """Each element with the line that it begins in; a list that is broken cannot be read beyond that."""
        decoder, blank = json.JSONDecoder(), re.compile(r"[\s,]*")
        line, counted = 1, 0
        at = blank.match(text, text.index("[") + 1).end()  # type: ignore[union-attr]
        while at < len(text) and text[at] != "]":
            line, counted = line + text.count("\n", counted, at), at
            try:
                row, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{path}, line {line} is no JSON: {error}", "the file may be cut off") from None
            yield from self._object(path, f"line {line}", row)
            at = blank.match(text, end).end()  # type: ignore[union-attr]
        if at >= len(text):
            raise UsageError(f"{path} ends within its list", "the file may be cut off")

    def _object(self, path: Path, place: str, row: object) -> Iterator[tuple[str, Record]]:
        if isinstance(row, dict):
            yield place, row
        else:
            self.skip(path, place, "is no JSON object")

    def converted(self, path: Path, rows: Iterable[tuple[str, T]], convert: Callable[[T], R]) -> Iterator[R]:
        """What `convert` makes of each row that it can read."""
        for place, row in rows:
            try:
                made = convert(row)
            except BadRow as error:
                self.skip(path, place, str(error))
            except KeyError as error:
                self.skip(path, place, f"lacks {error}")
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                self.skip(path, place, f"has another form: {error}")
            else:
                yield made

    def questions(
        self, path: Path, rows: Iterable[tuple[str, T]], convert: Callable[[T], Question]
    ) -> Iterator[Question]:
        """As `converted`. A question whose id another has already is left out."""
        known: set[str] = set()

        def once(row: T) -> Question:
            question = convert(row)
            if not question.text.strip():
                raise BadRow("has no question")
            if question.id in known:
                raise BadRow(f"has the id {question.id!r} of another question")
            known.add(question.id)
            return question

        return self.converted(path, rows, once)

    def question_set(
        self, path: Path, name: str, documents: Iterable[Document], questions: Iterable[Question]
    ) -> QuestionSet:
        """Return the set. Raises UsageError if no question could be read."""
        asked = tuple(questions)
        if not asked:
            first = f": {self.skipped[0]}" if self.skipped else ""
            raise UsageError(f"{path} has no questions{first}", "name another form with --format, or another file")
        return QuestionSet(name, tuple(documents), asked, tuple(self.skipped))


class Pool:
    """Documents, each once: two of the same title and text are one."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}
        self.documents: list[Document] = []

    def add(self, title: str, text: str) -> str:
        """The id of the document of this title and text. Raises BadRow where there is neither."""
        title, text = title.strip(), text.strip()
        if not title and not text:
            raise BadRow("has an empty document")
        known = self._ids.setdefault((title, text), str(len(self._ids)))
        if int(known) == len(self.documents):
            self.documents.append(Document(known, text or title, title))
        return known

    def document(self, doc_id: str) -> Document:
        return self.documents[int(doc_id)]


def pool_loader(convert: Callable[[Record, Pool, str], Question]) -> Callable[[Path, SetReader], QuestionSet]:
    """Return a loader of files whose rows bring their documents along. `convert` gets a row, the pool, and the row's place."""

    def load(path: Path, reader: SetReader) -> QuestionSet:
        pool = Pool()
        numbered = ((place, (row, pool, place)) for place, row in reader.records(path))
        questions = tuple(reader.questions(path, numbered, lambda one: convert(*one)))
        return reader.question_set(path, bare_name(path), pool.documents, questions)

    return load


def open_text(path: Path, newline: str | None = None) -> TextIO:
    """A text file, packed or plain."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    binary = gzip.open(path) if packed else path.open("rb")  # noqa: SIM115
    return io.TextIOWrapper(binary, encoding="utf-8-sig", newline=newline)


def read_json(path: Path, form: str, part: Callable[[Any], Any]) -> Any:
    """The part of a JSON file that holds its rows. Raises UsageError where there is none."""
    with open_text(path) as file:
        try:
            return part(json.load(file))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"{path} is no {form}: {error}", "the file may be cut off") from None


def is_lines(path: Path) -> bool:
    """Whether a file says by its name that each line is an object."""
    return path.name.lower().removesuffix(".gz").endswith(".jsonl")


def bare_name(path: Path) -> str:
    """The name of a file without its endings: `dev` of dev.jsonl.gz."""
    return path.name.removesuffix(".gz").rsplit(".", 1)[0] if "." in path.name[1:] else path.name


def sample_of(path: Path) -> Sample:
    """Raises OSError, EOFError, zlib.error or UnicodeDecodeError where the file cannot be read."""
    if path.is_dir():
        return Sample(path, frozenset(child.name for child in path.iterdir()), "", {})
    with open_text(path) as file:
        head = file.read(HEAD)
        text = head.lstrip()
        # a record may be longer than the head: a line is read whole, a list twice as far as long as its first record is cut off
        if text.startswith("[") and text[1:].lstrip().startswith("{"):
            record = None
            while record is None and (more := file.read(len(text))):
                record, text = _first(text[1:]), text + more
            record = record or _first(text[1:])
        else:
            record = _first(text if "\n" in text else text + file.readline())
    return Sample(path, frozenset(), head, record or {})


def _first(text: str) -> Record | None:
    """The object that the text begins with; None where it is cut off, or there is none."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def texts(value: object) -> tuple[str, ...]:
    """The texts of a list, or the one text, without those that say nothing."""
    pieces = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return tuple(dict.fromkeys(text for piece in pieces if piece is not None and (text := str(piece).strip())))


def piece_at(document: Document, start: int, end: int) -> tuple[Span, str]:
    """A stretch of a document as evidence, without blanks around it."""
    whole = document.text[start:end]
    start += len(whole) - len(whole.lstrip())
    text = whole.strip()
    return Span(document.id, start, start + len(text)), text


def sentence_at(document: Document, start: int, end: int) -> tuple[Span, str]:
    """The sentence, or the sentences, that this stretch of a document stands in."""
    text = document.text
    # no sentence crosses a blank line, and a whole article takes long to split
    first = text.rfind(BETWEEN, 0, start) + len(BETWEEN) if BETWEEN in text[:start] else 0
    last = text.find(BETWEEN, end)
    block = text[first : len(text) if last < 0 else last]
    inside = [(first + a, first + b) for a, b in split_sentences(block) if first + a < end and start < first + b]
    return piece_at(document, min([start, *(a for a, _ in inside)]), max([end, *(b for _, b in inside)]))


def place_of(text: str, piece: str) -> tuple[int, int] | None:
    """Where a text holds a piece: as it stands, else with other blanks between its words; None where it does not."""
    words = piece.split()
    if not words:
        return None
    if (at := text.find(piece)) >= 0:
        return at, at + len(piece)
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return found and found.span()
