from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from tests.designs.towns import Marks

from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs import MODES
from mergewise.designs.aed.training.labels import LabelSettings
from mergewise.designs.aed.triplets import TripletSettings
from mergewise.designs.strategies import resolve
from mergewise.errors import UsageError
from mergewise.evaluate.methods import GROUPS, METHODS, Method, methods_of, stored_settings, unmet_needs
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens


def parameters(name: str) -> dict[str, Any]:
    return asdict(resolve(METHODS[name].strategy)[1])


def changed(name: str, other: str = "aed-2") -> dict[str, Any]:
    ours, theirs = parameters(name), parameters(other)
    return {key: value for key, value in ours.items() if theirs[key] != value}


def test_every_method_resolves_and_has_a_description() -> None:
    for method in METHODS.values():
        assert resolve(method.strategy) and method.mode in MODES and method.about
        reads_triplets = method.strategy.startswith("aed") and parameters(method.name)["triplets"]
        assert method.views == (("triplet",) if reads_triplets else ())


def test_the_needs_of_a_method_are_listed() -> None:
    bare, scored = Models(count_tokens), Models(count_tokens, reranker=Marks())
    leaf: dict[str, Any] = {"leaf": {}}
    assert unmet_needs(METHODS["bm25"], leaf, bare, answers=False) == ""
    assert unmet_needs(METHODS["bm25"], leaf, bare).startswith("needs a chat model (add --chat")
    assert unmet_needs(METHODS["bge-reranker"], {}, bare, answers=False).startswith("needs a reranker (add --reranker")
    assert unmet_needs(METHODS["bge-reranker"], {}, scored, answers=False) == ""
    assert unmet_needs(METHODS["aed-2"], leaf, scored, answers=False) == "needs the view triplet (--views leaf,triplet)"
    assert unmet_needs(Method("mine", "macrag"), leaf | {"slice": {}}, bare) == ""


def test_a_judge_is_a_need_and_never_replaced() -> None:
    bare, scored = Models(count_tokens), Models(count_tokens, reranker=Marks())
    views: dict[str, Any] = {"leaf": {}, "triplet": {}}
    for name in ("reranker-5", "reranker-sentences", "bge-reranker"):
        assert "a reranker (add --reranker" in unmet_needs(METHODS[name], views, bare, answers=False)
        assert unmet_needs(METHODS[name], views, METHODS[name].with_judge(scored), answers=False) == ""
    for name in ("gainrag-5", "aed-2", "aed-no-ensemble", "beta-1"):
        # a reranker is no utility predictor
        lacking = unmet_needs(METHODS[name], views, METHODS[name].with_judge(scored), answers=False)
        assert lacking.startswith("needs a utility predictor (train one")
        assert unmet_needs(METHODS[name], views, METHODS[name].with_judge(bare, Marks()), answers=False) == ""


def test_settings_of_a_row_override_those_of_the_user() -> None:
    given = ("slice.summary=extractive", "slice.chunk=300", "marker.made=rules")
    row = Method("m", "macrag", settings=("slice.preset=paper", "raptor.preset=paper")).with_settings(None, None, given)
    settings = row.view_settings()
    assert (settings["slice"].summary, settings["slice"].chunk, list(settings)) == ("abstractive", 300, ["slice"])
    assert row.assigned == ["slice.summary=extractive", "slice.chunk=300", "slice.preset=paper"]
    stored: dict[str, Any] = {"leaf": {}, "slice": {}}
    needs = unmet_needs(row, stored, Models(count_tokens), is_built=False)
    assert needs.startswith("needs an index with slice.chunk=300, slice.summary=abstractive (--set) and a chat model")
    stored = {"leaf": {}, **stored_settings(settings)}
    assert unmet_needs(row, stored, Models(count_tokens)) == "", "the rows are written already"
    assert replace(row, is_written=False).view_settings() == {}
    with pytest.raises(UsageError, match="has no preset 'papers'") as error:
        Method("m", "macrag").with_settings(None, None, ["slice.preset=papers"])
    assert error.value.hint == "it has: paper"


def test_all_methods_use_the_same_passage_length() -> None:
    lengths = [chosen["longest"] for name in METHODS if (chosen := parameters(name)).get("longest")]
    lengths += [resolve(spec)[1].longest for spec in ("aed", "aed(preset=paper)")]
    lengths += [LabelSettings().longest, TripletSettings().longest]
    assert set(lengths) == {PASSAGE_TOKENS}


def test_methods_match_the_paper() -> None:
    assert parameters("aed-2") == asdict(resolve("aed(preset=paper)")[1])
    assert changed("rag-5-triplets") == {
        "by": "search", "k": 5, "m": 5, "memory": False, "ensemble": False, "together": "triplets"
    }  # fmt: skip
    assert changed("rag-5-both", "rag-5-triplets") == {"together": "both"}
    assert changed("reranker-5-both", "reranker-5-triplets") == {"together": "both"}
    assert changed("reranker-5-triplets", "aed-no-ensemble") == {"together": "triplets"}
    assert [parameters(f"rag-{k}")["k"] for k in (1, 5, 10, 20)] == [1, 5, 10, 20]
    judges = {name: METHODS[name].judge for name in ("rag-5-both", "rag-20", "reranker-5-both", "aed-2")}
    assert judges == {"rag-5-both": "none", "rag-20": "none", "reranker-5-both": "reranker", "aed-2": "utility"}


def test_each_ablation_changes_one_parameter() -> None:
    assert changed("aed-no-triplets") == {"triplets": False}
    assert changed("aed-no-memory") == {"memory": False}
    assert changed("aed-no-ensemble") == {"ensemble": False, "memory": False, "m": 5}
    assert changed("aed-passages", "aed-no-ensemble") == {"triplets": False}
    assert changed("gainrag-5", "aed-passages") == {"memory": True}
    assert changed("aed-1") == {"m": 1, "k": 5}
    assert changed("beta-0.5") == {} and changed("beta-50") == {"beta": 50.0}
    assert METHODS["reranker-5"].strategy == METHODS["aed-passages"].strategy  # with different judges
    assert (METHODS["reranker-5"].judge, METHODS["aed-passages"].judge) == ("reranker", "utility")


def test_names_and_groups() -> None:
    assert [one.name for one in methods_of("rag-5, table-2,rag-5")] == ["rag-5", *(m.name for m in GROUPS["table-2"])]
    assert len(GROUPS["table-1"]) == 13 and len(GROUPS["table-2"]) == 4
    assert [m.name for m in GROUPS["table-4"]] == [
        "rag-5", "rag-5-triplets", "rag-5-both", "reranker-5", "reranker-5-triplets", "reranker-5-both", "aed-2"
    ]  # fmt: skip
    with pytest.raises(UsageError, match="unknown method: 'rag-7'"):
        methods_of("rag-7")
    with pytest.raises(UsageError, match="missing method name"):
        methods_of(" , ")
