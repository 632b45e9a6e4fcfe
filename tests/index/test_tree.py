from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import read

from mergewise.designs import VIEWS
from mergewise.evaluate.loaders import load_question_set
from mergewise.index.tree import Tree, TreeSettings, build_trees
from mergewise.models.tokens import count_tokens
from mergewise.readers import find_files
from mergewise.store.audit import document_problems, with_settings
from mergewise.text.languages import document_language, neutral_lengths
from mergewise.text.sections import LONGEST_NAME, markdown_headings
from mergewise.types import Document, DocumentRows, Heading, Rows

SMALL = TreeSettings(leaf_tokens=12, max_leaf_tokens=20, section_tokens=40, min_section_tokens=10)
PIECES = st.sampled_from(
    ["# A\n", "## B\n\n", "### C\n", "# \n", "One short sentence. ",
     "A longer sentence, with clauses; and more of them, still going on and on. ",
     "\n\n", "\n", "- item\n", "```\ncode. Here\n\n# no\n```\n", "中文句子。", "   ", "x" * 300, "Dr. Who. "]
)  # fmt: skip
TEXTS = st.lists(PIECES, min_size=1, max_size=40).map("".join).filter(str.strip)


def tree_of(document: Document, settings: TreeSettings = SMALL) -> Tree:
    (tree,) = build_trees([document], count_tokens, settings)
    return tree


def problems(document: Document, tree: Tree) -> list[str]:
    rows = DocumentRows(document, "", {"leaf": Rows(tree.leaves), "section": Rows(tree.sections)})
    return [problem.what for problem in document_problems(rows, with_settings(VIEWS, {"leaf": {}}), 0)]


@given(TEXTS)
def test_nodes_tile_at_every_depth(text: str) -> None:
    document = Document(id="d", text=text)
    tree = tree_of(document)
    assert problems(document, tree) == []
    assert [leaf.id for leaf in tree.leaves] == list(range(len(tree.leaves)))
    assert [s.id for s in tree.sections] == list(range(len(tree.leaves), len(tree.leaves) + len(tree.sections)))


@given(TEXTS)
def test_leaves_keep_their_limit_and_never_cross_a_heading(text: str) -> None:
    document = Document(id="d", text=text)
    for leaf in tree_of(document).leaves:
        heading_lines = document.text[leaf.start : leaf.body]
        body = document.text[leaf.body : leaf.end]
        if not heading_lines.strip():
            english = document_language(document) in ("en", "und")
            size = leaf.tokens if english else neutral_lengths([leaf.text])[0]
            assert size <= SMALL.max_leaf_tokens
        if not all(
            line.lstrip().startswith("#") for line in body.splitlines() if line.strip()
        ):  # more than bare headings
            headings = [
                h for h in markdown_headings(text) if leaf.body < h.start
            ]  # headings in code blocks do not count
            assert not any(text[h.end : leaf.end].strip() for h in headings)


def test_very_long_titles_and_headings_are_shortened_in_leaves() -> None:
    """Each leaf stores them, so a heading of a megabyte over a thousand leaves would take a gigabyte."""
    long = "Elms and owls " * 5000
    document = Document(id="d", title=long, text=f"# {long}\n\n## {long} too\n\n" + "Owls eat mice at night. " * 400)
    tree = tree_of(document)
    assert problems(document, tree) == [] and len(tree.leaves) > 100
    for leaf in tree.leaves:
        assert leaf.title.startswith("Elms and owls") and len(leaf.title) <= LONGEST_NAME and leaf.title.endswith("…")
        assert all(len(heading) <= LONGEST_NAME for heading in leaf.headings)


@given(TEXTS)
def test_every_section_counts_its_leaves(text: str) -> None:
    tree = tree_of(Document(id="d", text=text))
    for section in tree.sections:
        below = tree.leaves[section.first_leaf : section.first_leaf + section.leaf_count]
        assert section.tokens == sum(leaf.tokens for leaf in below)
        assert all(section.id in leaf.ancestors for leaf in below)
        assert sum(section.id in leaf.ancestors for leaf in tree.leaves) == len(below)


