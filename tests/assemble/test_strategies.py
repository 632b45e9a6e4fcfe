from __future__ import annotations

from dataclasses import fields

import pytest

from mergewise.assemble import STRATEGIES, Models, assemble, resolve, split_specs
from mergewise.errors import UsageError
from mergewise.models.tokens import count_tokens
from mergewise.types import Document
from tests.support import ScriptedReader, memory_store

STORE = memory_store(
    [
        Document(
            id="d", title="D", text="First here now, with some words to it.\n\nThen second, with more words to it.\n"
        )
    ]
)


def test_every_strategy_answers_under_its_name() -> None:
    reader = ScriptedReader(STORE, {0: 0.5, 1: 0.9})
    for name in (name for name, strategy in STRATEGIES.items() if not strategy.views):
        context = assemble(name, "q", reader, 100, Models(count_tokens))
        assert context.strategy == name and context.question == "q" and context.budget == 100
        assert "First here" in context.text and "second" in context.text


def test_topk_by_score_and_in_document_order() -> None:
    reader = ScriptedReader(STORE, {0: 0.5, 1: 0.9})
    by_score = assemble("topk(order=score)", "q", reader, 100, Models(count_tokens))
    assert by_score.text.index("second") < by_score.text.index("First")
    dos = assemble("dos", "q", reader, 100, Models(count_tokens))
    assert dos.text.index("First") < dos.text.index("second")
    assert len(assemble("topk(k=1)", "q", reader, 100, Models(count_tokens)).passages[0].spans) == 1


def test_parameters_from_a_spec_and_on_top() -> None:
    _, chosen = resolve("auto-merge(mode=never, k=7,merge_threshold=0.25)", {"k": 9})
    assert (chosen.mode, chosen.k, chosen.merge_threshold) == ("never", 9, 0.25)


@pytest.mark.parametrize(
    ("given", "wanted"), [("true", True), ("1", True), ("no", False), ("0", False), (False, False)]
)
def test_switches_are_read_as_a_person_writes_them(given: object, wanted: bool) -> None:
    assert resolve("weave", {"lean": given})[1].lean is wanted


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nope", "unknown strategy 'nope'"),
        ("topk(", "unknown strategy"),
        ("topk(bogus=1)", "no parameter 'bogus'"),
        ("topk(k)", "sets nothing"),
        ("topk(k=many)", "cannot be 'many'"),
        ("topk(k=-1)", "cannot be negative"),
        ("weave(lean=perhaps)", "cannot be 'perhaps'"),
        ("auto-merge(mode=sometimes)", "cannot be 'sometimes'"),
    ],
)
def test_wrong_specs_are_told_with_a_hint(spec: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve(spec)
    assert says in error.value.message and error.value.hint


def test_lists_of_specs() -> None:
    assert split_specs("topk, auto-merge(mode=never, k=3),dos") == ["topk", "auto-merge(mode=never, k=3)", "dos"]


def test_every_parameter_has_a_default() -> None:
    for strategy in STRATEGIES.values():
        assert type(strategy.parameters)() is not None
        assert fields(strategy.parameters)
