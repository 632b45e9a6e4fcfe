from __future__ import annotations

from mergewise.index.tree import build_trees, names_of
from mergewise.models.tokens import count_tokens
from mergewise.types import Document

TEXT = """# Handbook

Welcome to the handbook.

## Voltage regulator (LM317)

The LM317 is a regulator, also known as Blue Brick. It gets hot.

## Volumes

Volumes hold data.
"""


def test_places_define_their_headings_subjects_and_other_names() -> None:
    document = Document(id="d", title="Handbook", text=TEXT)
    (tree,) = build_trees([document], count_tokens)
    defined: dict[str, list[str]] = {}
    for name in names_of(document, tree):
        text = "".join(tree.leaves[leaf].text for leaf in range(name.first_leaf, name.first_leaf + name.leaf_count))
        defined.setdefault(name.name, []).append(text.strip())
    assert defined.keys() == {"handbook", "voltage regulator", "voltage regulator lm317", "blue brick", "volumes"}
    assert all(len(texts) == 1 for texts in defined.values())
    assert "gets hot" in defined["blue brick"][0] and "hold data" in defined["volumes"][0]


def test_a_document_without_headings_is_one_place_under_its_title() -> None:
    document = Document(id="d", title="Ada Lovelace", text="Ada King is known. " * 60)
    (tree,) = build_trees([document], count_tokens)
    (title, *_) = (name for name in names_of(document, tree) if name.name == "ada lovelace")
    assert (title.first_leaf, title.leaf_count) == (0, len(tree.leaves)) and len(tree.leaves) > 1


def test_the_title_is_a_name_of_the_first_place_only() -> None:
    text = "# Handbook\n\nWelcome to all of it.\n\n## Volumes\n\nVolumes hold data.\n"
    document = Document(id="d", title="Blue Heron Server", text=text)
    (tree,) = build_trees([document], count_tokens)
    names = {name.name: name.first_leaf for name in names_of(document, tree)}
    assert names["blue heron server"] == names["handbook"] == 0 < names["volumes"]
    assert sum(name.name == "blue heron server" for name in names_of(document, tree)) == 1
