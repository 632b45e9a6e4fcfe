"""The fuzz targets: functions of bytes with seeds. A target raises an exception if an invariant fails."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

from mergewise.assemble.pointing import numbers_of, value_in
from mergewise.cli.configuration import read_configuration
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.designs.strategies import assemble, resolve, split_specs
from mergewise.errors import ReadError, UsageError
from mergewise.generate.marks import MarkFilter, marked_texts, without_unknown
from mergewise.history import by_rules
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.prompting.records import records_in
from mergewise.prompting.replies import json_in
from mergewise.retrieve.hybrid import HybridReader, SearchSettings
from mergewise.store.audit import document_problems, with_settings
from mergewise.text.sentences import split_sentences
from mergewise.text.support.judge import Judge
from mergewise.text.support.sources import Extract, ReadSource
from mergewise.text.units import split_units
from mergewise.types import Document, DocumentRows, Message
from tests.memory_store import MemoryStore
from tests.readers.conftest import check
from tests.readers.test_read_epub import CHAPTERS, book
from tests.support import read


@dataclass(frozen=True, slots=True)
class Target:
    """A function that accepts any bytes, and its seeds: the fuzzer's first inputs."""

    run: Callable[[bytes], None]
    seeds: Sequence[bytes]


def text_of(data: bytes) -> str:
    """Decode the bytes as text with any characters except surrogates."""
    return data.decode("utf-8", "replace")


# -- files


@cache
def _folder() -> Path:
    # Use memory if possible, since each input is written to a file.
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="mergewise-fuzz-", dir=shared if shared.is_dir() else None))


def read_bytes(suffix: str, data: bytes) -> Document | None:
    """Read the bytes as a file and check the document. Return None if the reader refuses it in one line."""
    path = _folder() / f"{os.getpid()}{suffix}"
    path.write_bytes(data)
    try:
        return check(read(path, id=f"a{suffix}"))
    except ReadError as error:
        assert error.message and "\n" not in error.message
        return None


def _read(suffix: str, data: bytes) -> None:
    read_bytes(suffix, data)


def _read_part(suffix: str, whole: bytes, name: str, data: bytes) -> None:
    """Read an otherwise valid archive with the bytes as one part."""
    read_bytes(suffix, with_part(whole, name, data))


