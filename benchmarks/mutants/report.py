"""The report: the share caught by room and by kind, and the survivors with their reasons."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.mutants.sample import Mutant

SURVIVORS = Path(__file__).parent / "survivors.toml"
WHY = ("equivalent", "left")
LEAST_SHARE = 0.85

Result = dict[str, Any]


def results(path: Path) -> dict[str, Result]:
    """Return the recorded verdicts by the mutant's name. A later line replaces an earlier one."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {result["name"]: result for result in map(json.loads, lines)}


def keep(path: Path, result: Result) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result, ensure_ascii=False) + "\n")


def reasons(path: Path = SURVIVORS) -> dict[str, tuple[str, str]]:
    """Return the judged survivors: `equivalent` or `left`, and the reason."""
    known = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", []):
        why = [kind for kind in WHY if kind in entry]
        if len(why) != 1:
            raise ValueError(f"{entry['name']}: invalid kind of survivor (expected {' or '.join(WHY)})")
        known[entry["name"]] = (why[0], entry[why[0]])
    return known


def share(found: Iterable[Result]) -> float:
    """Return the share of caught mutants among the judged ones."""
    verdicts = [result["verdict"] for result in found if result["verdict"] != "unclear"]
    return verdicts.count("caught") / len(verdicts) if verdicts else 0.0


def table(found: list[Result], column: str) -> Iterator[str]:
    """Yield the rows of a Markdown table: mutants, caught, survivors, equivalent survivors, share."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in found:
        groups[result[column]].append(result)
    known = reasons()
    yield f"| {column} | mutants | caught | survived | equivalent survivors | share caught |"
    yield "| --- | --: | --: | --: | --: | --: |"
    for name, inside in [*sorted(groups.items()), ("all", found)]:
        survived = [result["name"] for result in inside if result["verdict"] == "survived"]
        equivalent = sum(known.get(name, ("",))[0] == "equivalent" for name in survived)
        caught = sum(result["verdict"] == "caught" for result in inside)
        yield f"| {name} | {len(inside)} | {caught} | {len(survived)} | {equivalent} | {share(inside):.2f} |"


def survivors(found: list[Result]) -> Iterator[str]:
    """Yield the survivors with their reasons, the unexplained ones first."""
    known = reasons()
    alive = sorted(result["name"] for result in found if result["verdict"] == "survived")
    for name in sorted(alive, key=lambda name: name in known):
        yield f"- `{name}`: {': '.join(known.get(name, ('not judged yet',)))}"


def gone(every: Iterable[Mutant]) -> list[str]:
    """Return the names on the list of survivors that the sources no longer give."""
    return sorted(reasons().keys() - {mutant.name for mutant in every})