HEADINGS = st.builds(Heading, st.integers(-2, 5), st.just("h"), st.integers(-5, 300), st.integers(-5, 320))
# a heading without a title and a line begins the text after an entry
BARE = st.builds(lambda level, at: Heading(level, "", at, at), st.integers(-2, 5), st.integers(-5, 300))


@given(TEXTS, st.lists(HEADINGS | BARE, max_size=6))
def test_a_wrong_outline_is_corrected(text: str, outline: list[Heading]) -> None:
    document = Document(id="d", text=text, outline=tuple(outline))
    assert problems(document, tree_of(document)) == []


def test_real_files_tile(manuals: Path, formats: Path) -> None:
    documents = [read(path) for path in find_files([manuals, formats])]
    assert len(documents) > 200
    for document, tree in zip(documents, build_trees(documents, count_tokens), strict=True):
        assert problems(document, tree) == [], document.id
        assert all(left.end == right.start for left, right in pairwise(tree.leaves))


def test_a_tree_worked_out_by_hand() -> None:
    text = "# Guide\n\nIntro here.\n\n## Start\n\nOne two three four five six.\n\n"
    text += "## Run\n\n### Fast\n\nGo go go.\n\n### Slow\n\nNo.\n"
    tree = tree_of(Document(id="d", text=text), TreeSettings(leaf_tokens=50, section_tokens=50, min_section_tokens=0))
    assert [(x.headings, text[x.body : x.end].strip()) for x in tree.leaves] == [
        (("Guide",), "Intro here."),
        (("Guide", "Start"), "One two three four five six."),
        (("Guide", "Run", "Fast"), "Go go go."),
        (("Guide", "Run", "Slow"), "No."),
    ]
    assert [(s.headings, s.depth, s.children) for s in tree.sections] == [
        (("Guide",), 0, 3),
        (("Guide", "Start"), 1, 1),
        (("Guide", "Run"), 1, 2),
        (("Guide", "Run", "Fast"), 2, 1),
        (("Guide", "Run", "Slow"), 2, 1),
    ]
    # a heading without text moves in front of its first child's text
    assert tree.leaves[2].text.startswith("## Run\n\n### Fast")


def test_a_heading_inside_a_given_unit_is_ignored() -> None:
    text = "Row one. Cats. Row two.\n\nDogs.\n\nThey bark."
    outline = tuple(Heading(1, name, text.index(name), text.index(name) + 5) for name in ("Cats.", "Dogs."))
    tree = tree_of(Document(id="d", text=text, outline=outline, units=((0, 23),)))
    assert [leaf.headings for leaf in tree.leaves] == [(), ("Dogs.",)]
    assert (tree.leaves[0].start, tree.leaves[0].body) == (0, 0)


def test_small_sections_are_joined_and_keep_their_own_headings() -> None:
    text = "".join(f"## Flag {i}\n\nDoes thing {i}.\n\n" for i in range(4))
    tree = tree_of(Document(id="d", text=text), TreeSettings(leaf_tokens=50, section_tokens=90, min_section_tokens=25))
    assert len(tree.leaves) == 4
    assert [s.children for s in tree.sections] == [2, 3, 1]
    assert [leaf.headings for leaf in tree.leaves] == [(f"Flag {i}",) for i in range(4)]


def test_a_title_is_not_repeated_as_a_heading() -> None:
    tree = tree_of(Document(id="d", title="Guide", text="# Guide\n\nText.\n\n## Part\n\nMore.\n"))
    assert [leaf.headings for leaf in tree.leaves] == [(), ("Part",)]


def test_long_text_without_headings_is_divided_at_blank_lines() -> None:
    text = "\n\n".join(f"Paragraph {i} has a few words in it." for i in range(30))
    tree = tree_of(Document(id="d", text=text))
    assert len(tree.sections) > 3
    assert all(text[s.start :].startswith("Paragraph") for s in tree.sections)