def with_part(whole: bytes, name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            target.writestr(info.filename, data if info.filename == name else source.read(info))
    return out.getvalue()


def part(whole: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(whole)) as source:
        return source.read(name)


TEXTS: Mapping[str, bytes] = {
    ".txt": b"Title: Owls\n\nOwls eat mice. Mice eat corn.\n",
    ".md": b"---\ntitle: Owls\n---\n# Owls\n\n- one *two* `three`\n\n| a | b |\n"
    b"|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n[a](b) <i>c</i>\n",
    ".rst": b"Owls\n====\n\n.. note:: Owls eat mice.\n\n* one\n* two\n\n``x``, "
    b"`y`_, :ref:`z`\n\n::\n\n  code\n\n+---+---+\n| a | b |\n+---+---+\n",
    ".html": b"<html lang=en><head><title>Owls</title></head><body><h1>Owls</h1><p>"
    b"eat &amp; fly</p><table><tr><td>1</td></tr></table><pre>a\nb</pre></body></html>",
    ".xml": b"<article><front><article-meta><title-group><article-title>"
    b"Owls</article-title></title-group></article-meta></front>"
    b"<body><sec><title>A</title><p>Owls eat mice.</p></sec></body></article>",
    ".csv": b'name;age\n"Ada, the owl";3\nBob;4\n',
    ".json": b'{"title": "Owls", "text": ["Owls eat mice.", {"a": 1}]}',
    ".jsonl": b'{"text": "Owls eat mice."}\n{"text": "Mice."}\n',
    ".ipynb": b'{"cells": [{"cell_type": "markdown", "source": ["# Owls"]}, '
    b'{"cell_type": "code", "source": "x = 1", "outputs": []}], "nbformat": 4}',
    ".eml": b"From: Ada <a@b.c>\nSubject: =?utf-8?q?Owls?=\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nOwls.\n--x\n"
    b"Content-Type: text/html; charset*0=utf; charset*1=-8\nContent-Transfer-Encoding: base64\n\nPGI+b3dsczwvYj4=\n--x--\n",
    ".mbox": b"From a\nSubject: x\n\nOwls.\n\nFrom b\nSubject: y\n\nMice.\n",
    ".py": b'"""Owls."""\n\nclass Owl:\n    """Eats."""\n\n    def eat(self, mouse="x"):\n        return 1\n',
    ".rs": b"/// Owls.\nfn eat(mouse: &str) -> u8 {\n  1\n}\n",
}


def _office() -> Iterable[tuple[str, Target]]:
    import docx
    import openpyxl
    import pptx
    from odf.opendocument import OpenDocumentText
    from odf.text import H, P

    file = io.BytesIO()
    word = docx.Document()
    word.add_heading("Owls", 1)
    word.add_paragraph("Owls eat mice.", style="List Bullet")
    word.add_table(1, 2).cell(0, 0).text = "a"
    word.save(file)
    for name in ("word/document.xml", "word/styles.xml", "word/numbering.xml"):
        yield f"docx {Path(name).stem}", _archived(".docx", file.getvalue(), name)
    file = io.BytesIO()
    text = OpenDocumentText()
    text.text.addElement(H(outlinelevel=1, text="Owls"))
    text.text.addElement(P(text="Owls eat mice."))
    text.save(file)
    yield "odt", _archived(".odt", file.getvalue(), "content.xml")
    file = io.BytesIO()
    sheets = openpyxl.Workbook()
    sheets.active.append(["name", "age"])
    sheets.active.append(["Ada", 3.5])
    sheets.save(file)
    for name in ("xl/worksheets/sheet1.xml", "xl/styles.xml", "xl/workbook.xml"):
        yield f"xlsx {Path(name).stem}", _archived(".xlsx", file.getvalue(), name)
    file = io.BytesIO()
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Owls"
    deck.save(file)
    yield "pptx", _archived(".pptx", file.getvalue(), "ppt/slides/slide1.xml")
    whole = book(CHAPTERS)
    for name in ("OEBPS/Text/one.xhtml", "OEBPS/book.opf", "OEBPS/nav.xhtml"):
        yield f"epub {Path(name).stem}", _archived(".epub", whole, name)


def _archived(suffix: str, whole: bytes, name: str) -> Target:
    return Target(partial(_read_part, suffix, whole, name), (part(whole, name),))


# -- splitters


def sentences(data: bytes) -> None:
    """Check that sentences are in order and not blank, and that only white space is between them."""
    text = text_of(data)
    spans = split_sentences(text)
    bounds = [0, *(at for span in spans for at in span), len(text)]
    assert bounds == sorted(bounds)
    assert not any(text[start:end].strip() for start, end in zip(bounds[::2], bounds[1::2], strict=True))
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)


def units(data: bytes) -> None:
    text = text_of(data)
    split = split_units(text)
    assert all(0 <= unit.start < unit.end <= len(text) for unit in split)
    assert all(left.end <= right.start for left, right in pairwise(split))


@cache
def _views() -> dict[str, dict[str, object]]:
    return {name: dict(view.dump()) for name, view in VIEWS.items() if not view.needs_embedder}


def views(data: bytes) -> None:
    """Check that every view without a model, built from any text, passes the rules of `check`."""
    text = text_of(data)
    if not text.strip():
        return
    document = Document("a.md", text, title="A")
    rows = DocumentRows(document, "", {})
    models = Models(count_tokens)
    known = with_settings(VIEWS, _views())
    for view, settings in known:
        (built,) = view.build([rows], settings, models)
        rows = DocumentRows(document, "", {**rows.tables, **built})
    problems = document_problems(rows, known, 0)
    assert not problems, problems


# -- questions


@cache
def _reader() -> HybridReader:
    store = MemoryStore(VIEWS, views=_views())
    text = (
        "# Owls\n\nOwls eat mice. They fly at night.\n\n## Mice\n\n"
        "- Mice eat corn.\n- A mouse weighs 20 g.\n\nReleased 2021-03-04.\n"
    )
    documents = [Document("owls.md", text), Document("bats.md", text.replace("Owls", "Bats"))]
    models = Models(count_tokens)
    rows = [DocumentRows(document, "", {}) for document in documents]
    for view, settings in with_settings(VIEWS, _views()):
        built = view.build(rows, settings, models)
        rows = [DocumentRows(one.document, "", {**one.tables, **more}) for one, more in zip(rows, built, strict=True)]
    store.write(rows)
    return HybridReader(store, None, VIEWS, None, SearchSettings())


