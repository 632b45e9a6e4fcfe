from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.generate.citations import cite
from mergewise.generate.sources import Source
from mergewise.types import Document, Heading, Page, Span

TEXT = "# Trees\n\nOaks live long. Birches grow fast. \n\n# Moss\n\nMoss likes shade."
DOCUMENT = Document("d", TEXT, "Wood", outline=None, pages=(Page(4, 0, 44), Page(5, 44, len(TEXT))))
START = TEXT.index("Oaks")
SHADE = TEXT.index("Moss likes")


def source(number: int, start: int, end: int) -> Source:
    text = TEXT[start:end]
    return Source(number, "Wood", (), text, ((Span("d", start, end), text),), 1.0)


SOURCES = [source(1, START, START + 34), source(2, SHADE, len(TEXT))]


def lookup(doc_id: str) -> Document | None:
    return DOCUMENT if doc_id == "d" else None


@pytest.mark.parametrize(
    ("text", "kept", "removed", "quoted"),
    [
        ("Birches grow fast [1].", "Birches grow fast [1].", 0, ["Birches grow fast."]),
        ("Oaks live long. [1] Moss likes shade. [2]", "Oaks live long. [1] Moss likes shade. [2]", 0,
         ["Oaks live long.", "Moss likes shade."]),
        ("Oaks live long [1, 2].", "Oaks live long [1][2].", 0, ["Oaks live long.", "Moss likes shade."]),
        ("Oaks [7] live [1][9] long [0].", "Oaks live [1] long.", 3, ["Oaks live long."]),
        ("Oaks live long [1]. Oaks live [1].", "Oaks live long [1]. Oaks live [1].", 0, ["Oaks live long."]),
        ("Oaks and zebras and gnus and yaks and more of them [1].", "Oaks and zebras and gnus and yaks and more of them [1].",
         0, ["Oaks live long. Birches grow fast."]),
        ("In [1984], ", "In [1984], ", 0, []),
        ("Zebras [2]", "Zebras [2]", 0, ["Moss likes shade."]),
        ("Use `x[0]`, and [3].", "Use `x[0]`, and.", 1, []),
        ("```\ny[9]\n``` [2] likes shade", "```\ny[9]\n``` [2] likes shade", 0, ["Moss likes shade."]),
        ("[2] says that moss likes shade.", "[2] says that moss likes shade.", 0, ["Moss likes shade."]),
        ("In [2019a] and [] and [x].", "In [2019a] and [] and [x].", 0, []),
        ("No mark at all.", "No mark at all.", 0, []),
        ("Oaks live long [98[99]].", "Oaks live long.", 2, []),
        ("Oaks live long [1[99]].", "Oaks live long [1].", 1, ["Oaks live long."]),
        ("Oaks live long [1-2].", "Oaks live long [1][2].", 0, ["Oaks live long.", "Moss likes shade."]),
        ("Oaks live long [1–7].", "Oaks live long [1][2].", 1, ["Oaks live long.", "Moss likes shade."]),
        ("Oaks live long【1】.", "Oaks live long[1].", 0, ["Oaks live long."]),
        ("Oaks live long ［１］.", "Oaks live long [1].", 0, ["Oaks live long."]),
        ("Oaks live long [1000].", "Oaks live long.", 1, []),
        ("Oaks live long [-1].", "Oaks live long.", 1, []),
        ("[1]", "[1]", 0, ["Oaks live long. Birches grow fast."]),
        ("[2] [9]", "[2]", 1, ["Moss likes shade."]),
    ],
)  # fmt: skip
def test_marks(text: str, kept: str, removed: int, quoted: list[str]) -> None:
    cited = cite(text, SOURCES, lookup)
    assert (cited.text, cited.removed, [c.text for c in cited.citations]) == (kept, removed, quoted)
    for citation in cited.citations:
        assert TEXT[citation.span.start : citation.span.end] == citation.text


def test_a_citation_has_headings_and_place() -> None:
    (citation,) = cite("Moss likes shade [2].", SOURCES, lookup).citations
    assert (citation.number, citation.title, citation.headings, citation.page) == (2, "Wood", ("Moss",), 5)
    lost = Source(1, "", (), "Gone.", ((Span("gone", 0, 5), "Gone."),), 1.0)
    (citation,) = cite("Gone [1].", [lost], lookup).citations
    assert (citation.title, citation.headings, citation.page) == ("", (), None)


def test_the_outline_of_the_document_is_used() -> None:
    document = Document("d", TEXT, "Wood", outline=(Heading(1, "All", 0, 7),))
    (citation,) = cite("Moss likes shade [2].", SOURCES, lambda doc_id: document).citations
    assert citation.headings == ("All",)


def test_a_very_long_sentence_is_judged_in_parts() -> None:
    text = "owls eat mice, " * 700
    cited = cite(text, [], lambda _: None)
    assert max(len(statement.text) for statement in cited.statements) <= 2000
    assert " ".join(statement.text for statement in cited.statements).split() == text.split()


@given(
    st.lists(
        st.sampled_from([" ", "\n", "\t", "\u3000", "\u00a0", "Owls eat mice.", "    def owls():", "\x0c"]), max_size=9
    )
)
def test_no_citation_begins_or_ends_with_white_space(pieces: list[str]) -> None:
    """Also where nothing of the source is close to the statement, and all of it is cited."""
    text = "".join(["Bats", *pieces, "sleep. "])
    document = Document("d", text)
    for start in range(4, len(text), 3):
        span = Span("d", start, len(text))
        source = Source(1, "t", (), text[start:], ((span, text[start:]),), 1.0)
        for stated in ("Quite other words [1].", "Owls eat mice [1]."):
            for citation in cite(stated, [source], lambda _: document).citations:
                assert citation.text == text[citation.span.start : citation.span.end] == citation.text.strip()
