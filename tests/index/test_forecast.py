"""The estimated cost of a chat model's rows, computed only from the documents that need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.memory_store import MemoryStore
from tests.support import SMALL, rows_of

from mergewise.designs import VIEWS
from mergewise.index.forecast import forecast
from mergewise.inputs import Input
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.store.views import Estimate, View, Writing
from mergewise.types import Document, DocumentRows, Usage


@dataclass(frozen=True, slots=True)
class OwnSettings:
    by_model: bool = True
    calls: int = 1


seen: list[str] = []


def estimate(documents: Sequence[DocumentRows], settings: OwnSettings, models: Models) -> Estimate:
    """Estimate the calls per document from the settings, and one token per leaf."""
    seen.extend(rows.document.id for rows in documents)
    tokens = sum(len(rows["leaf"]) for rows in documents)
    return Estimate(len(documents), Usage(settings.calls * len(documents), tokens))


WRITING = Writing(lambda settings: settings.by_model, lambda *given: [], estimate)
OWN = View("own", OwnSettings, lambda settings: (), lambda *given: [], lambda *given: iter(()), lambda rows: None)
REGISTRY = {"leaf": VIEWS["leaf"], "own": replace(OWN, writing=WRITING)}
SETTINGS = {"leaf": VIEWS["leaf"].dump(SMALL), "own": {}}
DOCUMENTS = [Document(name, f"# {name}\n\nText of {name}.", name) for name in "abc"]


@pytest.fixture
def store() -> MemoryStore:
    seen.clear()
    holding = MemoryStore(VIEWS, 0, {"leaf": SETTINGS["leaf"]})
    holding.write(rows_of(DOCUMENTS))
    return holding


def forecast_of(
    store: MemoryStore,
    *inputs: Input,
    missing: Mapping[str, Sequence[str]] | None = None,
    settings: Mapping[str, Mapping[str, Any]] = SETTINGS,
    registry: Mapping[str, View] = REGISTRY,
) -> Estimate:
    return forecast(inputs, store, registry, settings, missing or {}, Models(count_tokens))


def own(document: Document) -> Input:
    return Input(document.id, document)


def test_new_documents_cost_what_the_view_estimates(store: MemoryStore) -> None:
    total = forecast_of(store, own(Document("d", "New text.")), own(Document("e", "More text.")))
    assert total == Estimate(2, Usage(2, 2))
    assert seen == ["d", "e"]


def test_the_settings_are_those_of_the_index(store: MemoryStore) -> None:
    settings = {**SETTINGS, "own": {"calls": 3}}
    assert forecast_of(store, own(Document("d", "New text.")), settings=settings).usage.calls == 3


@pytest.mark.parametrize("settings", [{"leaf": SETTINGS["leaf"]}, {**SETTINGS, "own": {"by_model": False}}])
def test_views_that_ask_no_model_cost_nothing(store: MemoryStore, settings: Mapping[str, Mapping[str, Any]]) -> None:
    assert forecast_of(store, own(Document("d", "New text.")), missing={"own": ["a"]}, settings=settings) == Estimate()
    assert seen == []


def test_documents_that_lack_the_view_are_counted_once(store: MemoryStore) -> None:
    assert forecast_of(store, missing={"own": ["a", "b", "a"]}).documents == 2
    assert seen == ["a", "b"]


def test_a_replaced_document_is_not_also_counted_as_missing(store: MemoryStore) -> None:
    assert forecast_of(store, own(Document("a", "Other text.")), missing={"own": ["a", "c"]}).documents == 2
    assert seen == ["a", "c"]


def test_unfinished_rows_cost_again_if_the_index_has_the_view(store: MemoryStore) -> None:
    unfinished = replace(WRITING, unfinished=lambda reader: ["c"])
    registry = {**REGISTRY, "own": replace(OWN, writing=unfinished)}
    assert forecast_of(store, registry=registry) == Estimate()
    with_view = MemoryStore(REGISTRY, 0, SETTINGS)
    with_view.write(rows_of(DOCUMENTS))
    assert forecast_of(with_view, registry=registry).documents == 1
    assert seen == ["c"]


def test_a_file_that_cannot_be_read_costs_nothing(store: MemoryStore, tmp_path: Path) -> None:
    broken, good = tmp_path / "broken.json", tmp_path / "good.md"
    broken.write_text("{")
    good.write_text("Text.")
    inputs = [Input(path.name, path) for path in (broken, tmp_path / "gone.md", good)]
    assert forecast_of(store, *inputs).documents == 1
    assert seen == ["good.md"]
