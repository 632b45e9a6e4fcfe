"""Storms of changes by two processes, with SIGKILL: acknowledged changes stay, and others happen wholly or not at all."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import mergewise as mw
from tests.test_kill import EMBEDDER

KILLS = int(os.environ.get("MERGEWISE_KILLS", "4"))

STORM = (
    EMBEDDER
    + """
import json, random, sys
from pathlib import Path
import pytest
import mergewise as mw

place, folder, prefix, seed = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
pick = random.Random(seed)
index = mw.open(place, embedder=Numbers())


def text(doc_id):
    return f"# Tower {doc_id}\\n\\n" + f"The tower of {doc_id} fell in {pick.randrange(10**9)}. " * pick.randint(1, 12)


def add():
    fresh = {f"{prefix}{pick.randrange(40)}": None for _ in range(pick.randint(1, 5))}
    fresh = {doc_id: text(doc_id) for doc_id in fresh}
    when = pick.choice(["now", "later"])
    return fresh, lambda: index.add([mw.Document(*one) for one in fresh.items()], embed=when)


def remove():
    own = [info.id for info in index.documents(prefix)]
    gone = pick.sample(own, min(len(own), pick.randint(1, 4)))
    return dict.fromkeys(gone), lambda: index.remove(gone)


def sync():
    changes = {}
    for number in pick.sample(range(12), 3):
        path = folder / f"{number}.md"
        doc_id = f"{folder.name}/{path.name}"
        changes[doc_id] = text(doc_id) if pick.random() < 0.7 else None
        if changes[doc_id] is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(changes[doc_id])
    (folder / "kept.md").write_text("A file that stays.")
    files = {f"{folder.name}/{path.name}": path.read_text() for path in folder.iterdir()}
    known = {info.id for info in index.documents(f"{folder.name}/")}
    return {**dict.fromkeys(known), **files}, lambda: index.sync(folder)


def describe():
    own = [info.id for info in index.documents(prefix)][:3]
    return {}, lambda: index.describe(own, {"year": pick.randrange(2000)})


def embed():
    return {}, lambda: index.embed(seconds=0.0)


def reshard():
    return {}, lambda: index.reshard(pick.randint(1, 3))


def view():
    here = "outline" in index.manifest.views
    return {}, lambda: index.remove_views(["outline"]) if here else index.add_views({"outline": None})


def check():
    def work():
        if index.check():
            raise AssertionError(index.check())

    return {}, work


def repair():
    def work():
        pattern = pick.choice(["mapped/*", "section.lance/data/*", "slice.lance/data/*"])
        for path in place.rglob(pattern):
            path.unlink(missing_ok=True)
        left = index.check(repair=True)
        if left:
            raise AssertionError(left)

    return {}, work


CARE = [embed, describe, view, repair, *([reshard] if hasattr(index.manifest, "shards") else [check])]
while True:
    name = pick.choice([add, add, remove, sync, *(CARE if prefix == "b" else [embed, describe])])
    changes, work = name()
    print(json.dumps([name.__name__, changes]), flush=True)
    error = ""
    try:
        work()
    except mw.MergewiseError as raised:
        error = f"{type(raised).__name__}: {raised}"
    print(json.dumps(["done", error]), flush=True)
"""
)

# errors of one process while the other one changes the number of shards, damages and repairs tables, or drops old versions
EXPECTED = (
    "another process has changed the number of shards",
    "has changed since it was opened",
    "cannot read",
    "unfinished change to",
    "another process removed the view",
    "missing or wrong shard",
)


class Process:
    """One process of a storm. `after` lists the states in which its documents may be: with and without its last change."""

    def __init__(self, place: Path, folder: Path, prefix: str, seed: int) -> None:
        folder.mkdir(exist_ok=True)
        words = [sys.executable, "-c", STORM, str(place), str(folder), prefix, str(seed)]
        self.prefixes = (prefix, f"{folder.name}/")
        self.log = folder.with_suffix(".log")
        self.output = self.log.open("w")
        self.process = subprocess.Popen(words, stdout=self.output, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        self.process.kill()
        self.process.wait()
        self.output.close()

    def has_begun(self) -> bool:
        return self.process.poll() is not None or '"done"' in self.log.read_text()

    def after(self, before: Mapping[str, str]) -> tuple[list[dict[str, str]], bool, int]:
        """Return the possible states of its documents, whether a repair may be unfinished, and the finished changes."""
        lines = self.log.read_text().splitlines()
        # the kill may have cut the last line
        entries = [json.loads(line) for line in lines if line.startswith("[") and line.endswith("]")]
        state, changes, doing, finished = dict(before), dict[str, str | None](), "", 0
        for name, given in entries:
            if name != "done":
                doing, changes = name, given
                continue
            assert not given or any(reason in given for reason in EXPECTED), given
            # each change is one batch: a later step failed, and the message counts what is kept
            if not given or "done before and kept" in given:
                state, finished = changed(state, changes), finished + bool(changes)
            if not (given and doing == "repair"):
                doing = ""
            changes = {}
        return [state, changed(state, changes)], doing == "repair", finished


def changed(state: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {doc_id: text for doc_id, text in {**state, **changes}.items() if text is not None}


@pytest.mark.slow
@pytest.mark.parametrize("shards", [None, 2])
def test_acknowledged_changes_survive_storms(tmp_path: Path, shards: int | None) -> None:
    names: dict[str, type] = {}
    exec(EMBEDDER, names)
    embedder, place = names["Numbers"](), tmp_path / "index"
    mw.open(place, embedder=embedder, views=("leaf", "slice"), shards=shards).close()
    draw, standing = random.Random(shards), [dict[str, str](), dict[str, str]()]
    kills = finished = 0
    # on a busy machine, few processes finish a change before they are killed
    while kills < KILLS or (finished < KILLS and kills < 10 * KILLS):
        storm = [Process(place, tmp_path / f"docs-{prefix}", prefix, draw.randrange(10**9)) for prefix in "ab"]
        while not all(process.has_begun() for process in storm):
            time.sleep(0.05)
        # one goes on for a moment after the death of the other
        for process in draw.sample(storm, 2):
            time.sleep(draw.uniform(0, 1.5))
            process.kill()
            kills += 1
        index = mw.open(place, embedder=embedder)
        after = [process.after(before) for process, before in zip(storm, standing, strict=True)]
        problems = index.check()
        if problems and any(unrepaired for _, unrepaired, _ in after):
            problems = index.check(repair=True)
        logs = "".join(process.log.read_text()[-1500:] for process in storm)
        assert problems == [], logs
        found = {info.id: index.document(info.id).text for info in index.documents()}
        for at, (process, (states, _, count)) in enumerate(zip(storm, after, strict=True)):
            own = {doc_id: text for doc_id, text in found.items() if doc_id.startswith(process.prefixes)}
            assert own in states, (states[0].items() ^ own.items(), logs)
            standing[at], finished = own, finished + count
        assert len(found) == sum(map(len, standing))
        index.close()
    print(f"{kills} kills, {finished} acknowledged changes, {len(found)} documents")
    assert finished >= KILLS
