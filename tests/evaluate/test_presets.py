from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import Any

import pytest
from tests.support import HashEmbedder

from mergewise.designs import MODES
from mergewise.designs.strategies import resolve
from mergewise.errors import UsageError
from mergewise.evaluate import methods
from mergewise.evaluate.methods import stored_settings, unmet_needs
from mergewise.evaluate.presets import Preset, preset, preset_names, presets_of, read_preset
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens


@pytest.mark.parametrize("name", preset_names())
def test_presets_name_existing_methods(name: str) -> None:
    table = preset(name)
    assert table.title and table.source and table.about and table.notes
    for method in table.methods():
        resolve(method.strategy)
        assert method.mode is None or method.mode in MODES
    assert all(isinstance(value, str) for row in table.rows for value in row.only.values())
    names = {method.name: method for method in table.methods()}
    assert len(names) == len(table.methods())
    assert table.methods()
    assert table.without_answers().methods()
    assert all(method.mode is None for method in table.without_answers().methods())


def needs_without_models(table: Preset, answers: bool) -> dict[str, str]:
    """Map the label of each row with a method to what it needs, on a machine with an embedder and no other model."""
    bare = Models(count_tokens, HashEmbedder())
    found: dict[str, str] = {}
    for row in table.rows:
        for method in {method for column in table.columns for method in table.methods_of(row, column)}:
            views: dict[str, Any] = {view: {} for view in method.all_views} | stored_settings(method.view_settings())
            found[row.label] = row.needs or unmet_needs(method, views, method.with_judge(bare), answers, is_built=False)
    return found


NO_MODEL_NEEDED = {
    "top k", "weave", "BM25", "Tree-RAG", "GPT-4o", "Fixed-Size", "Semantic", "DOS", "RECOMP, extractive",
    *(f"{start}, k = {k}" for start in ("Standard RAG", "standard RAG") for k in (1, 5, 10, 20)),
}  # fmt: skip
"""Rows whose contexts come from a search and from the index alone."""


@pytest.mark.parametrize("name", preset_names())
def test_no_row_is_filled_by_a_stand_in(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "find_spec", lambda package: None)
    table = preset(name)
    needs = needs_without_models(table, answers=True)
    if not any(method.probe for method in table.methods()) and name != "mrag-speed":
        # a cell of answers needs a reader
        assert needs and all(
            "a chat model" in one or "a causal model" in one or "MERGEWISE_PROMPTS" in one for one in needs.values()
        )
    contexts = needs_without_models(table.without_answers(), answers=False)
    assert {label for label, one in contexts.items() if not one} <= NO_MODEL_NEEDED
    assert all(one.startswith("needs ") for one in contexts.values() if one)


def test_rows_say_what_their_system_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "find_spec", lambda package: None)

    def needs(name: str, label: str) -> str:
        text = needs_without_models(preset(name).without_answers(), answers=False)[label]
        return re.sub(r" \([^)]*\)", "", text)

    for name, label, wanted in (
        (
            "aed-sources",
            "likeliest source",
            "needs a causal model with readable next-token probabilities and a chat model",
        ),
        ("mergerag-pairs", "cosine and L_NLL", "needs a scorer"),
        ("mrag-coverage", "M-RAG, zero-shot", "needs a chat model"),
        ("systems", "RAPTOR", "needs a chat model and umap-learn"),
        ("mergerag-1", "BGE-reranker", "needs a reranker"),
        ("mergerag-1", "RECOMP", "needs a chat model"),
        ("mergerag-1", "RAPTOR", "needs a reranker and a chat model and umap-learn"),
        ("mergerag-1", "MergeRAG-Sym", "needs a reranker and a chat model"),
        ("mergerag-1", "MergeRAG-Asym", "needs a reranker and a chat model and a scorer"),
        ("macrag-1", "RAPTOR (Llama-3.1-8B)", "needs a reranker and a chat model and umap-learn"),
        ("macrag-1", "CRAG (GPT-3.5-Turbo)", "needs a reranker"),
        ("macrag-1", "MacRAG (Llama-3.1-8B)", "needs a reranker and a chat model"),
        ("mrag-2", "PIC", "needs a chat model"),
        ("mrag-2", "M-RAG-P", "needs a chat model"),
        ("aed-1", "BGE-reranker, n = 5", "needs a reranker"),
        ("aed-1", "GainRAG, n = 5", "needs a utility predictor"),
        ("aed-1", "AED-RAG, m = 2", "needs a utility predictor and a chat model"),
        ("aed-2", "w/o AED (full)", "needs a utility predictor and a chat model"),
        ("aed-alignment", "BGE-ensemble", "needs a reranker and a chat model"),
    ):
        assert needs(name, label) == wanted, (name, label)


