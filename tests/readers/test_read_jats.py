"""JATS articles, and other XML."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from tests.readers.documents import Read, outline
from tests.support import read

from mergewise.errors import ReadError

ARTICLE = """<?xml version="1.0"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS" "JATS.dtd">
<article xmlns:mml="http://www.w3.org/1998/Math/MathML"><front>
<journal-meta><journal-title-group><journal-title>Ponds</journal-title></journal-title-group></journal-meta>
<article-meta><article-id pub-id-type="doi">10.1/x</article-id>
<title-group><article-title>On <italic>ducks</italic></article-title></title-group>
<contrib-group><contrib><name><surname>Drake</surname></name></contrib></contrib-group>
<pub-date><year>2021</year></pub-date><pub-date><year>2020</year></pub-date>
<abstract><p>Short.</p></abstract><kwd-group><kwd>pond</kwd><kwd>duck</kwd></kwd-group></article-meta></front>
<body><sec><label>1</label><title>Introduction</title>
<p>Ducks swim <xref ref-type="bibr">[1]</xref>, &alpha;<sup>2</sup>.
<list list-type="order"><list-item><p>one</p></list-item><list-item><p>two</p></list-item></list></p>
<sec><title>Deeper</title><p>Text.</p></sec>
<fig><label>Fig 1</label><caption><title>A duck.</title><p>It swims.</p></caption><graphic/></fig>
<table-wrap><label>Table 1</label><caption><title>Counts.</title></caption>
<table><thead><tr><th>Pond</th><th colspan="2">Ducks</th></tr></thead>
<tbody><tr><target id="t"/><td>A</td><td>1</td><td>2</td></tr></tbody></table></table-wrap>
<disp-formula><alternatives><tex-math>\\documentclass{x}\\begin{document}$$x$$\\end{document}</tex-math>
<mml:math><mml:mi>x</mml:mi></mml:math></alternatives></disp-formula></sec></body>
<back><ack><p>Thanks.</p></ack><ref-list><title>References</title><ref><mixed-citation>Old</mixed-citation></ref></ref-list>
</back><sub-article><front-stub/><body><p>Review</p></body></sub-article></article>"""


def test_article(read_bytes: Read) -> None:
    document = read_bytes("a.nxml", ARTICLE)
    assert document.text == (
        "On ducks\n\nAbstract\n\nShort.\n\nKeywords: pond, duck\n\n1 Introduction\n\nDucks swim [1], α^2.\n\n"
        "1. one\n2. two\n\nDeeper\n\nText.\n\nFig 1 A duck. It swims.\n\nTable 1 Counts.\n\n"
        "| Pond | Ducks |  |\n| A | 1 | 2 |\n\nx\n\nAcknowledgements\n\nThanks."
    )
    assert outline(document) == [
        (1, "On ducks"),
        (2, "Abstract"),
        (2, "1 Introduction"),
        (3, "Deeper"),
        (2, "Acknowledgements"),
    ]
    assert document.title == "On ducks"
    assert document.metadata == {
        "author": "Drake",
        "date": "2020",
        "doi": "10.1/x",
        "journal": "Ponds",
        "keywords": "pond, duck",
        "year": 2020,
    }


def test_nested_list_is_read_once(read_bytes: Read) -> None:
    inner = "<list><list-item><p>inner</p></list-item></list>"
    lists = f"<list><list-item><label>a</label><p>outer</p>{inner}</list-item></list>"
    document = read_bytes("a.nxml", f"<article><body><p>Ducks.</p>{lists}</body></article>")
    assert document.text == "Ducks.\n\n- outer\n  - inner"


LAUGHS = "".join(f'<!ENTITY {y} "{f"&{x};" * 10}">' for x, y in zip("abcdefghi", "bcdefghiz", strict=True))
BILLION = f'<!DOCTYPE article [<!ENTITY a "ha">{LAUGHS}]><article><body><p>Ha: &z;</p></body></article>'


def test_entities_are_not_expanded(read_bytes: Read) -> None:
    with contextlib.suppress(ReadError):  # newer versions of libxml2 refuse the file outright
        assert len(read_bytes("a.xml", BILLION).text) < 100


def test_external_entities_are_not_fetched(read_bytes: Read) -> None:
    source = (
        '<!DOCTYPE article [<!ENTITY x SYSTEM "file:///etc/passwd">]><article><body><p>a &x; b</p></body></article>'
    )
    assert "root" not in read_bytes("a.xml", source).text


@pytest.mark.parametrize(
    ("content", "expected"), [("<article><section/></article>", "no text"), ("words", "not XML, looks like text")]
)
def test_other_xml(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "a.xml").write_text(content)
    with pytest.raises(ReadError) as caught:
        read(tmp_path / "a.xml")
    assert caught.value.message == expected


def test_truncated(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(ARTICLE[:900])
    with pytest.raises(ReadError, match="invalid XML"):
        read(tmp_path / "a.xml")


def test_any_other_xml_is_read_with_the_names_of_its_elements(read_bytes: Read) -> None:
    feed = (
        "<rss><channel><title>News</title><item><title>Owls</title><link>x.org</link>"
        "<description>Owls eat <b>mice</b>.</description></item><item><limit unit='mb'>5</limit><off/></item></channel></rss>"
    )
    document = read_bytes("a.xml", feed)
    assert document.text == "News\n\nOwls\n\nlink: x.org\ndescription: Owls eat mice.\n\nitem\nlimit: 5; unit: mb"
    assert outline(document) == [(2, "News"), (3, "Owls")]
