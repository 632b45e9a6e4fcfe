"""The page as text: its content, the escaping of documents, and its size limit."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mergewise
from mergewise.errors import UsageError
from mergewise.page import LIMIT, answer_page, comparison_fragment, comparison_page, context_fragment, context_page
from mergewise.page.detail import details
from mergewise.page.markup import tag, text
from mergewise.page.source_texts import Overlaps, Places, short_id, unwrapped_prose
from mergewise.text.light import code_in
from mergewise.types import Answer, Citation, Context, Document, Heading, Passage, Span, Step
from mergewise.types import Page as DocumentPage
from tests.page.support import CATS, KIBBLE, Page, answered, at, context, hop, hopping, lookup, passage

NASTY = [
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "</script><!-- <![CDATA[",
    '" onmouseover="alert(1)" \' x=\'',
    "&lt;b&gt; &amp; &",
    "nul \x00 bell \x07 escape \x1b[31m delete \x7f c1 \x9b",
    "half a pair \ud800 and \udfff, \ufffe",
    "עברית ‮ reversed ‭ العربية",
    "👩‍👩‍👧‍👦 🏳️‍🌈 é 漢字",
    "line\r\nline\rline  line",
]


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def everywhere(nasty: str) -> tuple[Answer, Document]:
    """Return an answer with the text in every place for untrusted text."""
    document = Document(f"docs/{nasty}.md", f"before {nasty} after. And {nasty} more.", nasty)
    taken = Span(document.id, 7, 7 + len(nasty))
    other = Span(document.id, taken.end + 12, len(document.text))
    steps = [
        hop(1, nasty, taken, taken, 0.5),
        Step("take", nasty, (taken,), score=0.5),
        Step(nasty, nasty, (taken,)),
        Step("left", nasty, (other,), score=0.5),
    ]
    passages = [
        Passage(nasty, 0.5, (taken,), True, nasty, (nasty,)),
        Passage(nasty, 0.5, (taken,), False, nasty, (nasty,)),
    ]
    shown = context(passages, steps, strategy=nasty, question=nasty)
    cited = Citation(1, nasty, taken, nasty, (nasty,))
    return Answer(nasty, f"{nasty} [1] [2]", (cited,), shown, mode=nasty), document


@pytest.mark.parametrize("nasty", NASTY)
def test_text_of_documents_is_never_markup(nasty: str) -> None:
    plain, _ = everywhere("plain")
    hostile, document = everywhere(nasty)
    for make in (lambda a, d: answer_page(a, document=d), lambda a, d: comparison_page([(a.context, 0.1)], document=d)):
        expected = Page(make(plain, None))
        page = make(hostile, None)
        found = Page(page)
        assert {e.name for e in found.elements} <= {e.name for e in expected.elements} | {"q"}
        allowed = {name for e in expected.elements for name in e.attributes}
        assert {name for e in found.elements for name in e.attributes} <= allowed
        assert len(found.all("script")) == len(found.all("style")) == 1
        Page(make(hostile, lambda doc_id: document))
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", page)
        page.encode()


@given(st.text(), st.text())
def test_elements_hold_any_text_and_attributes_any_value(inner: str, value: str) -> None:
    (found,) = Page(tag("b", inner, title=value)).elements
    shown = text(inner)
    assert "<" not in shown and '"' not in shown
    assert found.attributes.keys() == {"title"}


def test_attributes_of_false_and_none_are_left_out() -> None:
    assert tag("a", "x", hidden=False, href=None) == "<a>x</a>"
    assert tag("a", "x", hidden=True, class_="", data_number=0) == '<a hidden class="" data-number="0">x</a>'


def test_writing_direction_is_isolated_per_element() -> None:
    """A text may start right-to-left writing without ending it. The text around it must not change direction."""
    page = Page(answer_page(everywhere("‮ reversed")[0]))
    for element in [*page.all("div", "text"), *page.all("h1"), *page.all("h3"), *page.all("p", "said")]:
        assert element.attributes["dir"] == "auto"


def test_an_answer_links_to_its_passages() -> None:
    page = Page(answer_page(answered(), document=lookup, count_tokens=words))
    assert page.one("h1").text == "When was kibble invented?"
    assert page.one("div", "said").text == "“Kibble was invented in 1860.” 2"
    cited = page.one("span", "cited") if len(page.all("span", "cited")) == 1 else page.all("span", "cited")[-1]
    assert cited.attributes["id"] == "c1" and cited.text == "Kibble was invented in 1860."
    marks = page.all("a", "cite")
    assert [mark.attributes["href"] for mark in marks][:2] == ["#c1", "#c1"]


def test_a_citation_outside_of_the_passages_links_to_its_own_line() -> None:
    answer = answered()
    elsewhere = replace(answer.citations[0], span=at(CATS, "Kibble is dry."), text="Kibble is dry.")
    page = Page(answer_page(replace(answer, citations=(elsewhere,)), document=lookup))
    assert page.all("a", "cite")[0].attributes["href"] == "#qc1"
    assert "“" not in page.one("ol", "citations").text and "Kibble is dry." in page.one("ol", "citations").text


def test_every_link_has_a_target_and_ids_are_unique() -> None:
    pages = [
        answer_page(answered(), document=lookup),
        context_page(hopping()),
        comparison_page([(hopping(), 0.1), (context([passage(CATS, "Cats eat Kibble.")]), 0.1)]),
        context_page(huge(400_000)),
    ]
    for page in map(Page, pages):
        ids = page.ids()
        assert len(set(ids)) == len(ids)
        assert set(page.targets()) <= set(ids)


def test_passages_show_their_location_and_surrounding_text() -> None:
    page = Page(context_page(hopping(), document=lookup, count_tokens=words))
    first, second = page.all("article")
    assert "docs/cats.md:9 · " in first.text and "Cats › Food" in first.text
    around = [element.text for element in page.all("span", "around")]
    assert around == [" Kibble is dry. It keeps.", " It was made in London."]
    assert page.one("span", "left").text == "It was made in London."
    assert "Why this is here" in second.text and "a hop by “kibble”; it holds invented" in second.text


def test_cut_surrounding_text_has_an_ellipsis() -> None:
    words = "word " * 400
    document = Document("d", f"{words}Found. {words}")
    page = Page(context_page(context([passage(document, "Found.")]), document=lambda doc_id: document))
    before, *_, after = [element.text for element in page.all("span", "around")]
    assert (before, after) == ("… ", " …")
    short = Document("d", "Before. Found. After.\n")
    page = Page(context_page(context([passage(short, "Found.")]), document=lambda doc_id: short))
    assert [element.text for element in page.all("span", "around")] == ["Before. ", " After."]


def test_quoted_code_keeps_the_indentation_of_its_first_line() -> None:
    code = "for cat in cats:\n        feed(cat)"
    document = Document("d.rst", f"Feed them::\n\n    {code}\n\nThen rest.\n")
    page = Page(context_page(context([passage(document, code)]), document=lambda doc_id: document))
    assert page.one("div", "text").text == f"Feed them::\n\n    {code}\n\nThen rest."
    below = replace(document, text=f"Cats\n----\n\n    {code}\n", outline=(Heading(1, "Cats", 0, 9),))
    page = Page(context_page(context([passage(below, code)]), document=lambda doc_id: below))
    assert page.one("div", "text").text == f"    {code}"


def test_tags_of_components_are_hidden_except_in_code() -> None:
    tagged = "<Sandpack>\n\nCats purr.\n\n```jsx\n<Cat>\n```\n\n</Sandpack>"
    document = Document("d.md", tagged)
    shown = context([passage(document, tagged)])
    page = Page(context_page(shown, document=lambda doc_id: document))
    assert page.one("div", "text").text.split() == ["Cats", "purr.", "<Cat>"]
    cited = Citation(1, tagged, Span("d.md", 0, len(tagged)), "D")
    page = Page(answer_page(Answer("How?", "“Cats purr.\n    <Cat>” [1]", (cited,), shown)))
    assert "Sandpack" not in page.one("ol", "citations").text


def test_a_gap_marks_hidden_text_between_parts_of_a_passage() -> None:
    far = Document("d", f"First. {'word ' * 400}Last.")
    page = Page(context_page(context([passage(far, "First.", "Last.")]), document=lambda doc_id: far))
    assert [element.text for element in page.all("span", "gap")] == ["\n…\n"]
    near = Document("d", "First. Between. Last.")
    page = Page(context_page(context([passage(near, "First.", "Last.")]), document=lambda doc_id: near))
    assert page.all("span", "gap") == [] and [element.text for element in page.all("span", "around")] == [" Between. "]
    page = Page(context_page(context([passage(near, "First.", "Last.")])))  # the text in between is unknown
    assert len(page.all("span", "gap")) == 1


def test_the_bar_of_a_comparison_marks_passages_that_only_one_has() -> None:
    left = context([passage(CATS, "Cats sleep a lot."), passage(CATS, "Cats eat Kibble.")])
    page = Page(comparison_page([(left, None), (context([passage(CATS, "Cats eat Kibble.")]), None)]))
    assert [e.attributes["class"] for e in page.all("a", "k")] == ["k only", "k shared", "k shared"]


def test_pages_of_a_document_are_named() -> None:
    paged = replace(CATS, pages=(DocumentPage(1, 0, 20), DocumentPage(2, 20, len(CATS.text))))
    page = context_page(hopping(), document=lambda doc_id: paged if doc_id == paged.id else None)
    assert "docs/cats.md:9, page 2" in page


@pytest.mark.parametrize("broken", ["missing", "changed", "raises"])
def test_a_passage_without_its_document_has_no_surrounding_text(broken: str) -> None:
    def document(doc_id: str) -> Document | None:
        if broken == "raises":
            raise UsageError("no document has this id")
        return replace(CATS, id=doc_id, text="It was rewritten.") if broken == "changed" else None

    page = Page(context_page(hopping(), document=document))
    assert len(page.all("article")) == 2
    assert not page.all("span", "around")


def test_the_budget_bar_shows_shares_and_the_unused_rest() -> None:
    page = Page(context_page(hopping(), document=lookup, count_tokens=words))
    style = [element.attributes["style"] for element in page.all("li") if "style" in element.attributes]
    # "[1] Cats › Food" and three words, "[2]" and five words beginning with "Kibble", and 40 of 100 tokens unused
    assert style == ["flex-grow:7", "flex-grow:6", "flex-grow:40"]
    assert page.one("figure", "budget").text.endswith("60 of 100 tokens, 40 unused")
    uncounted = Page(context_page(hopping()))
    styles = [e.attributes["style"] or "" for e in uncounted.all("li") if "style" in e.attributes]
    assert sum(int(style.removeprefix("flex-grow:")) for style in styles) == pytest.approx(100, abs=1)


def test_a_page_tells_that_there_may_be_more() -> None:
    for complete, tells in ((0.2, True), (0.9, False), (None, False)):
        shown = Page(context_page(replace(hopping(), complete=complete)))
        assert ("there may be more" in shown.elements[0].text) is tells


def test_the_legend_lists_only_kinds_on_the_page() -> None:
    legend = Page(context_page(hopping())).one("ul", "legend").text
    assert "hop" in legend and "hit" in legend
    assert "merged" not in legend and "cited" not in legend


def test_the_tree_links_hops_to_sections() -> None:
    page = Page(context_page(hopping(), document=lookup))
    tree = page.one("figure", "tree").text
    assert tree.startswith("Questionhit Cats eat Kibble. 10.61“kibble” → Kibble 2")
    assert [link.attributes["href"] for link in page.all("a", "evidence")] == ["#p1", "#p2"]
    assert page.one("a", "section").attributes["href"] == "#p2"
    assert {"p1", "p2"} <= set(page.targets()) and not page.all("li", "pale")
    firsts = [element.attributes["data-step"] for element in page.all("li") if "data-step" in element.attributes]
    assert firsts == ["2", "3", "1", "1", "3"], "the bar's passages, then the tree's nodes"


def test_a_second_hop_is_a_child_of_the_first_section() -> None:
    made = at(KIBBLE, "Kibble was invented in 1860.")
    london = Span("docs/london.md", 0, 40)
    more = hop(2, "london", made, london, 0.5)
    thames = Passage("London is a city on the Thames.", 0.5, (Span("docs/london.md", 0, 31),), True, "London")
    shown = hopping()
    page = Page(
        context_page(replace(shown, passages=(*shown.passages, thames), trace=(*shown.trace, more)), document=lookup)
    )
    outer, inner = (e.text for e in page.elements if e.name == "li" and e.text.startswith(("“kibble", "“london")))
    assert inner.startswith("“london” → London 3") and inner in outer and "Kibble was invented in 1860." in outer


def test_a_hop_to_an_unused_section_is_pale() -> None:
    shown = hopping()
    lost = hop(1, "london", at(CATS, "Cats eat Kibble."), Span("docs/london.md", 0, 40), 0.9)
    page = Page(context_page(replace(shown, trace=(lost, *shown.trace)), document=lookup))
    assert page.one("li", "pale").text.startswith("“london” → docs/london.md:0–40")
    assert page.one("span", "section").text == "docs/london.md:0–40"


def test_evidence_without_its_document_comes_from_its_passage() -> None:
    shown = hopping()
    hop = replace(shown.trace[1], inputs=(at(CATS, "eat Kibble"),))
    page = Page(context_page(replace(shown, trace=(hop, *shown.trace[2:]))))
    assert page.all("a", "evidence")[0].text == "eat Kibble"


def test_the_parts_of_a_merge_are_its_children() -> None:
    sleeps = "Cats sleep a lot. They sleep sixteen hours a day. Kittens sleep more."
    first, last = at(CATS, "Cats sleep a lot."), at(CATS, "Kittens sleep more.")
    steps = [Step("search", "2", (first, last)), Step("merge", "2 of 3", (first, last), at(CATS, sleeps), 0.9)]
    tree = Page(context_page(context([passage(CATS, sleeps)], steps), document=lookup)).one("figure", "tree").text
    assert tree.index("merged") < tree.index("Cats sleep a lot.") < tree.index("Kittens sleep more.")


def test_the_tree_of_a_large_trace_is_limited() -> None:
    taken = [Step("take", f"{n}", (Span(CATS.id, n, n + 1),)) for n in range(400)]
    page = Page(context_page(context([passage(CATS, "Cats eat Kibble.")], taken), document=lookup))
    assert "288 more" in page.one("figure", "tree").text
    assert "100 more steps are not shown." in page.one("figure", "tree").text


def test_a_fragment_has_the_urls_of_the_live_page() -> None:
    drawn = context_fragment(
        hopping(), answered().citations, document=lookup, address=lambda span: f"#/d/{span.doc_id}?s={span.start}"
    )
    page = Page(drawn)
    assert len(page.all("article")) == 2 and not page.all("script") and not page.all("html")
    assert [e.text for e in page.all("span", "cited") if "id" in e.attributes] == ["Kibble was invented in 1860."]
    files = [link.attributes["href"] or "" for link in page.all("a", "file")]
    assert files and all(link.startswith("#/d/docs/") for link in files)
    assert " style=" not in drawn and "data-style=" in drawn
    hostile = 'x style="y" <script>'
    drawn = comparison_fragment(
        [(replace(hopping(), strategy=hostile), 0.1)], document=lookup, address=lambda span: "#/"
    )
    assert Page(drawn).one("h2").text == hostile


def test_left_out_candidates_appear_below() -> None:
    page = Page(context_page(hopping(), document=lookup))
    left = page.one("ul", "leftover").text
    assert left.index("It was made in London.") < left.index("Kittens sleep more.")
    assert "left out: 12 tokens, 4 left" in left
    without = Page(context_page(hopping())).one("ul", "leftover").text
    assert "London" not in without and "docs/kibble.md:" in without


def test_a_left_out_candidate_without_a_title_has_no_empty_title() -> None:
    assert '<p class="where" title="docs/kibble.md"> · ' not in context_page(hopping())


def test_a_comparison_marks_text_that_only_one_has() -> None:
    both, alone = "Cats sleep a lot.", "They sleep sixteen hours a day."
    left = context([passage(CATS, f"{both} {alone}")], strategy="weave")
    right = context([passage(CATS, both), passage(KIBBLE, "It was made in London.")], strategy="topk")
    page = Page(comparison_page([(left, 0.012), (right, None)], document=lookup, count_tokens=words))
    assert [e.text for e in page.all("mark", "only")] == ["only here", alone, "It was made in London."]
    heads = [e.text for e in page.all("h2")][:2]
    assert heads == ["weave", "topk"]
    columns = page.all("section", "column")
    assert "1 passage · 12 ms · 6 tokens only here" in columns[0].text
    assert [column.attributes["aria-labelledby"] for column in columns] == [e.attributes["id"] for e in page.all("h2")][
        :2
    ]


def test_only_a_cut_passage_of_a_comparison_has_a_note() -> None:
    note = "The passage goes on."
    whole = context([passage(CATS, "Cats sleep a lot.")])
    assert note not in comparison_page([(whole, None)], document=lookup, count_tokens=words)
    long = Document("d", "word " * 200_000)
    page = comparison_page([(context([passage(long, long.text)]), None)], document=lambda doc_id: long)
    assert note in page and len(page) < LIMIT


def test_a_page_without_passages() -> None:
    nothing = Answer("Why?", "Nothing relevant was found.", (), context([], tokens=0, question="Why?"), found=False)
    page = Page(answer_page(nothing))
    assert "nothing" in (page.all("section", "answer")[0].attributes["class"] or "").split()
    assert "No passages found." in page.elements[0].text
    Page(comparison_page([(nothing.context, 0.1)]))
    Page(comparison_page([]))


def huge(characters: int, passages: int = 40, letter: str = "ж") -> Context:
    size = characters // passages
    text = (letter * 9 + " ") * (size // 10)
    spans = tuple(Span("big", i * size, i * size + len(text)) for i in range(passages))
    made = [Passage(text, 0.5, (span,), True, "Big") for span in spans]
    return context(made, [Step("search", "all", spans), *(Step("skip", "too big", (s,)) for s in spans)] * 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("characters", "passages"), [(20_000, 40), (120_000, 3_000), (2_000_000, 1), (2_000_000, 3_000)]
)
def test_a_huge_context_stays_below_the_limit_and_names_omissions(characters: int, passages: int) -> None:
    shown = huge(characters, passages)
    text = "".join(f"{p.text}" for p in shown.passages)
    page = context_page(shown, document=lambda doc_id: Document(doc_id, text, "Big"), count_tokens=words)
    assert len(page.encode()) < LIMIT
    parsed = Page(page)
    if characters == 2_000_000 or passages == 3_000:
        assert "Left out to keep this page small: surrounding text" in parsed.one("header", "top").text
    compared = comparison_page([(shown, 0.1)] * 3, count_tokens=words)
    assert len(compared.encode()) < LIMIT


def test_a_comparison_shares_the_limit_among_its_sides() -> None:
    shown = huge(120_000, 40)
    for sides in (1, 3):
        cut = [detail for detail in details(LIMIT, [shown] * sides) if detail.characters is not None]
        assert all(detail.characters * (detail.passages or 40) * sides <= 0.7 * LIMIT for detail in cut)  # type: ignore[operator]
    assert len(list(details(LIMIT, []))) > 4


def test_surrounding_text_is_dropped_first() -> None:
    shown = huge(60_000, 400, "<")  # four bytes per escaped character
    text = "".join(p.text for p in shown.passages)
    whole = context_page(shown, document=lambda d: Document(d, f"{text}", "Big"), limit=10**9)
    small = context_page(shown, document=lambda d: Document(d, f"{text}", "Big"), limit=len(whole.encode()) - 1)
    assert "Left out to keep" not in whole
    assert "Left out to keep this page small: surrounding text" in small
    assert "passages" not in Page(small).one("p", "notice").text


def test_long_questions_and_answers_are_cut() -> None:
    answer = replace(answered(), text="word " * 200_000, context=replace(hopping(), question="why " * 200_000))
    assert len(answer_page(answer).encode()) < LIMIT


def test_the_policy_allows_only_the_own_script_and_no_requests() -> None:
    page = answer_page(answered(), document=lookup)
    parsed = Page(page)
    (policy,) = [e.attributes["content"] or "" for e in parsed.all("meta") if e.attributes.get("http-equiv")]
    script = re.search("<script>(.*?)</script>", page, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy
    assert not re.search(r"(?:src|href|url)\s*[=(]\s*[\"']?(?:https?:)?//", page)
    assert "@import" not in page


def test_notebooks_show_contexts_and_answers() -> None:
    from mergewise.types import Answer as Same

    for shown in (hopping(), answered(), replace(hopping(), question=NASTY[1])):
        drawn = shown._repr_html_()
        assert drawn is not None
        (frame,) = Page(drawn).elements
        inner = Page(frame.attributes["srcdoc"] or "")
        assert inner.one("h1").text
    assert Same is mergewise.Answer
    drawn = replace(huge(900_000, letter='"'))._repr_html_()
    assert drawn is not None and len(drawn.encode()) < LIMIT


def test_only_wrapped_prose_is_unwrapped() -> None:
    line = "A line of prose that its author has wrapped after some sixty letters"
    assert unwrapped_prose(f"{line}\nand goes on\nhere.") == f"{line} and goes on\nhere."
    for next_line in (
        "- an item",
        "* an item",
        "# A heading",
        "| a | table |",
        "    code",
        "",
        "1."[:0] + "====",
        ".. note::",
    ):
        assert unwrapped_prose(f"{line}\n{next_line}\n") == f"{line}\n{next_line}\n"
    fenced = f"```\n{line}\n{line}\n```"
    assert unwrapped_prose(fenced) == fenced


@given(st.text(alphabet="ab `~:.\n#|-", max_size=400))
def test_unwrapping_keeps_every_offset(text: str) -> None:
    shown = unwrapped_prose(text)
    assert [a if a != " " else b for a, b in zip(shown, text, strict=True)] == list(text)


def test_code_is_found_in_markdown_and_rst() -> None:
    markdown = "Do:\n\n```python\nx = 1\n```\n\nDone."
    assert [markdown[a:b] for a, b in code_in(markdown)] == ["```python\nx = 1\n```"]
    rst = "Title\n~~~~~\n\nDo this::\n\n    x = 1\n    y = 2\n\nDone.\n\nMore\n~~~~\n"
    assert [rst[a:b].strip() for a, b in code_in(rst)] == ["x = 1\n    y = 2"]


def test_long_paths_keep_their_end() -> None:
    assert short_id("docs/cats.md") == "docs/cats.md"
    long = "/home/somebody/" + "folders/" * 20 + "cats.md"
    assert short_id(long).startswith("…/folders/") and short_id(long).endswith("/cats.md")
    assert len(short_id("x" * 500)) < 60


def test_documents_are_loaded_once() -> None:
    asked: list[str] = []

    def document(doc_id: str) -> Document | None:
        asked.append(doc_id)
        return lookup(doc_id)

    context_page(hopping(), document=document)
    assert sorted(asked) == ["docs/cats.md", "docs/kibble.md"]
    assert Places().document("docs/cats.md") is None


spans = st.builds(
    lambda doc, start, length: Span(doc, start, start + length), st.sampled_from("ab"), *[st.integers(0, 30)] * 2
)


@given(st.lists(spans), spans)
def test_overlaps_match_a_full_scan(others: list[Span], asked: Span) -> None:
    found = Overlaps(others, lambda span: span)
    assert sorted(found.at(asked)) == sorted(span for span in others if span.overlaps(asked))
    floor, ceiling = found.around(asked)
    own = [span for span in others if span.doc_id == asked.doc_id]
    assert floor == min(max((s.end for s in own if s.start < asked.start), default=0), asked.start)
    assert ceiling == min((s.start for s in own if s.start >= asked.end), default=None)


def test_only_light_markup_is_rendered() -> None:
    said = "Use **bold** and `f(x)`, see [the page](javascript:alert(1)) and <b>no</b> `<i>`. [1]"
    document = Document("m.md", said, title="M")
    span = Span("m.md", 0, len(said))
    shown = context([passage(document, said)], strategy="weave")
    answer = Answer("How?", f"“{said}” [1]", (Citation(1, said, span, "M"),), shown)
    html = answer_page(answer, document=lambda doc_id: document)
    for drawn in ("<strong>bold</strong>", "<code>f(x)</code>", "&lt;b&gt;no&lt;/b&gt;", "<code>&lt;i&gt;</code>"):
        assert html.count(drawn) >= 2, drawn
    assert not re.search(r"href=.javascript", html) and "<b>no" not in html and "<i>" not in html
