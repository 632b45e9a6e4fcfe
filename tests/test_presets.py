"""Presets set what the tables of the paper pages list, row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mergewise as mw
from mergewise.cli.options import help_text
from mergewise.cli.questions import ask
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.designs.strategies import resolve, view_settings, with_parameters
from mergewise.errors import UsageError

DOCS = Path(__file__).parents[1] / "docs"
PAPERS = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "papers").glob("*.md")))


class Row(NamedTuple):
    """A row of a table: a parameter of a strategy or a view."""

    of: str
    parameter: str
    paper: str
    ours: str


def rows() -> Iterator[Row]:
    cell = "`[^`|]+`"
    for of, *cells, why in re.findall(
        rf"^\| ((?:view )?`.*) \| ({cell}) \| ({cell}) \| ({cell}) \| (.*) \|$", PAPERS, re.MULTILINE
    ):
        assert why.strip(), of
        parameter, paper, ours = (one.strip("`") for one in cells)
        is_view = of.startswith("view ")
        for name in re.findall(r"`([^`]+)`", of):
            known_view = is_view or name not in STRATEGIES
            yield Row(f"{name} (view)" if known_view else name, parameter, paper, ours)


class Preset(NamedTuple):
    defaults: Any
    sets: Mapping[str, object]


def presets() -> dict[str, Preset]:
    strategies = {name: Preset(s.parameters, s.presets["paper"]) for name, s in STRATEGIES.items() if s.presets}
    views = {f"{name} (view)": Preset(v.settings(), v.presets["paper"]) for name, v in VIEWS.items() if v.presets}
    return {**strategies, **views}


def written(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("name", presets())
def test_each_parameter_of_a_preset_has_a_row(name: str) -> None:
    preset = presets()[name]
    told = {row.parameter: (row.paper, row.ours) for row in rows() if row.of == name}
    changed = {p: value for p, value in preset.sets.items() if value != getattr(preset.defaults, p)}
    assert told == {p: (written(value), written(getattr(preset.defaults, p))) for p, value in changed.items()}


def test_each_row_belongs_to_a_preset() -> None:
    assert {row.of for row in rows()} <= presets().keys()


@pytest.mark.parametrize("name", presets())
def test_a_preset_sets_all_its_parameters(name: str) -> None:
    defaults, sets = presets()[name]
    own = STRATEGIES[name].presets if name in STRATEGIES else VIEWS[name.removesuffix(" (view)")].presets
    chosen = with_parameters(defaults, {"preset": "paper"}, name, own)
    for field in fields(defaults):
        assert getattr(chosen, field.name) == sets.get(field.name, getattr(defaults, field.name)), field.name


def test_specs_and_settings_take_a_preset() -> None:
    _, chosen = resolve("mrag(preset=paper, order=similarity, k=7)")
    assert (chosen.search, chosen.order, chosen.k, chosen.merge) == ("vectors", "similarity", 7, False)
    settings = view_settings(["leaf"], ["marker.preset=paper", "marker.made=rules"], mw.defaults.CHAT)
    assert settings == {
        "marker": mw.MarkerSettings(
            ends="token", policy="again", window=1_000_000, overlap=0, numbers="given", ungrounded="keep"
        )
    }


def test_the_hint_for_an_unknown_parameter_lists_presets() -> None:
    with pytest.raises(UsageError) as error:
        resolve("mrag(presets=paper)")
    assert error.value.hint.endswith("; presets: paper")


def test_help_and_reference_name_the_presets() -> None:
    assert "preset=paper" in help_text(ask.__annotations__["strategy"].__metadata__[0].help)
    page = (DOCS / "reference/strategies.md").read_text(encoding="utf-8")
    for name in ("`mrag`", "View `marker`"):
        assert re.search(rf"^### {name}\n(?:(?!^### ).*\n)*?.*`preset=paper` sets", page, re.MULTILINE), name
