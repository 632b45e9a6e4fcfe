"""No context shows a second half alone: a row without its header, or an item without its announcement."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs.strategies import assemble
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Context, Document
from tests.conftest import examples
from tests.support import HashEmbedder, ScriptedReader, memory_store

HEADER = "| option | what it is for, in a few words |"
ROWS = [
    f"| opt{i} | sets the number of things of kind {i}, which is used by part {i} of the engine |" for i in range(40)
]
TABLE = Document(id="table", title="Options", text="\n".join([HEADER, "|---|---|", *ROWS]))
ITEMS = [f"- `key{i}` says which things of kind {i} are left out when part {i} of the engine runs" for i in range(40)]
LIST = Document(id="list", title="Keys", text="These keys are known:\n\n" + "\n".join(ITEMS))
STRATEGIES = (
    "weave",
    "sentence",
    "topk",
    "topk(order=score)",
    "auto-merge",
    "auto-merge(mode=never)",
    "auto-merge(mode=semantic)",
)


def ask(spec: str, question: str, budget: int) -> Context:
    embedder = HashEmbedder()
    store = memory_store([TABLE, LIST], embedder)
    leaves = [leaf for rows in store.document_rows(["table", "list"]) for leaf in rows["leaf"]]
    found = [leaf for leaf in leaves if any(word in leaf.text for word in question.split())]
    # Most leaves must be far from the first one.
    assert all(len(leaf.sentences) < 10 for leaf in leaves)
    reader = ScriptedReader(store, {leaf.id: 1 / rank for rank, leaf in enumerate(found, 1)})
    return assemble(spec, question, reader, budget, Models(count_tokens))


@pytest.mark.parametrize("spec", STRATEGIES)
def test_a_row_comes_with_its_header_and_an_item_with_its_announcement(spec: str) -> None:
    row = ask(spec, "opt33", 120)
    assert ROWS[33] in row.text and HEADER in row.text and row.text.index(HEADER) < row.text.index(ROWS[33])
    item = ask(spec, "key27", 120)
    assert ITEMS[27] in item.text and item.text.index("These keys are known:") < item.text.index(ITEMS[27])


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(STRATEGIES), st.integers(0, 39), st.integers(20, 400))
def test_a_unit_never_appears_without_its_lead(spec: str, number: int, budget: int) -> None:
    for question in (f"opt{number} part", f"key{number}"):
        found = ask(spec, question, budget)
        assert found.tokens <= budget
        assert HEADER in found.text or not any(row in found.text for row in ROWS)
        assert "These keys are known:" in found.text or not any(item in found.text for item in ITEMS)


def test_an_announcement_does_not_come_alone() -> None:
    code = "\n".join(f"step_{i}(with_some_value={i}, and_another={i})" for i in range(12))
    text = f"Call the frobnicator so:\n\n```\n{code}\n```\n\nOther words follow."
    store = memory_store([Document(id="d", title="", text=text)])
    reader = ScriptedReader(store, {leaf.id: 1.0 for leaf in store.document_rows(["d"])[0]["leaf"]})
    found = assemble("weave", "frobnicator", reader, 400, Models(count_tokens))
    assert "frobnicator so:" in found.text and "step_0(" in found.text


@pytest.mark.parametrize("spec", STRATEGIES)
def test_bare_markup_is_never_shown(spec: str) -> None:
    text = "# Ducks\n\n![a duck! on a pond](images/duck.png)\n\n# Geese\n\n" + "Geese fly south in autumn. " * 12
    embedder = HashEmbedder()
    store = memory_store([Document(id="d", title="Birds", text=text)], embedder)
    leaves = store.document_rows(["d"])[0]["leaf"]
    reader = ScriptedReader(store, {leaf.id: 1 / rank for rank, leaf in enumerate(leaves, 1)})
    for budget in range(8, 120, 4):
        found = assemble(spec, "ducks geese", reader, budget, Models(count_tokens))
        if spec != "auto-merge(mode=auto)":  # which may show the whole document, as it is
            assert "!" not in found.text and "duck.png" not in found.text