def question(data: bytes) -> None:
    """Check that every strategy keeps the budget for any question."""
    text = text_of(data[1:])
    if not text.strip():
        return
    budget = 1 + data[0]
    for name, strategy in STRATEGIES.items():
        if strategy.needs is None and all(view in _views() for view in strategy.views):
            context = assemble(name, text, _reader(), budget, Models(count_tokens))
            assert context.tokens <= budget, (name, context.tokens)


def follow_up(data: bytes) -> None:
    asked, _, before = text_of(data).partition("\0")
    assert isinstance(by_rules(asked, [Message("user", before), Message("assistant", asked)]), str)


# -- what models, users and folders write


def replies(data: bytes) -> None:
    """Check that any model reply can be parsed."""
    text = text_of(data)
    records = records_in(text, {"key": ("text", ("question",)), "support": ("numbers", ("sentences",))})
    assert isinstance(records.items, tuple)
    json_in(text)
    numbers = numbers_of(value_in(text), 9)
    assert isinstance(numbers, str) or all(1 <= n <= 9 for n in numbers)


def marks(data: bytes) -> None:
    """Check that a text in pieces gives the same result as the whole text, and that only known sources stay in its marks."""
    text = text_of(data[1:])
    known = range(1, 4)
    shown: list[str] = []
    reader = MarkFilter(known, shown.append)
    size = 1 + data[0] % 7 if data else 1
    for at in range(0, len(text), size):
        reader.add(text[at : at + size])
    reader.end()
    whole, _ = without_unknown(text, known)
    assert "".join(shown) == whole.strip()
    assert all(set(piece.numbers) <= set(known) for piece in marked_texts(text, known))


def judge(data: bytes) -> None:
    stated, _, source = text_of(data).partition("\0")
    judgement = Judge(lambda path: ReadSource.of([Extract(source, 0, len(source))], path)).judge(stated, ["Owls"])
    assert all(0 <= start <= end <= len(source) for start, end in judgement.support)


def specs(data: bytes) -> None:
    for spec in split_specs(text_of(data)):
        try:
            resolve(spec)
        except UsageError as error:
            assert error.message


def configuration(data: bytes) -> None:
    path = _folder() / f"{os.getpid()}.toml"
    path.write_bytes(data)
    try:
        read_configuration(path, {"ask": {"budget": False, "index_dir": True}})
    except UsageError as error:
        assert error.message


def targets() -> dict[str, Target]:
    """Return every target by name. The seeds of office files need the packages of the extras `pptx` and `dev`."""
    prose = (
        b"# Owls\n\nDr. Who eats mice. (See Fig. 3.)\n\n- one\n- two\n\n```\ncode\n```\n",
        "中文。はい。\n".encode(),
    )
    return {
        **{f"read {suffix}": Target(partial(_read, suffix), (seed,)) for suffix, seed in TEXTS.items()},
        **dict(_office()),
        "sentences": Target(sentences, prose),
        "units": Target(units, prose),
        "views": Target(views, prose),
        "question": Target(question, (b"\x40What do owls eat?", b"\x05When was it released in 2021?")),
        "follow-up": Target(follow_up, (b"And when?\0What do owls eat?",)),
        "replies": Target(replies, (b'[{"key": "a", "support": [1, 2]}]', b"1-3 7 9", b'```json\n{"key": "a"')),
        "marks": Target(marks, (b"\x02Owls [1], mice [2, 3] and [1-3] [9].",)),
        "judge": Target(judge, (b"Owls ate 3 mice in 2021.\0In 2021 owls ate 3 mice. They do not fly.",)),
        "specs": Target(specs, (b"topk(k=3), weave, mrag(order=similarity)",)),
        "configuration": Target(configuration, (b'budget = 3\n[ask]\nindex = "a"\n',)),
    }
