"""Tree-RAG over a small town: expansion down and up the section tree, within the budget."""

from __future__ import annotations

import pytest

from mergewise.designs.strategies import assemble
from mergewise.designs.tree_rag.outline import OutlineNode, OutlineReader, OutlineSettings
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Context, Document
from tests.memory_store import MemoryStore
from tests.support import HashEmbedder, memory_store, reader_of


def section(name: str, words: str, sentences: int = 4) -> str:
    return f"## {name}\n\n" + " ".join(f"{words} {i} stands there, as it did of old." for i in range(sentences))


TOWN = "# Town\n\n" + "\n\n".join(
    [section("Mills", "Grindstone"), section("Bridges", "Arch"), section("Ovens", "Loaf")]
)
DOCUMENTS = [Document("town", TOWN, "Town"), Document("farm", section("Barns", "Plough"), "Farm")]


def store_of(*documents: Document) -> MemoryStore:
    return memory_store(documents, None, outline=OutlineSettings())


STORE = store_of(*DOCUMENTS)


def ask(question: str, parameters: str, budget: int = 120, store: MemoryStore = STORE) -> Context:
    return assemble(f"tree-rag({parameters})", question, reader_of(store), budget, Models(count_tokens))


def actions(context: Context) -> list[str]:
    return [step.action for step in context.trace]


def test_inner_nodes_are_found_by_their_headings_and_first_sentences() -> None:
    view: OutlineReader = reader_of(STORE).view("outline")
    ((node, score), *_) = view.search("bridges", 5)
    assert (node.doc_id, node.headings, score) == ("town", ("Town", "Bridges"), 1.0) or node.headings[-1] == "Bridges"
    assert node.text == "Arch 0 stands there, as it did of old." and node.leaf_count > 1


def test_root_to_leaves_adds_all_leaves_below_a_heading() -> None:
    context = ask("bridges", "ways=down, k=1")
    (passage,) = context.passages
    # only the heading has the word, and all four sentences follow
    assert passage.headings[-1] == "Bridges" and passage.text.count("Arch") == 4
    assert "down" in actions(context) and "up" not in actions(context)


def test_leaf_to_root_adds_the_siblings() -> None:
    context = ask("Loaf 2", "ways=up, k=1")
    (passage,) = context.passages
    assert passage.headings[-1] == "Ovens" and passage.text.count("Loaf") == 4 and "up" in actions(context)
    # if not all of them fit, the nearest are taken
    small = ask("Loaf 2", "ways=up, k=1", 30)
    assert small.tokens <= 30 and "Loaf 2" in small.text and small.text.count("Loaf") < 4


def test_results_are_packed_by_score_until_the_budget_is_full() -> None:
    context = ask("Plough 1 bridges", "k=3", 90)
    assert {"down", "up"} <= set(actions(context)) and context.tokens <= 90
    whole = ask("Plough 1 bridges", "k=3", 500)
    assert {one.headings[-1] for one in whole.passages} >= {"Barns", "Bridges"}
    for budget in (1, 10, 25, 60):
        assert ask("Plough 1 bridges", "k=3", budget).tokens <= budget


def test_node_over_the_budget_is_replaced_by_its_retrieved_leaves() -> None:
    long = Document("long", section("Towers", "Spire", 60), "Long")
    context = ask("towers Spire 44", "k=4", 60, store_of(long))
    assert "Spire 44" in context.text and "Spire 0 " not in context.text


def test_outline_problems_are_reported() -> None:
    from mergewise.designs import VIEWS
    from tests.support import rows_of

    (rows,) = rows_of(DOCUMENTS[:1], None, outline=OutlineSettings())
    problems = VIEWS["outline"].problems
    assert list(problems(rows, OutlineSettings(), 0)) == []
    nodes: tuple[OutlineNode, ...] = rows["outline"]
    assert len(nodes) == len(rows["section"]) >= 4
    broken = rows.tables["outline"].records[:-1]
    lacking = type(rows)(rows.document, rows.digest, {**rows.tables, "outline": type(rows.tables["outline"])(broken)})
    assert list(problems(lacking, OutlineSettings(), 0)) == ["outline differs from the sections"]


def test_vectors_find_nodes_too() -> None:
    embedder = HashEmbedder()
    store = memory_store(DOCUMENTS, embedder, outline=OutlineSettings())
    context = assemble("tree-rag", "Grindstone 1", reader_of(store, embedder), 200, Models(count_tokens, embedder))
    assert context.passages[0].headings[-1] == "Mills"


@pytest.mark.parametrize("ways", ["both", "down", "up"])
def test_search_without_results_gives_an_empty_context(ways: str) -> None:
    assert ask("xyzzy", f"ways={ways}").text == ""
