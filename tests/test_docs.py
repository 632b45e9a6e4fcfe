"""The documents hold together: links lead somewhere, imports are shallow, and the architecture says what stands where."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import mergewise
from mergewise.designs import MODES, STRATEGIES, VIEWS
from tests.test_layers import LEVELS, level

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
ARCHITECTURE = PAGES["architecture.md"]
NAMED = re.compile(r"`([^`]+)`")


def outside_code(page: str) -> str:
    """The page without its blocks of code, fenced or indented."""
    return re.sub(r"^    .*$", "", re.sub(r"```.*?```", "", page, flags=re.DOTALL), flags=re.MULTILINE)


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", outside_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows_under(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading of the architecture, without its head."""
    section = ARCHITECTURE.partition(f"\n{heading}\n")[2]
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert lines is not None, heading
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()[2:]]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_headings(name: str) -> None:
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([^)]+))?\)", outside_code(PAGES[name])):
        page = PAGES.get(target or name)
        assert page is not None, f"{name} leads to {target}"
        assert not anchor or anchor in anchors(page), f"{name} leads to {target or name}#{anchor}"


def test_the_table_of_rooms_has_every_room_in_the_order_of_the_levels() -> None:
    source = Path(mergewise.__file__).parent
    there = {path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    rooms = [row[0].strip("`") for row in rows_under("## Rooms") if row[0]]
    assert there - {"__init__"} <= set(rooms)
    known = {room for rooms_of_level in LEVELS for room in rooms_of_level}
    levels = [level(room) for room in rooms if room in known]
    assert levels == sorted(levels)


def test_the_table_of_wings_says_what_each_brings() -> None:
    wings = {row[0].strip("`"): row[1:] for row in rows_under("## Wings")}
    folders = {path.parent.name for path in (Path(mergewise.__file__).parent / "designs").glob("*/__init__.py")}
    assert wings.keys() == folders
    for wing, cells in wings.items():
        design = import_module(f"mergewise.designs.{wing}").DESIGN
        for parts, cell in zip((design.views, design.strategies, design.modes), cells, strict=True):
            assert set(NAMED.findall(cell)) == set(parts), wing


@pytest.mark.parametrize("folder", sorted(set(re.findall(r"`((?:designs|tests)/[\w./]+)`", ARCHITECTURE))))
def test_paths_of_the_architecture_are_there(folder: str) -> None:
    place = ROOT / folder if folder.startswith("tests/") else Path(mergewise.__file__).parent / folder
    assert place.exists()


def test_the_guide_names_every_strategy_mode_and_view_in_its_tables() -> None:
    named = {name for line in PAGES["guide.md"].splitlines() if line.startswith("| `") for name in NAMED.findall(line)}
    assert named >= STRATEGIES.keys() | MODES.keys() | VIEWS.keys()


def test_the_design_of_the_architecture_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", ARCHITECTURE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    for name, strategy in names["DESIGN"].strategies.items():
        monkeypatch.setitem(STRATEGIES, name, strategy)
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        index.add(*(mergewise.Document(name, f"The {name} sleeps at noon. " * 30) for name in ("cat", "dog")))
        context = index.context("Who sleeps at noon?", strategy="survey(k=20)", budget=300)
    assert sorted(passage.spans[0].doc_id for passage in context.passages) == ["cat", "dog"]
