"""All interfaces take their question options from one record: the same names, types, ranges and defaults."""

from __future__ import annotations

import inspect
from dataclasses import make_dataclass
from typing import Annotated, Any

import pytest
import typer

import mergewise as mw
from mergewise.cli.main import app, callbacks
from mergewise.cli.options import record_parameters
from mergewise.indexing import EmbeddingOptions, IndexingOptions
from mergewise.query import AnswerQuery, Query, options_of, takes, takes_options
from mergewise.ranges import Range
from mergewise.server.configuration import DEFAULTS
from mergewise.server.native.requests import AskForm, ContextForm, Form, with_options_of
from mergewise.server.openai.requests import ChatExtras

TONE = ("tone", Annotated[int, Range(1, 9), "Tone of the answer"], 3)
Toned: Any = make_dataclass("Toned", [TONE], bases=(AnswerQuery,), frozen=True, kw_only=True)


PACE = ("pace", Annotated[int, Range(1, 5), "Pace of the work"], 2)
Paced: Any = make_dataclass("Paced", [PACE], bases=(IndexingOptions,), frozen=True, kw_only=True)


CONTEXT_NAMES = [option.name for option in options_of(Query)]
ANSWER_NAMES = [option.name for option in options_of(AnswerQuery)]


def test_an_option_is_one_field() -> None:
    option = options_of(Toned)[-1]
    assert (option.name, option.type, option.range, option.default) == ("tone", int, Range(1, 9), 3)
    (parameter,) = [one for one in record_parameters(Toned) if one.name == "tone"]
    described = parameter.annotation.__metadata__[0]
    assert described.help == "Tone of the answer."
    assert described.envvar == "MERGEWISE_TONE" and parameter.default == 3
    schema = with_options_of(Toned)(Form).model_json_schema()["properties"]["tone"]
    assert (
        schema["description"] == "Tone of the answer."
        and {"minimum": 1, "maximum": 9, "type": "integer"} in schema["anyOf"]
    )

    class Owner:
        @takes(Toned)
        def ask(self, query: Any) -> int:
            return int(query.tone)

    assert Owner().ask("q") == 3 and Owner().ask("q", tone=7) == 7 and Owner().ask(Toned("q", tone=8)) == 8
    assert Owner().ask(Toned("q", tone=8), tone=9) == 9
    assert inspect.signature(Owner.ask).parameters["tone"].default == 3


def test_an_option_of_indexing_is_one_field() -> None:
    @takes_options(Paced)
    def add(*sources: str, options: Any) -> tuple[int, object]:
        return options.pace, options.workers

    assert add("a") == (2, 1) and add("a", pace=4, workers=None) == (4, None)
    assert add("a", options=Paced(pace=5)) == (5, 1) and add("a", options=Paced(pace=5), workers=2) == (5, 2)
    with pytest.raises(mw.UsageError, match="invalid options"):
        add("a", options=AnswerQuery("q"))
    assert inspect.signature(add).parameters["pace"].annotation == "int"
    with pytest.raises(TypeError, match="unexpected keyword argument 'haste'"):
        add("a", haste=1)
    (parameter,) = [one for one in record_parameters(Paced) if one.name == "pace"]
    described = parameter.annotation.__metadata__[0]
    assert (described.help, described.min, described.max, parameter.default) == ("Pace of the work.", 1, 5, 2)


def test_the_surfaces_have_the_options_of_indexing() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    shown = {option.name for option in options_of(IndexingOptions)}
    names = {"meta" if name == "metadata" else name for name in shown - {"gpus_per_worker", "follow_links"}}
    assert names <= {one.name for one in commands["index"].params}
    assert {"gpus_per_worker", "follow_links"} <= callbacks()["index"].settings.keys()
    for method, record in (
        (mw.Index.add, IndexingOptions),
        (mw.Index.sync, IndexingOptions),
        (mw.Index.embed, EmbeddingOptions),
    ):
        own = inspect.signature(method).parameters
        given = {option.name: option.default for option in options_of(record, also_of_python=True)}
        assert {name: own[name].default for name in given} == given


def test_the_surfaces_have_the_options_of_the_record() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, options in (("ask", ANSWER_NAMES), ("chat", ANSWER_NAMES), ("context", CONTEXT_NAMES)):
        known = {one.name for one in commands[name].params} | callbacks()[name].settings.keys()
        assert {*options} - {"parameters"} <= known, name
    assert {*CONTEXT_NAMES} - {"parameters", "strategy"} <= {one.name for one in commands["compare"].params}
    assert {*CONTEXT_NAMES} <= ContextForm.model_fields.keys() and {*ANSWER_NAMES} <= AskForm.model_fields.keys()
    assert ChatExtras.model_fields.keys() == {*ANSWER_NAMES, "include", "footer", "markup"}
    assert {*ANSWER_NAMES} - {"where"} | {"chat"} == DEFAULTS
    for method, record in ((mw.Index.context, Query), (mw.Index.ask, AnswerQuery), (mw.Index.aprepare, AnswerQuery)):
        own = inspect.signature(method).parameters
        assert {option.name: own[option.name].default for option in options_of(record)} == {
            option.name: option.default for option in options_of(record)
        }


@pytest.mark.parametrize(
    "option", [option for option in options_of(AnswerQuery) if option.range], ids=lambda one: one.name
)
def test_a_range_is_the_same_everywhere(option: Any) -> None:
    for form in (AskForm, ChatExtras):
        kinds = form.model_json_schema()["properties"][option.name]["anyOf"]
        (number,) = [kind for kind in kinds if kind.get("type") == "integer"]
        assert (number["minimum"], number["maximum"]) == (option.range.low, option.range.high)
    for wrong in (option.range.low - 1, option.range.high + 1):
        with pytest.raises(mw.UsageError):
            AnswerQuery("q", **{option.name: int(wrong)})  # type: ignore[arg-type]


def test_the_default_budget_is_one() -> None:
    budget = next(option for option in options_of(Query) if option.name == "budget")
    assert budget.default == "default" == AnswerQuery("q").budget
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    shown = {
        one.default for name in ("ask", "context", "compare") for one in commands[name].params if one.name == "budget"
    }
    assert shown == {"default"}
