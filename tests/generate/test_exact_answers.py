"""Questions for a version, a clause, a code or a row: quoted with its heading or row, and refused by name if it is missing."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

import mergewise
from mergewise import Document, Span
from mergewise.engine import Index
from mergewise.readers import read_file
from mergewise.store import postings
from mergewise.types import Evidence

STANDARD = """# Controls

## A.8.24 Use of cryptography

Rules for keys shall be defined.

## A.8.25 Secure development

Rules for the development of software shall be established.
"""
RELEASES = """# Releases

## 3.12.4 (2024-06-06)

* The parser skips comments.

## 3.12.4rc1 (2024-05-01)

* The parser skips empty lines.

## 3.12.3 (April 9, 2024)

* The parser reads tabs.
"""
CODES = """# Codes

| Code | Meaning | Action |
| --- | --- | --- |
| ORA-00942 | table or view does not exist | create it |
| ORA-00955 | name is used by an object | rename it |
"""
CLAUSES = "Terms\n\n4.1.2 Logs\nLogs shall be kept for thirty days.\n\n4.1.3 Clocks\nClocks shall be set each hour.\n"
LETTERS = "Die Überprüfung der Geräte erfolgt jährlich im März durch die Prüfstelle des eﬃzienten Büros."
DOCUMENTS = {"standard.md": STANDARD, "releases.md": RELEASES, "codes.md": CODES, "clauses.txt": CLAUSES}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with mergewise.open(Path(tmp_path_factory.mktemp("exact")) / "index", embedder="none") as opened:
        opened.add([Document(name, text) for name, text in DOCUMENTS.items()])
        yield opened


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("What is A.8.24 about?", "A.8.24 Use of cryptography"),
        ("When was 3.12.4 released?", "3.12.4 (2024-06-06)"),
        ("When was 3.12.4rc1 released?", "3.12.4rc1 (2024-05-01)"),
        ("Which release is dated 9 April 2024?", "3.12.3 (April 9, 2024)"),
        ("What does ORA-00942 mean?", "table or view does not exist"),
    ],
)
def test_what_is_named_is_quoted_first(index: Index, question: str, quoted: str) -> None:
    answer = index.ask(question, mode="extractive")
    assert answer.found and quoted in answer.text.split("]")[0]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is A.8.26 about?", "'A.8.26' does not occur in these documents; A.8.25 does."),
        ("When was 3.12.5 released?", "'3.12.5' does not occur in these documents; 3.12.4 does."),
        ("What does ORA-00943 mean?", "'ORA-00943' does not occur in these documents; ORA-00942 and ORA-00955 do."),
        ("What does 4.1.1 say of logs?", "'4.1.1' does not occur in these documents; 4.1.2 does."),
    ],
)
def test_the_nearest_names_of_a_missing_one_are_named(index: Index, question: str, text: str) -> None:
    answer = index.ask(question, mode="extractive")
    assert answer.text == text and not answer.citations and not answer.found and not answer.sure


def test_a_beginning_is_no_sure_answer(index: Index) -> None:
    answer = index.ask("How long are logs kept by 4.1?", mode="extractive")
    assert "does not occur" not in answer.text and not answer.sure


def test_the_line_above_names_a_sentence(index: Index) -> None:
    evidence = index.context("How long are logs kept by 4.1.2?", budget=200).evidence
    assert evidence is not None and "thirty days" in evidence[0].text and evidence[0].exact == 1


def test_the_header_of_a_table_is_never_sure() -> None:
    from mergewise.generate.confidence import Signals

    header = "| Code | Meaning |\n| --- | --- |"
    for quoted, lacks in ((header, True), (f"{header}\n| 1 | lost |", False), ("Code 1 means lost.", False)):
        best = Evidence(Span("a", 0, 1), quoted, (), 0.5, None, 0.5, 0.5, 0.5)
        signals = Signals.of("What does Code mean?", quoted, "", best, nearest=0, margin=3)
        assert signals.lacks_form is lacks


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
@pytest.mark.parametrize(
    ("text", "question"),
    [
        (LETTERS, "Wann erfolgt die Überprüfung der Geräte des effizienten Büros?"),
        ("보증 기간은 이년이며 수리는 본사에서 접수한다.", "보증 기간은 얼마인가?"),
        ("Bảo hiểm y tế được cấp trong ba mươi ngày.", "Bảo hiểm y tế được cấp trong bao nhiêu ngày?"),
        ("Ｔｏｋｙｏ Ｔｏｗｅｒ is ３３３ metres tall.", "How tall is Tokyo Tower?"),
    ],
)
def test_letters_in_another_form_are_the_same(
    tmp_path: Path, form: Literal["NFC", "NFD", "NFKC"], text: str, question: str
) -> None:
    with mergewise.open(tmp_path / "index", embedder="none") as opened:
        opened.add(
            [Document("a", unicodedata.normalize(form, text)), Document("b", "Rivers and gardens in the north.")]
        )
        answer = opened.ask(unicodedata.normalize("NFC", question), mode="extractive")
        assert answer.found and answer.citations[0].text in unicodedata.normalize(form, text)


def test_an_older_index_gets_exact_names_by_a_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(postings, "_SCHEMA", postings._SCHEMA.remove_metadata())
        patch.setattr(postings, "index_terms", lambda text: ())
        with mergewise.open(tmp_path / "index", embedder="none") as opened:
            opened.add([Document(name, text) for name, text in DOCUMENTS.items()])
    with mergewise.open(tmp_path / "index", embedder="none") as opened:
        assert not opened.store.reader().has_exact_names()
        assert "'3.12.5' does not occur" in opened.ask("When was 3.12.5 released?", mode="extractive").text
        opened.check(repair=True)
        assert opened.store.reader().has_exact_names()
        assert "3.12.4 does" in opened.ask("When was 3.12.5 released?", mode="extractive").text


LOG = "10:00:01 INFO started\n10:00:05 ERROR 1033 refused\n10:01:00 WARN disk 91 % full"
SALES = "| Region | Sales of the year before |\n| --- | --- |\n" + "\n".join(
    f"| {name} | {number} thousand pieces of each product |"
    for number, name in enumerate("North East Coast Hills South Lakes Islands Plains".split(), 90)
)


@pytest.mark.parametrize(
    ("text", "question", "quoted"),
    [
        (LOG, "How full is the disk?", "10:01:00 WARN disk 91 % full"),
        (SALES, "What are the sales of South?", "| South | 94 thousand pieces of each product |"),
    ],
)
def test_a_line_or_a_row_is_quoted_without_its_neighbours(
    tmp_path: Path, text: str, question: str, quoted: str
) -> None:
    with mergewise.open(tmp_path / "index") as opened:
        opened.add([Document("a", text), Document("b", "Rivers and gardens in the north.")])
        texts = [citation.text for citation in opened.ask(question, mode="extractive").citations]
    # the header of a table is with its row
    assert texts[-1].endswith(quoted) and sum(map(len, texts)) < len(text) / 1.5


@pytest.mark.parametrize(
    "asked", ["max_retries", "maxRetries", "MAX_RETRIES", "max-retries", "--max-retries", "max retries"]
)
@pytest.mark.parametrize("written", ["max_retries", "maxRetries", "MAX_RETRIES", "max-retries", "max retries"])
def test_the_spellings_of_a_name_meet(tmp_path: Path, asked: str, written: str) -> None:
    others = "\n\n".join(f"The field of {name} is a number of the client." for name in ("size", "depth", "width"))
    with mergewise.open(tmp_path / "index", embedder="none") as opened:
        opened.add([Document("a", f"{others}\n\nA call is sent {written} times.\n"), Document("b", others)])
        answer = opened.ask(f"What is {asked}?", mode="extractive")
        assert answer.found and f"A call is sent {written} times." in answer.text
        assert "does not occur" not in answer.text


COMPANIES = {
    "acme-sweden.md": "# Acme Sweden\n\nAcme Sweden makes saws in Malmö. Its CEO is Karin Lund. It was founded in 1984.\n",
    "beta-norway.md": "# Beta Norway\n\nBeta Norway sells boats. Its CEO is Ola Berg. It buys its saws from Sweden.\n",
    "orders.csv": "Order,Customer,Pieces\nA-17,Lakeside School,12\nA-18,Hill Farm,3\nA-19,Port Museum,40\n",
    "customers.md": "# Customers\n\n## Lakeside School\n\nIt pays within 30 days.\n\n## Hill Farm\n\nIt pays in advance.\n\n"
    "## Port Museum\n\nIt pays within 60 days.\n",
}


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with mergewise.open(Path(tmp_path_factory.mktemp("near")) / "index") as opened:
        opened.add([Document(name, text) for name, text in COMPANIES.items()])
        yield opened


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Who is the CEO of Acme Norway?", "Acme Norway"),
        ("When was Beta Sweden founded?", "Beta Sweden"),
        ("Where does Karin Berg work?", "Karin Berg"),
        ("When does Hill School pay?", "Hill School"),
    ],
)
def test_two_names_that_occur_apart_are_missing(companies: Index, question: str, name: str) -> None:
    answer = companies.ask(question, mode="extractive")
    assert not answer.found and answer.text.startswith(f"'{name}' does not occur in these documents.")


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("Who is the CEO of Acme Sweden?", "Karin Lund"),
        ("Does Acme in Sweden make saws?", "saws"),
        ("What does Norway's Beta sell?", "boats"),
        ("When does the customer of order A-19 pay?", "within 60 days"),
        ("How does the customer of order A-18 pay?", "in advance"),
    ],
)
def test_names_near_each_other_are_one_and_those_of_a_row_lead_on(companies: Index, question: str, quoted: str) -> None:
    answer = companies.ask(question, mode="extractive")
    assert answer.found and quoted in answer.text


SIGNATURES = """
.. function:: connect(host, *, timeout=30, retries=3)

   Open a link to *host*. A link that does not answer is tried again.

   .. versionadded:: 3.4

   .. deprecated:: 3.12
      Use :func:`dial`.

.. function:: dial(address, *, timeout=10)

   Dial an *address*.

   .. versionadded:: 3.11
"""


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("What is the default timeout of connect?", "connect(host, *, timeout=30, retries=3)"),
        ("What is the default timeout of dial()?", "dial(address, *, timeout=10)"),
        ("Which version added dial?", "version added 3.11"),
        ("Since which version is connect deprecated?", "deprecated 3.12"),
    ],
)
def test_a_field_of_a_signature_is_quoted_with_its_name(tmp_path: Path, question: str, quoted: str) -> None:
    (tmp_path / "links.rst").write_text(SIGNATURES)
    with mergewise.open(tmp_path / "index", embedder="none") as opened:
        opened.add([read_file(tmp_path / "links.rst", id="links.rst").document])
        answer = opened.ask(question, mode="extractive")
    assert answer.found and quoted in answer.text
    assert all(span.text in SIGNATURES for span in answer.citations)
