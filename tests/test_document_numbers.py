"""Questions that follow numbers of documents: RFCs and PEPs that refer to each other in their header fields."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mergewise as mw

TOPICS = (
    "gateways",
    "frames",
    "notebooks",
    "registries",
    "parsers",
    "clocks",
    "buffers",
    "sockets",
    "tokens",
    "queues",
)


def rfc(number: int, title: str, left: list[str], author: str, body: str) -> str:
    fields = ["Internet Working Group", f"Request for Comments: {number}", *left]
    entries = [author, "Lakeside Labs", "April 2021", *[""] * len(fields)]
    rows = [f"{field:<40}{entry:>32}".rstrip() for field, entry in zip(fields, entries, strict=False)]
    lines = [*rows, "", f"{title:^72}".rstrip(), "", "Abstract", "", f"   {body}"]
    return "\n".join(lines) + "\n"


def pep(number: int, title: str, author: str, more: str, body: str) -> str:
    fields = f"PEP: {number}\nTitle: {title}\nAuthor: {author}\nStatus: Final\nType: Standards Track\n{more}"
    return f"{fields}Created: 28-Feb-2018\n\n\nAbstract\n========\n\n{body}\n"


@pytest.fixture(scope="module")
def standards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mw.Index]:
    folder = tmp_path_factory.mktemp("standards")
    files = {
        "rfc9001.txt": rfc(9001, "Heron Protocol", ["Obsoletes: 1616"], "M. Thorsby, Ed.", "Herons carry frames."),
        "rfc1616.txt": rfc(1616, "Crane Protocol", ["Obsoletes: 900, 901"], "B. Marsh", "Cranes carry packets."),
        "rfc0042.txt": rfc(42, "Old Names", ["Category: Historic"], "C. Reed", "Names are kept in Lindholm."),
        "pep-0008.rst": pep(8, "Layout of Programs", "Gil Brandt", "", "Four spaces per level."),
        "pep-9700.rst": pep(9700, "Layout of Pages", "Ruth Amsel", "Superseded-By: 8\n", "Pages hold cells."),
    }
    for number, topic in enumerate(TOPICS, start=2001):
        body = f"This document is about {topic} and their authors, as PEP 0012 was."
        files[f"rfc{number}.txt"] = rfc(
            number, f"On {topic}", [f"Updates: {number - 1000}"], f"A. Writer{number}", body
        )
        files[f"pep-{number}.rst"] = pep(number, f"Better {topic}", f"Writer{number} Smith", "Requires: 77\n", body)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    with mw.open(tmp_path_factory.mktemp("index") / "standards.index") as index:
        index.add(folder)
        yield index


@pytest.mark.parametrize(
    ("question", "held"),
    [
        ("Who edited the RFC that obsoletes 1616?", "Author: M. Thorsby, Ed."),
        ("Who wrote the PEP that supersedes PEP 9700?", "Author: Gil Brandt"),
        ("Who wrote RFC 42?", "Author: C. Reed"),
        ("Who wrote PEP-0008?", "Author: Gil Brandt"),
        ("Where are the names of RFC 0042 kept?", "Lindholm"),
        ("What is the status of PEP 9700?", "Status: Final"),
    ],
)
def test_contexts_follow_numbers_of_documents(standards: mw.Index, question: str, held: str) -> None:
    assert held in standards.context(question, budget=120).text


def test_fields_are_conditions(standards: mw.Index) -> None:
    context = standards.context("Who is the author?", budget=60, where="obsoletes = '1616'")
    assert {span.doc_id for passage in context.passages for span in passage.spans} == {
        context.passages[0].spans[0].doc_id
    }
    assert context.passages[0].spans[0].doc_id.endswith("rfc9001.txt")
