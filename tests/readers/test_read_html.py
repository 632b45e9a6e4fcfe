"""HTML: which parts are kept or left out, and how they read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.readers.documents import Read, heading_texts, outline
from tests.support import read

from mergewise.errors import ReadError
from mergewise.readers.html import read_html
from mergewise.text.sections import headings_at

PROSE = "<p>" + "The quick brown fox jumps over the lazy dog, and then it rests. " * 40 + "</p>"
LINKS = "".join(f'<li><a href="/{n}">Page number {n}</a></li>' for n in range(20))


def test_blocks(read_bytes: Read) -> None:
    document = read_bytes(
        "a.html",
        """<html><head><title>The  title</title><style>p {}</style></head><body>
        <h1>One &amp; <em>two</em></h1>Loose <b>text</b>
        <p>First<br>second&nbsp;line</p><div>Inside <div>and deeper</div></div>
        <pre>  code\n    more\n</pre><blockquote><p>Quoted</p></blockquote><h3>Three</h3>
        <script>alert(1)</script><noscript>no</noscript><p hidden>no</p>
        <p style="display: none">no</p></body></html>""",
    )
    assert document.text == (
        "One & two\n\nLoose text\n\nFirst\nsecond line\n\nInside\n\nand deeper\n\n  code\n    more\n\nQuoted\n\nThree"
    )
    assert outline(document) == [(1, "One & two"), (3, "Three")]
    assert heading_texts(document) == ["One & two", "Three"]
    assert document.title == "The title"


def test_lists(read_bytes: Read) -> None:
    document = read_bytes(
        "a.html",
        "<ul><li>a<ol start=3><li>b</li><li><p>c</p><p>d</p></li></ol></li><li>e</li></ul>"
        "<dl><dt>Term</dt><dd>Meaning</dd></dl>",
    )
    assert document.text == "- a\n  3. b\n  4. c\n    d\n- e\n\nTerm\n  Meaning"


def test_tables_keep_their_columns(read_bytes: Read) -> None:
    document = read_bytes(
        "a.html",
        "<table><caption>Facts</caption><tr><th colspan=2>A</th><th>B</th></tr>"
        "<tr><td rowspan=2>1</td><td>2</td><td>3</td></tr><tr><td>4</td><td><h2>5</h2><ul><li>x</ul></td></tr></table>",
    )
    assert document.text == "Facts\n\n| A |  | B |\n| 1 | 2 | 3 |\n| 1 | 4 | 5 - x |"
    assert document.outline == ()


def test_layout_table_is_not_a_table(read_bytes: Read) -> None:
    document = read_bytes("a.html", f"<table><tr><td><h2>Side</h2></td><td><h2>Main</h2>{PROSE}</td></tr></table>")
    assert outline(document) == [(2, "Side"), (2, "Main")]
    assert "|" not in document.text


def test_absurd_spans_are_capped(read_bytes: Read) -> None:
    document = read_bytes(
        "a.html", "<table><tr><td colspan=99999999>a</td><td rowspan=99999999 colspan=x>b</td></tr></table>"
    )
    assert len(document.text) < 1_000


def test_deeply_nested_layout_tables_are_fast(read_bytes: Read) -> None:
    depth = 40
    document = read_bytes("a.html", "<table><tr><td>" * depth + "core" + "</td></tr></table>" * depth)
    assert document.text == "core"


def test_menus_and_side_matter_are_left_out_of_a_page(read_bytes: Read) -> None:
    document = read_bytes(
        "a.html",
        f"<body><header>Site</header><nav>{LINKS}</nav><ul class=more>{LINKS}</ul>"
        f"<div id=content><h1>Title</h1>{PROSE}<h2>Section</h2>{PROSE}<aside>Advert</aside></div>"
        f"<div class='cookie-consent'>Accept all</div><footer>Imprint</footer></body>",
    )
    assert outline(document) == [(1, "Title"), (2, "Section")]
    for left_out in ("Site", "Page number", "Advert", "Accept", "Imprint"):
        assert left_out not in document.text


def test_main_is_the_main_content_and_keeps_the_title_above_it(read_bytes: Read) -> None:
    document = read_bytes("a.html", f"<body><h1>Title</h1><p>Teaser</p><main><h2>Section</h2>{PROSE}</main></body>")
    assert outline(document) == [(1, "Title"), (2, "Section")]
    assert "Teaser" not in document.text


def test_a_small_page_that_looks_like_a_menu_is_kept_whole(read_bytes: Read) -> None:
    assert "Page number 19" in read_bytes("a.html", f"<body><ul class=menu>{LINKS}</ul></body>").text


def test_nav_is_always_left_out(read_bytes: Read) -> None:
    assert read_bytes("a.html", f"<nav>{LINKS}</nav><p>Text</p>").text == "Text"


def test_footnote_marks_are_dropped_and_superscripts_kept(read_bytes: Read) -> None:
    document = read_bytes("a.html", '<p>x<sup>2</sup> is known.<sup><a href="#note">[1]</a></sup> So it is.</p>')
    assert document.text == "x^2 is known. So it is."


@pytest.mark.parametrize(
    "head",
    [
        b'<meta charset="iso-8859-1">',
        b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1252">',
        b"",
    ],
)
def test_declared_encodings(read_bytes: Read, head: bytes) -> None:
    text = "Les élèves français étudient à l'école près de la forêt, où l'été dure longtemps."
    assert read_bytes("a.html", head + b"<p>" + text.encode("cp1252") + b"</p>").text == text


@pytest.mark.parametrize("declared", ["utf-16", "no-such", "hex", "ascii"])
def test_wrongly_declared_encodings(read_bytes: Read, declared: str) -> None:
    assert read_bytes("a.html", f'<meta charset="{declared}"><p>Straße</p>').text.startswith("Stra")


def test_xhtml_with_a_declaration(read_bytes: Read) -> None:
    source = (
        '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><body><p>ä</p></body></html>'
    )
    assert read_bytes("a.xhtml", source).text == "ä"


def test_deep_nesting_is_never_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<div>" * 300 + "core")
    assert read(path).text == "core"
    path.write_text("<div>" * 3_000 + "core")
    with pytest.raises(ReadError):
        read(path)


# --- entries of definition lists


SPHINX = """<h1>Pumps<a class="headerlink" href="#pumps" title="Permalink">¶</a></h1><p>Intro.</p>
<dl class="py class"><dt id="Pump">class <code>Pump</code>(size)<a class="headerlink" href="#Pump">¶</a></dt><dd><p>A pump.</p>
<dl class="field-list"><dt>Parameters<span>:</span></dt><dd><p>size – in litres</p></dd></dl>
<dl class="py method"><dt id="Pump.start">start(speed=40)</dt><dt id="Pump.run">run(speed)</dt><dd><p>Start it.</p></dd></dl>
<p>Pumps are heavy.</p></dd></dl><p>After the class.</p><h2>More</h2><p>End.</p>"""


def test_names_of_entries_head_their_bodies(read_bytes: Read) -> None:
    document = read_bytes("a.html", SPHINX)
    assert outline(document) == [
        (1, "Pumps"),
        (2, "class Pump(size)"),
        (3, "start(speed=40), run(speed)"),
        (2, "class Pump(size)"),
        (1, "Pumps"),
        (2, "More"),
    ]
    paths = {text: headings_at(document.outline or (), document.text.index(text)) for text in ("in litres", "Start it")}
    assert paths["in litres"] == ("Pumps", "class Pump(size)")
    assert paths["Start it"] == ("Pumps", "class Pump(size)", "start(speed=40), run(speed)")
    assert headings_at(document.outline or (), document.text.index("Pumps are")) == ("Pumps", "class Pump(size)")
    assert headings_at(document.outline or (), document.text.index("After the")) == ("Pumps",)
    assert "¶" not in document.text and "Parameters:\n  size" in document.text


def test_short_entries_are_blocks_with_their_terms(read_bytes: Read) -> None:
    page = "<dl><div><dt>Author<dd>Ann</div><dt>Date<dt>Year<dd>2020<dd>or later<dt>Loose</dl>"
    document = read_bytes("a.html", page)
    assert document.text == "Author\n  Ann\n\nDate\nYear\n  2020\n  or later\n\nLoose"
    assert document.outline == ()


Parts = list["str | tuple[str, Parts]"]


@given(
    st.recursive(
        st.lists(st.just("p"), min_size=1, max_size=2),
        lambda inner: st.lists(st.one_of(st.just("p"), st.tuples(st.just("e"), inner)), min_size=1, max_size=3),
        max_leaves=8,
    )
)
def test_every_paragraph_is_headed_by_the_entries_around_it(parts: Parts) -> None:
    paths: dict[str, tuple[str, ...]] = {}

    def page(parts: Parts, path: tuple[str, ...]) -> str:
        written = ""
        for part in parts:
            number = len(paths)
            if isinstance(part, str):
                paths[f"text{number}."] = path
                written += f"<p>text{number}.</p>"
            else:
                name = f"name{number}"
                paths[f"body{number}."] = (*path, name)
                written += f"<dl><dt id=x>{name}<dd><p>body{number}.</p>{page(part[1], (*path, name))}</dl>"
        return written

    source = "<title>Pumps of the town</title><p>First.</p>" + page(parts, ())
    parsed = read_html(source.encode())
    for text, path in paths.items():
        headings = headings_at(parsed.outline, parsed.text.index(text))
        # text after entries is headed by the page's title
        assert (headings[1:] if headings[:1] == ("Pumps of the town",) else headings) == path


# --- names and places


@pytest.mark.parametrize(
    "content",
    [
        '<section id="cookies"><h2>Cookies</h2><p>KEPT</p></section>',
        '<div class="section" id="sharing-files"><h2>Sharing files</h2><p>KEPT</p></div>',
        '<div id="navigation" class="section level2"><h2>Navigation keys</h2><p>KEPT</p></div>',
        '<dl><dt id="app.Request.cookies">Request.cookies</dt><dd class="menu">KEPT</dd></dl>',
        '<aside class="warning"><p>KEPT</p></aside>',
        '<header class="page-header"><h2>Title</h2><p>KEPT</p></header>',
        '<div role="tabpanel" hidden><p>KEPT</p></div>',
        '<div class="tab-content" style="display: none"><p>KEPT</p></div>',
        '<div class="code-toolbar"><pre>KEPT</pre></div>',
        '<p>Choose <span class="menu">KEPT</span> there.</p>',
        "<h3><button aria-expanded=false>KEPT</button></h3><p>Text</p>",
    ],
)
@pytest.mark.parametrize("page", ["<div>{}</div>", "<main>{}</main>", "<article>{}</article>"])
def test_names_do_not_drop_content(read_bytes: Read, content: str, page: str) -> None:
    """Ids are made from titles, and tools name elements as they like."""
    assert "KEPT" in read_bytes("a.html", page.format(f"<h1>Guide</h1>{PROSE}{content}{PROSE}")).text


def test_names_count_outside_of_the_main_content_only(read_bytes: Read) -> None:
    inside = '<div class="cookies"><p>Cookies are small files.</p></div>'
    assert "small files" in read_bytes("a.html", f"<main><h1>A</h1>{PROSE}{inside}</main>").text
    assert "small files" not in read_bytes("a.html", f"<div><h1>A</h1>{PROSE}{inside}</div>").text


@pytest.mark.parametrize(
    "side",
    [
        '<div class="share-buttons"><a href=x>LEFT</a> <a href=y>Mail</a></div>',
        '<div class="newsletter">LEFT <input name=mail><button>Send</button></div>',
        '<aside class="related"><a href=x>LEFT</a></aside>',
        '<span class="editsection"><a href=x>LEFT</a></span>',
        f'<ul class="toc"><li><a href=x>LEFT</a></li>{LINKS}</ul>',
    ],
)
def test_links_and_forms_beside_the_text_stay_out_of_the_main_content(read_bytes: Read, side: str) -> None:
    assert "LEFT" not in read_bytes("a.html", f"<main><h1>A</h1>{PROSE}{side}</main>").text


def test_no_heading_is_outside_of_the_chosen_container(read_bytes: Read) -> None:
    long, short = f"<div id=a><h2>One</h2>{PROSE * 4}</div>", "<div id=b><h2>Two</h2><p>Short.</p></div>"
    document = read_bytes("a.html", f"<body><div class=navbar><h3>Menu</h3></div>{long}{short}</body>")
    assert outline(document) == [(2, "One"), (2, "Two")]


# --- scripts and formulas


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("10<sup>6</sup> units in 2023<sup>1</sup>", "10^6 units in 2023^1"),
        ("10<sup>−6</sup>, 2<sup>n+1</sup>, a<sup>2</sup>+b<sup>2</sup>", "10^−6, 2^(n+1), a^2+b^2"),
        ("known.<sup>1,2</sup> So it is.", "known.¹,² So it is."),
        ("1<sup>st</sup>, 1<sup>er</sup>, n<sup>o</sup>, X<sup>TM</sup>", "1st, 1er, no, XTM"),
        ("H<sub>2</sub>O, x<sub>i</sub><sup>2</sup>, 101<sub>2</sub>", "H2O, x_i^2, 101_2"),
        ("3<sup>1</sup>/<sub>2</sub> cups, <sup>1</sup>&frasl;<sub>4</sub>", "3 1/2 cups, 1/4"),
        ("study<sup>1</sup><sup>2</sup>, new<sup>in 3.8</sup>", "study^1^2, new in 3.8"),
        ("a<sup> </sup>b", "a b"),
        ("<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "1/2"),
        ("<math><mn>3</mn><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "3 1/2"),
        (
            "<math><msup><mi>x</mi><mn>2</mn></msup><mo>+</mo><msqrt><mi>a</mi><mo>+</mo><mi>b</mi></msqrt></math>",
            "x^2+√(a+b)",
        ),
        (
            "<math><semantics><mrow><munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover>"
            "<mi>x</mi></mrow><annotation>sum</annotation></semantics></math>",
            "∑_(i=1)^n x",
        ),
        ("<math><mtext>for</mtext><mi>x</mi><mo>,</mo><mi>sin</mi><mo>&#x2061;</mo><mi>y</mi></math>", "for x,sin y"),
        ("<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>へ", "東京へ"),
    ],
)
def test_scripts_and_formulas_read_as_they_are_printed(read_bytes: Read, source: str, expected: str) -> None:
    assert read_bytes("a.html", f"<p>{source}</p>").text == expected


def test_buttons_in_code_are_not_part_of_it(read_bytes: Read) -> None:
    page = "<main><h1>Run</h1><p>Type this:</p><pre><code>run --fast</code> <button>copy <span>code</span></button></pre></main>"
    assert read_bytes("a.html", page).text == "Run\n\nType this:\n\nrun --fast"


@pytest.mark.parametrize("names", ['epub:type="noteref"', 'role="doc-noteref"'])
def test_the_mark_of_a_note_is_not_part_of_the_word_before_it(read_bytes: Read, names: str) -> None:
    assert read_bytes("a.html", f'<p>The king<a {names} href="#n">1</a> slept.</p>').text == "The king slept."


def test_labels_of_tabs_are_apart(read_bytes: Read) -> None:
    page = "<h1>Install</h1><div><label>Linux</label><label>Windows</label></div><p>Run it.</p>"
    assert read_bytes("a.html", page).text == "Install\n\nLinux\n\nWindows\n\nRun it."
