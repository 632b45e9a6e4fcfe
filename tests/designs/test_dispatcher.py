"""Strategies are chosen by name, checked before they run, and named in their contexts."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from mergewise.designs import STRATEGIES
from mergewise.designs.auto_merge.topk import TopK
from mergewise.designs.design import Strategy
from mergewise.designs.strategies import assemble, merge_context, resolve, stopping
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import IndexReader
from mergewise.types import Context, Document
from tests.support import ScriptedReader, memory_store

TEXT = "First here now, with some words to it.\n\nThen second, with more words to it.\n"
STORE = memory_store([Document(id="d", title="D", text=TEXT)])
MODELS = Models(count_tokens)


def reader() -> ScriptedReader:
    return ScriptedReader(STORE, {0: 0.5, 1: 0.9})


def test_every_strategy_answers_under_its_name() -> None:
    for name in (name for name, strategy in STRATEGIES.items() if not strategy.views and strategy.needs is None):
        context = assemble(name, "q", reader(), 100, MODELS)
        assert context.strategy == name and context.question == "q" and context.budget == 100
        assert "First here" in context.text and "second" in context.text


def test_a_context_is_named_by_the_spec_as_it_was_given() -> None:
    spec = "topk(order=score, k=1)"
    context = assemble(spec, "q", reader(), 100, MODELS)
    assert context.strategy == spec
    merged = merge_context("mergerag-sym(keep=0.2)", context, 50, MODELS)
    assert merged.strategy == f"{spec} then mergerag-sym(keep=0.2)"


@pytest.mark.parametrize(
    ("view", "spec"),
    [("slice", "macrag"), ("slice", "longrag(k2=3)"), ("marker", "mrag"), ("pic", "pic"), ("marker", "fake")],
)
def test_the_error_for_a_missing_view_names_the_command(view: str, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(question: str, reader: IndexReader, budget: int, models: Models, parameters: TopK) -> Context:
        raise AssertionError("it ran without its view")

    monkeypatch.setitem(STRATEGIES, "fake", Strategy(never, TopK(), "", views=("leaf", "marker")))
    with pytest.raises(UsageError) as error:
        assemble(spec, "q", reader(), 100, MODELS)
    assert error.value.message == f"this index has no {view} view"
    assert error.value.hint == f"build it: mergewise index PATH... --views leaf,{view}"


def test_parameters_from_a_spec_and_on_top() -> None:
    _, chosen = resolve("auto-merge(mode=never, k=7,merge_threshold=0.25)", {"k": 9})
    assert (chosen.mode, chosen.k, chosen.merge_threshold) == ("never", 9, 0.25)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nope", "unknown strategy: 'nope'"),
        ("nope(k)", "unknown strategy: 'nope'"),
        ("topk(", "unknown strategy"),
        ("topk(bogus=1)", "topk has no parameter 'bogus'"),
        ("topk(k)", "invalid assignment"),
        ("auto-merge(mode=sometimes)", "invalid mode of auto-merge: 'sometimes'"),
    ],
)
def test_errors_for_wrong_specs_have_a_hint(spec: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve(spec)
    assert says in error.value.message and error.value.hint


def test_every_parameter_has_a_default() -> None:
    for strategy in STRATEGIES.values():
        assert type(strategy.parameters)() is not None
        assert fields(strategy.parameters)


def test_only_strategies_that_can_stop_take_an_automatic_budget() -> None:
    assert stopping("weave", 0.2, {"k": 3}) == {"price": 0.2, "k": 3}
    assert stopping("weave(price=0.5)", 0.2, None) == {}
    assert stopping("weave", 0.2, {"price": 0.4}) == {"price": 0.4}
    with pytest.raises(UsageError) as error:
        stopping("topk", 0.2, None)
    assert error.value.hint.endswith("use one of: weave")


def test_the_dispatcher_alone_names_a_context() -> None:
    context = STRATEGIES["topk"].assemble("q", reader(), 100, MODELS, TopK())
    assert context.strategy == "" and replace(context, strategy="topk") == assemble("topk", "q", reader(), 100, MODELS)
