"""The sample of mutants: from every room and every kind of change, determined by a seed and the sources."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.operators import Change, changes

SOURCE = Path("src/mergewise")
LEAST = 4  # minimum number of mutants per room
LONGEST = 60  # characters of a change in its name

# Files with tests that need a package.
NEEDS = {
    "integrations/langchain.py": "langchain_core",
    "integrations/llama_index.py": "llama_index",
    "integrations/haystack.py": "haystack",
    "models/causal/loading.py": "torch",
    "models/causal/network.py": "torch",
    "models/causal/rows.py": "torch",
    "models/sentence_transformers.py": "sentence_transformers",
    "designs/aed/training/trainer.py": "torch",
    "designs/aed/training/scoring.py": "torch",
}


@dataclass(frozen=True)
class Mutant:
    """A change with its place. `name` has no line number, so it stays the same when lines move."""

    path: str
    room: str
    name: str
    change: Change

    @property
    def function(self) -> str:
        return f"{self.path}:{self.change.function}"


def mutants(root: Path) -> list[Mutant]:
    """Return every mutant of the sources below `root` whose tests can run here."""
    found = []
    for path in sources(root):
        found += mutants_of(path, (root / SOURCE / path).read_text(encoding="utf-8"))
    return found


def sources(root: Path) -> list[str]:
    """Return the paths of sources whose tests can run here, relative to the package's folder."""
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
    """Draw `count` mutants: rooms by the square root of their number of mutants, kinds alternating within a room."""
    rooms: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in found:
        rooms[mutant.room].append(mutant)
    shares = quotas({room: len(members) for room, members in rooms.items()}, count)
    return [mutant for room in sorted(rooms) for mutant in _drawn(rooms[room], shares[room], seed)]


def quotas(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Return the number of mutants per room: at least `LEAST` if it has them, the rest by the square root of its size."""
    shares = {room: min(LEAST, size) for room, size in sizes.items()}
    while sum(shares.values()) < min(count, sum(sizes.values())):
        open_rooms = [room for room in sorted(sizes) if shares[room] < sizes[room]]
        poorest = max(open_rooms, key=lambda room: math.sqrt(sizes[room]) / (shares[room] + 1))
        shares[poorest] += 1
    return shares


def _drawn(members: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Order mutants by the digest of seed and name: the first of each kind, then the second of each, and so on."""
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
