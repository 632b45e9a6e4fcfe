"""The base of all loaders: read the rows of a file with their places, collect skipped rows, and deduplicate documents.

Files are UTF-8, with or without a byte order mark, plain or compressed with gzip, with any line ends.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeAlias, TypeVar

from mergewise.errors import UsageError
from mergewise.evaluate.question_sets import Question, QuestionSet, SkippedRow
from mergewise.extend import split_sentences
from mergewise.types import Document, Json, Part, Span, frozen

PlacedRecords: TypeAlias = Iterator[tuple[str, Json]]
"""Records with their places in a file."""
T = TypeVar("T")
R = TypeVar("R")

HEAD = 1 << 16
"""Number of characters at the beginning of a file that its form is recognised by."""
BETWEEN = "\n\n"
"""Separator of the paragraphs of a document."""


class BadRow(ValueError):
    """An invalid row. The message is the reason, such as "missing question"."""


@frozen
class Sample:
    """A sample for recognising a form: the names in a folder, or the head of a file and its first record."""

    path: Path
    names: frozenset[str]
    head: str
    record: Json


@dataclass(slots=True)
class SetReader:
    """A reader of the rows of files. It collects the rows that it skips. If it `is_strict`, such a row is an error."""

    is_strict: bool = False
    skipped: list[SkippedRow] = field(default_factory=list)

    def skip(self, path: Path, place: str, reason: str) -> None:
        """Record a skipped row. Raises UsageError in strict reading."""
        row = SkippedRow(str(path), place, reason)
        if self.is_strict:
            raise UsageError(str(row), "correct the row, or delete it")
        self.skipped.append(row)

    def records(self, path: Path) -> PlacedRecords:
        """Yield the objects of a file with their places. The file holds JSON lines or one JSON list."""
        with open_text(path) as file:
            is_listed = not is_lines(path) and file.read(HEAD).lstrip().startswith("[")
            file.seek(0)
            yield from self._listed(path, file.read()) if is_listed else self._lines(path, file)

    def _lines(self, path: Path, file: Iterable[str]) -> PlacedRecords:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                self.skip(path, f"line {number}", f"invalid JSON: {error}")
                continue
            yield from self._object(path, f"line {number}", row)

    def _listed(self, path: Path, text: str) -> PlacedRecords:
        """Yield each element of a list with its first line. Raises UsageError at the first element of invalid JSON."""
        decoder, blank = json.JSONDecoder(), re.compile(r"[\s,]*")
        line, counted = 1, 0
        at = blank.match(text, text.index("[") + 1).end()  # type: ignore[union-attr]
        while at < len(text) and text[at] != "]":
            line, counted = line + text.count("\n", counted, at), at
            try:
                row, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                raise UsageError(
                    f"{path}, line {line}: invalid JSON: {error}", "check whether the file is truncated"
                ) from None
            yield from self._object(path, f"line {line}", row)
            at = blank.match(text, end).end()  # type: ignore[union-attr]
        if at >= len(text):
            raise UsageError(f"unfinished JSON list in {path}", "check whether the file is truncated")

    def _object(self, path: Path, place: str, row: object) -> PlacedRecords:
        if isinstance(row, dict):
            yield place, row
        else:
            self.skip(path, place, "not a JSON object")

    def converted(self, path: Path, rows: Iterable[tuple[str, T]], convert: Callable[[T], R]) -> Iterator[R]:
        """Yield the converted rows, and skip the rows that `convert` rejects."""
        for place, row in rows:
            try:
                made = convert(row)
            except BadRow as error:
                self.skip(path, place, str(error))
            except KeyError as error:
                self.skip(path, place, f"missing {error}")
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                self.skip(path, place, f"invalid row: {error}")
            else:
                yield made

    def question_set(
        self,
        path: Path,
        documents: Iterable[Document],
        rows: Iterable[tuple[str, T]],
        convert: Callable[[T], Question],
        file: Path | None = None,
        may_repeat_ids: bool = False,
    ) -> QuestionSet:
        """Return the set at a path. Its name is that of the file or folder.

        Args:
            path: the set.
            documents: the documents. They are read after the questions.
            rows: the rows of the questions with their places.
            convert: a converter of rows, as for `converted`. Empty questions and repeated ids are skipped.
            file: the file of the rows, if it is not the path.
            may_repeat_ids: keep questions with repeated ids.

        Raises:
            UsageError: if no question could be read.
        """
        known: set[str] = set()

        def once(row: T) -> Question:
            question = convert(row)
            if not question.text.strip():
                raise BadRow("missing question")
            if question.id in known and not may_repeat_ids:
                raise BadRow(f"duplicate id of a question: {question.id!r}")
            known.add(question.id)
            return question

        asked = tuple(self.converted(file or path, rows, once))
        if not asked:
            first = f": {self.skipped[0]}" if self.skipped else ""
            raise UsageError(
                f"no questions in {path}{first}", "name another form with the setting set-format, or another file"
            )
        name = path.resolve().name if path.is_dir() else bare_name(path)
        return QuestionSet(name, tuple(documents), asked, tuple(self.skipped))


class Pool:
    """A pool of documents without duplicates. Documents with the same title and text are the same."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}
        self.documents: list[Document] = []

    def add(self, title: str, text: str) -> str:
        """Add a document if it is new, and return its id. Raises BadRow for an empty title and text."""
        title, text = title.strip(), text.strip()
        if not title and not text:
            raise BadRow("empty document")
        known = self._ids.setdefault((title, text), str(len(self._ids)))
        if int(known) == len(self.documents):
            self.documents.append(Document(known, text or title, title))
        return known

    def document(self, doc_id: str) -> Document:
        return self.documents[int(doc_id)]


