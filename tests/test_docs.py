"""The manual holds together: links and anchors exist, pages are short, and the architecture matches the source."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from scripts import diagrams

import mergewise
from mergewise.designs import MODES, STRATEGIES, VIEWS
from tests.test_layers import LEVELS, level

ROOT = Path(__file__).parents[1]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
WRITTEN = {name: text for name, text in PAGES.items() if not name.startswith("docs/reference/")}
DOORS = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")}
ARCHITECTURE = PAGES["docs/contributing/architecture.md"]
NAMED = re.compile(r"`([^`]+)`")
WORDS_OF_A_PAGE, WORDS_OF_ALL = 2_500, 38_900


def outside_code(page: str) -> str:
    """Return the page without its blocks of code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", page, flags=re.DOTALL))


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows_under(heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading of the architecture, without its head."""
    section = ARCHITECTURE.partition(f"\n{heading}\n")[2]
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert lines is not None, heading
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()[2:]]


@pytest.mark.parametrize("name", [*PAGES, *DOORS])
def test_links_lead_to_pages_and_headings(name: str) -> None:
    text = outside_code({**PAGES, **DOORS}[name])
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)]+))?\)", text):
        path = (ROOT / name).parent / target if target else ROOT / name
        assert path.exists(), f"{name} leads to {target}"
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), f"{name} leads to {target or name}#{anchor}"


def test_pages_are_short_and_begin_with_their_use() -> None:
    words = {name: len(text.split()) for name, text in WRITTEN.items()}
    assert max(words.values()) < WORDS_OF_A_PAGE, max(words, key=words.__getitem__)
    assert sum(words.values()) <= WORDS_OF_ALL
    for name, text in WRITTEN.items():
        title, _, rest = text.partition("\n")
        assert title.startswith("# ") and re.match(r"\n*[A-Z`\[]", rest), f"{name}: a title, then a sentence"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    listed = re.findall(r'"([\w/-]+\.md)"', navigation)
    assert sorted(f"docs/{name}" for name in listed) == sorted(PAGES)


def test_table_of_rooms_lists_every_room_by_level() -> None:
    source = Path(mergewise.__file__).parent
    present = {path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    rooms = [row[0].strip("`") for row in rows_under("## Rooms") if row[0]]
    assert present - {"__init__"} <= set(rooms)
    known = {room for rooms_of_level in LEVELS for room in rooms_of_level}
    levels = [level(room) for room in rooms if room in known]
    assert levels == sorted(levels)


def test_table_of_wings_lists_what_each_brings() -> None:
    wings = {row[0].strip("`"): row[1:] for row in rows_under("## Wings")}
    folders = {path.parent.name for path in (Path(mergewise.__file__).parent / "designs").glob("*/__init__.py")}
    assert wings.keys() == folders
    for wing, cells in wings.items():
        design = import_module(f"mergewise.designs.{wing}").DESIGN
        for parts, cell in zip((design.views, design.strategies, design.modes), cells, strict=True):
            assert set(NAMED.findall(cell)) == set(parts), wing


@pytest.mark.parametrize("folder", sorted(set(re.findall(r"`((?:designs|tests)/[\w./]+)`", ARCHITECTURE))))
def test_paths_in_the_architecture_exist(folder: str) -> None:
    place = ROOT / folder if folder.startswith("tests/") else Path(mergewise.__file__).parent / folder
    assert place.exists()


def test_manual_names_every_strategy_mode_and_view() -> None:
    named = {name for text in WRITTEN.values() for name in NAMED.findall(text)}
    assert named >= STRATEGIES.keys() | MODES.keys() | VIEWS.keys()


def test_diagrams_match_their_text() -> None:
    for name, text in diagrams.drawings().items():
        assert (diagrams.FOLDER / name).read_text(encoding="utf-8") == text, "run `python -m scripts.diagrams`"
