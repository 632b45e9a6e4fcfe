"""Which mutants: drawn from every room, from every kind of change in it, by nothing but a seed and the sources."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.operators import Change, changes

SOURCE = Path("src/mergewise")
LEAST = 4  # mutants of a room, however small it is
LONGEST = 60  # characters of a change in its name

# files whose tests run only where a package is installed
NEEDS = {
    "integrations/langchain.py": "langchain_core",
    "integrations/llama_index.py": "llama_index",
    "integrations/haystack.py": "haystack",
    "models/causal/loading.py": "torch",
    "models/causal/network.py": "torch",
    "models/causal/rows.py": "torch",
    "models/sentence_transformers.py": "sentence_transformers",
    "designs/aed/training/exporting.py": "torch",
    "designs/aed/training/scoring.py": "torch",
}


@dataclass(frozen=True)
class Mutant:
    """A change with its place: `name` holds no line number, so that it stays the same when lines move."""

    path: str
    room: str
    name: str
    change: Change

    @property
    def function(self) -> str:
        return f"{self.path}:{self.change.function}"


def mutants(root: Path) -> list[Mutant]:
    """Every mutant of the sources below `root` whose tests can run here."""
    found = []
    for path in sources(root):
        found += mutants_of(path, (root / SOURCE / path).read_text(encoding="utf-8"))
    return found


def sources(root: Path) -> list[str]:
    """The sources below `root` whose tests can run here, as paths from the package's folder."""
    every = (file.relative_to(root / SOURCE).as_posix() for file in sorted((root / SOURCE).rglob("*.py")))
    lacking = tuple(absent())
    return [path for path in every if not path.startswith(lacking)]


def absent() -> set[str]:
    return {path for path, package in NEEDS.items() if importlib.util.find_spec(package) is None}


def mutants_of(path: str, source: str) -> list[Mutant]:
    seen: Counter[str] = Counter()
    found = []
    for change in changes(source):
        name = f"{path}:{change.function}: {_short(change.was)} -> {_short(change.becomes)}"
        seen[name] += 1
        found.append(Mutant(path, room_of(path), name + (f" #{seen[name]}" if seen[name] > 1 else ""), change))
    return found


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}~{_digest(text)[:4]}"


def room_of(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


def chosen(found: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` mutants: rooms by the square root of what can be changed in them, kinds in turn within a room."""
    rooms: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in found:
        rooms[mutant.room].append(mutant)
    shares = quotas({room: len(members) for room, members in rooms.items()}, count)
    return [mutant for room in sorted(rooms) for mutant in _drawn(rooms[room], shares[room], seed)]


def quotas(sizes: dict[str, int], count: int) -> dict[str, int]:
    """How many mutants each room gives: at least `LEAST` where it has them, the rest by the root of its size."""
    shares = {room: min(LEAST, size) for room, size in sizes.items()}
    while sum(shares.values()) < min(count, sum(sizes.values())):
        open_rooms = [room for room in sorted(sizes) if shares[room] < sizes[room]]
        poorest = max(open_rooms, key=lambda room: math.sqrt(sizes[room]) / (shares[room] + 1))
        shares[poorest] += 1
    return shares


def _drawn(members: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """The first of each kind by the digest of seed and name, then the second of each, and so on."""
    kinds: dict[str, list[tuple[str, Mutant]]] = defaultdict(list)
    for mutant in members:
        kinds[mutant.change.kind].append((_digest(f"{seed} {mutant.name}"), mutant))
    turns = []
    for kind, ranked in kinds.items():
        ranked.sort(key=lambda pair: pair[0])
        turns += [(turn, _digest(f"{seed} {kind} {turn}"), mutant) for turn, (_, mutant) in enumerate(ranked)]
    return [mutant for *_, mutant in sorted(turns, key=lambda one: one[:2])[:count]]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