def pool_loader(convert: Callable[[Json, Pool, str], Question]) -> Callable[[Path, SetReader], QuestionSet]:
    """Return a loader of files whose rows contain their documents. `convert` gets a row, the pool, and the row's place."""

    def load(path: Path, reader: SetReader) -> QuestionSet:
        pool = Pool()
        numbered = ((place, (row, pool, place)) for place, row in reader.records(path))
        return reader.question_set(path, pool.documents, numbered, lambda one: convert(*one))

    return load


def open_text(path: Path, newline: str | None = None) -> TextIO:
    """Open a text file, plain or compressed with gzip."""
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    binary = gzip.open(path) if is_gzip else path.open("rb")  # noqa: SIM115
    return io.TextIOWrapper(binary, encoding="utf-8-sig", newline=newline)


def read_json(path: Path, form: str, part: Callable[[Any], Any]) -> Any:
    """Return the part of a JSON file that holds its rows. Raises UsageError if the file has another form."""
    with open_text(path) as file:
        try:
            return part(json.load(file))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"invalid {form} file {path}: {error}", "check whether the file is truncated") from None


def is_lines(path: Path) -> bool:
    """Check by its name that a file holds JSON lines."""
    return path.name.lower().removesuffix(".gz").endswith(".jsonl")


def bare_name(path: Path) -> str:
    """Return the name of a file without its suffixes: `dev` for dev.jsonl.gz."""
    return path.name.removesuffix(".gz").rsplit(".", 1)[0] if "." in path.name[1:] else path.name


def sample_of(path: Path) -> Sample:
    """Read a sample. Raises OSError, EOFError, zlib.error or UnicodeDecodeError if the file cannot be read."""
    if path.is_dir():
        return Sample(path, frozenset(child.name for child in path.iterdir()), "", {})
    with open_text(path) as file:
        head = file.read(HEAD)
        text = head.lstrip()
        # The first record may be longer than the head. A line is read completely. For a list, the text is doubled until its
        # first record is complete.
        if text.startswith("[") and text[1:].lstrip().startswith("{"):
            record = None
            while record is None and (more := file.read(len(text))):
                record, text = _first(text[1:]), text + more
            record = record or _first(text[1:])
        else:
            record = _first(text if "\n" in text else text + file.readline())
    return Sample(path, frozenset(), head, record or {})


def _first(text: str) -> Json | None:
    """Return the object at the beginning of a text, or None if it is truncated or missing."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def texts(value: object) -> tuple[str, ...]:
    """Return the distinct texts of a list, or of a single value, without empty ones."""
    pieces = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return tuple(dict.fromkeys(text for piece in pieces if piece is not None and (text := str(piece).strip())))


def piece_at(document: Document, start: int, end: int) -> tuple[Span, str]:
    """Return a part of a document as evidence, without blanks around it."""
    whole = document.text[start:end]
    start += len(whole) - len(whole.lstrip())
    text = whole.strip()
    return Span(document.id, start, start + len(text)), text


def sentence_at(document: Document, start: int, end: int) -> tuple[Span, str]:
    """Return the sentences that a part of a document overlaps, as evidence."""
    text = document.text
    # split only the text between blank lines, because splitting a whole article is slow and no sentence crosses a blank line
    first = text.rfind(BETWEEN, 0, start) + len(BETWEEN) if BETWEEN in text[:start] else 0
    last = text.find(BETWEEN, end)
    block = text[first : len(text) if last < 0 else last]
    inside = [(first + a, first + b) for a, b in split_sentences(block) if first + a < end and start < first + b]
    return piece_at(document, min([start, *(a for a, _ in inside)]), max([end, *(b for _, b in inside)]))


def place_of(text: str, piece: str) -> Part | None:
    """Find a piece in a text, exactly or with other blanks between its words. Return its start and end, or None."""
    words = piece.split()
    if not words:
        return None
    if (at := text.find(piece)) >= 0:
        return at, at + len(piece)
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return found and found.span()