def test_the_end_of_a_paragraph_closes_only_a_leaf_that_is_half_full() -> None:
    def leaves(first: str) -> list[str]:
        text = f"{first}\n\nMore words.\n"
        return [leaf.text.strip() for leaf in tree_of(Document(id="d", text=text), TreeSettings(leaf_tokens=20)).leaves]

    half, less = "One two three four five six seven eight nine.", "One two three four."
    assert count_tokens([half, less]) == [10, 5]
    assert leaves(half) == [half, "More words."], "both would fit into one"
    assert leaves(less) == [f"{less}\n\nMore words."]


def test_an_announcement_stays_with_its_continuation() -> None:
    text = "Some words to begin with here.\n\nDo this:\n\n```\nrun it\n```\n"
    tree = tree_of(Document(id="d", text=text), TreeSettings(leaf_tokens=20))
    assert any("Do this:" in leaf.text and "run it" in leaf.text for leaf in tree.leaves)


RUSSIAN = "Река берёт начало в высоких горах на севере страны и впадает в озеро, которое известно своей чистой водой. "
ENGLISH = (
    "The river rises in high mountains in the north of the country and flows into a lake known for its clear water. "
)


def test_leaves_have_the_same_length_in_all_scripts() -> None:
    """The built-in counter splits Russian into single letters, so by its tokens each sentence would be a leaf by itself."""
    lengths = [
        [len(leaf.text) for leaf in tree_of(Document("d", text * 40), TreeSettings()).leaves]
        for text in (RUSSIAN, ENGLISH)
    ]
    russian, english = (sum(of) / len(of) for of in lengths)
    assert 0.8 < russian / english < 1.25
    assert count_tokens([RUSSIAN])[0] > 64 > 2 * neutral_lengths([RUSSIAN])[0]


def test_a_sentence_is_split_at_the_same_length_in_all_languages() -> None:
    long = RUSSIAN.strip()[:-1] + ", и " + RUSSIAN.lower().strip()[:-1] + ", и " + RUSSIAN.lower()
    (leaf,) = tree_of(Document("d", long), TreeSettings()).leaves
    assert len(leaf.sentences) == 1 and leaf.tokens > TreeSettings().max_leaf_tokens
    assert leaf.tokens == leaf.sentences[0].tokens == count_tokens([long])[0]  # budgets count tokens, not the length


def test_sizes_are_in_tokens_of_english() -> None:
    assert neutral_lengths(["", "  \n", "a", "a.", "река", "水", "नदी"]) == [0, 0, 1, 2, 1, 1, 1]
    assert abs(neutral_lengths([ENGLISH * 20])[0] / count_tokens([ENGLISH * 20])[0] - 1) < 0.2


def test_english_documents_are_split_by_tokens(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = load_question_set(bench / "hotpotqa")
    documents = task.documents[::40]
    trees = build_trees(documents, count_tokens)
    monkeypatch.setattr(import_module("mergewise.index.tree.build"), "neutral_lengths", None)
    assert build_trees(documents, count_tokens) == trees


def test_a_given_row_is_one_sentence_and_a_given_passage_is_cut() -> None:
    text = "It is one. It is two.\n\nName: Ada. Role: chair."
    tree = tree_of(Document(id="d", text=text, units=((0, 21), (23, 46, "row"))))
    found = [(text[s.start : s.end], s.kind) for leaf in tree.leaves for s in leaf.sentences]
    assert found == [("It is one.", "prose"), ("It is two.", "prose"), ("Name: Ada. Role: chair.", "row")]
    long = "; ".join(f"Name {n}: a value. And more of it" for n in range(40))
    tree = tree_of(Document(id="d", text=long, units=((0, len(long), "row"),)))
    sentences = [(leaf.id, number) for leaf in tree.leaves for number in range(len(leaf.sentences))]
    led = [(leaf.id, lead.number, leaf.id - lead.back, lead.of) for leaf in tree.leaves for lead in leaf.leads]
    assert [(leaf, number) for leaf, number, *_ in led] == sentences[1:], "each piece needs the beginning of the row"
    assert {(leaf, number) for *_, leaf, number in led} == {(0, 0)}
    assert problems(Document(id="d", text=long, units=((0, len(long), "row"),)), tree) == []