def test_a_name_means_one_system_in_all_tables() -> None:
    known: dict[str, tuple[object, ...]] = {}
    for table in map(preset, preset_names()):
        for method in table.methods():
            read = tuple(method.assigned)
            assert known.setdefault(method.name, (method.strategy, method.mode, method.judge, read))[:3] == (
                method.strategy, method.mode, method.judge
            )  # fmt: skip
            assert known[method.name][3] == read, method.name


def test_rows_of_other_models_are_not_run() -> None:
    names = {method.name for method in preset("macrag-modes").runs({"reranker": "http://host/bge-m3"}).values()}
    assert len(names) == 28
    assert not preset("macrag-modes").runs({"reranker": "http://host/other"})
    assert all(row.only for row in preset("macrag-modes").rows)


def published(name: str, label: str, section: str = "") -> list[list[float | None]]:
    (row,) = (row for row in preset(name).rows if row.label == label and row.section == section)
    return [list(group) for group in row.published]


def test_published_numbers_match_the_papers() -> None:
    assert published("mergerag-1", "MergeRAG-Asym")[:2] == [[44.0, 56.0, 61.0], [40.0, 55.0, 53.5]]
    assert published("mergerag-2", "Tree-RAG")[4] == [3.0, 5.0, 3.0]
    assert published("macrag-1", "MacRAG (GPT-4o)", "Extraction and filter (Full_E&F)")[3] == [63.93]
    assert published("macrag-2", "LongRAG (GPT-4o)")[2] == [31.30, 41.43, 40.80, 45.06]
    assert published("macrag-ablation", "without scaling up")[0][6:] == [63.84, 65.54]
    assert published("macrag-modes", "MacRAG", "k2 = 12, bge-m3")[1][4] == 73.90
    assert published("mrag-2", "M-RAG†-P")[1] == [18.06, 23.70, 26.93]
    assert published("mrag-coverage", "M-RAG, few-shot")[2][:3] == [99.84, 0.3648, 0.5]
    assert published("aed-1", "AED-RAG, m = 2")[3] == [39.88, 36.27, 38.08]
    assert published("aed-costs", "standard RAG, k = 20")[1] == [None, None, 2624.17]


def test_each_mode_of_a_cell_is_a_method() -> None:
    table = preset("macrag-ablation")
    whole = next(row for row in table.rows if row.label == "MacRAG")
    fil = next(column for column in table.columns if column.label == "Fil")
    assert [method.name for method in table.methods_of(whole, fil)] == ["macrag(preset=paper) fil"]
    mean = next(column for column in table.columns if column.is_mean)
    assert table.methods_of(whole, mean) == ()
    assert len(preset("macrag-2").methods()) == 14
    assert [method.name for method in table.without_answers().methods()] == [
        "longrag(preset=paper, unit=chunk)", "macrag(preset=paper)", "macrag(preset=paper, h=0)", "macrag(preset=paper, alpha=1)"
    ]  # fmt: skip


def test_invalid_presets_are_rejected() -> None:
    with pytest.raises(UsageError, match="unknown table: 'mergerag-9'"):
        preset("mergerag-9")
    with pytest.raises(UsageError, match="missing table name"):
        presets_of(" , ")
    assert [one.name for one in presets_of("aed-1, mrag-2,aed-1")] == ["aed-1", "mrag-2"]
    table = tomllib.loads((files("mergewise.evaluate.presets") / "aed-2.toml").read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match="unknown keys colour"):
        read_preset("own", {**table, "colour": "red"})
    table["rows"][0]["published"] = [[1.0]]
    with pytest.raises(ValueError, match="'AED-RAG' do not match its columns"):
        read_preset("own", table)
