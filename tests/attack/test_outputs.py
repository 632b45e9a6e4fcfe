"""Damaged and hostile files that mergewise itself writes: run folders, tunings, labels, trees, replies and models.

Each file is damaged in seeded ways: cut, flipped bits, values of other types, huge numbers, missing and doubled keys, deep
nesting. The commands that read it must end with a message, or work without it.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mergewise as mw
from mergewise.designs.aed.training.candidates import Example, TrainCandidate
from mergewise.designs.aed.training.labels import Label, LabelStore
from mergewise.errors import MergewiseError
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.runs.run_folder import open_run
from mergewise.evaluate.tuning.keeping import HoldoutLog, KeptMeasure
from mergewise.evaluate.tuning.measuring import PointScore
from mergewise.evaluate.tuning.space import Point
from tests.attack.support import LONG, posix_only
from tests.attack.support import command as own_process
from tests.attack.test_foreign import command

pytestmark = posix_only

ROUNDS = 150 if LONG else 6
"""Damaged versions of each file."""
LONGEST = 60
"""Seconds after which a command counts as hanging."""
VALUES: Sequence[str] = (
    "null", "true", "-1", "0", "1e999", "-1e999", "NaN", "1" + "0" * 400, "9" * 5000, "0.5", '""', '"x"', '"\\ud800"',
    '"\\u0000"', "[]", "{}", "[[]]", '{"x": null}', "[null]", '["x", 1]', "[" * 100_000, "[" * 100_000 + "]" * 100_000,
    '{"x": ' * 100_000, '"' + "x" * 1_000_000 + '"',
)  # fmt: skip


def damaged_bytes(content: bytes, draw: random.Random) -> bytes:
    """Cut the content, flip bits in it, or replace or double a part of it."""
    start = draw.randrange(len(content) + 1)
    end = min(len(content), start + draw.choice([1, 8, 200]))
    kind = draw.randrange(5)
    if kind == 0:
        return content[:start]
    if kind == 1:
        return content[:start] + content[end:]
    if kind == 2:
        return content[:end] + content[start:]
    flipped = bytearray(content)
    for at in range(start, end) if kind == 3 else [draw.randrange(len(content)) for _ in range(3)]:
        flipped[at] ^= 1 << draw.randrange(8)
    return bytes(flipped)


def damaged_json(content: bytes, draw: random.Random) -> bytes:
    """Change one value of a JSON text, or remove or double its key."""
    root = json.loads(content)
    places = list(_places(root))
    parent, key = draw.choice(places)
    kind = draw.randrange(8)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        mark = f"double-{draw.random()}"
        value, parent[mark] = parent.pop(key), None
        twice = f"{json.dumps(key)}: {json.dumps(value)}, {json.dumps(key)}: {draw.choice(VALUES)}"
        return json.dumps(root).replace(f"{json.dumps(mark)}: null", twice).encode()
    else:
        mark = f"changed-{draw.random()}"
        parent[key] = mark
        return json.dumps(root).replace(json.dumps(mark), draw.choice(VALUES)).encode()
    return json.dumps(root).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each value within a JSON value, as its container and its key."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


def damaged_lines(content: bytes, draw: random.Random) -> bytes:
    """Change one line of a file of JSON lines."""
    lines = content.splitlines()
    at = draw.randrange(len(lines))
    lines[at] = draw.choice([damaged_json, damaged_json, lambda *_: draw.choice(VALUES).encode()])(lines[at], draw)
    return b"\n".join(lines) + b"\n"


def damaged_toml(content: bytes, draw: random.Random) -> bytes:
    """Replace the value in one line of a TOML text, or remove or double the line."""
    lines = content.splitlines()
    at = draw.randrange(len(lines))
    name, equals, _ = lines[at].partition(b"=")
    kind = draw.randrange(5)
    if kind == 0 or not equals:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at])
    else:
        lines[at] = name + b"= " + draw.choice(VALUES).encode()
    return b"\n".join(lines)


def damaged_table(content: bytes, draw: random.Random) -> bytes:
    """Change a value, the type or the name of a column of a Parquet file, or its metadata."""
    table = pq.read_table(pa.BufferReader(content))
    at = draw.randrange(table.num_columns)
    field, values = table.schema.field(at), table.column(at).to_pylist()
    kind = draw.randrange(5)
    if kind == 0:
        table = table.remove_column(at)
    elif kind == 1:
        table = table.append_column(field, table.column(at))
    elif kind == 2:
        table = table.set_column(at, field.name, pa.array([draw.choice([None, str(v)]) for v in values], pa.string()))
    elif kind == 3 and table.schema.metadata:
        name = draw.choice(list(table.schema.metadata))
        table = table.replace_schema_metadata({**table.schema.metadata, name: draw.choice(VALUES)})
    elif values:
        place = draw.randrange(len(values))
        kinds: list[Any] = [None, -1, 2**62, float("nan"), float("inf"), "", "x" * 100_000, [], True]
        for value in draw.sample(kinds, len(kinds)):
            try:
                changed = pa.array([*values[:place], value, *values[place + 1 :]], field.type)
            except (pa.ArrowException, TypeError, OverflowError):
                continue
            table = table.set_column(at, pa.field(field.name, field.type), changed)
            break
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


FORMS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": damaged_json,
    ".jsonl": damaged_lines,
    ".toml": damaged_toml,
    ".parquet": damaged_table,
}


def damage(file: Path, content: bytes, draw: random.Random) -> None:
    form = FORMS.get(file.suffix)
    changed = damaged_bytes(content, draw) if form is None or draw.random() < 0.3 else form(content, draw)
    file.write_bytes(changed)


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail if the block takes longer."""

    def fail(*_: object) -> None:
        raise AssertionError(f"not finished after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attack(folder: Path, files: Sequence[Path], use: Callable[[], object], rounds: int = ROUNDS) -> None:
    """Damage each file in turn, and use the folder. A failing round is named by its file and seed."""
    assert files
    kept = folder.with_name(f"{folder.name}.whole")
    shutil.copytree(folder, kept)
    for file in files:
        content = file.read_bytes()
        for seed in range(rounds):
            draw = random.Random(f"{file.name}-{seed}")
            damage(file, content, draw)
            changed = file.read_bytes()
            try:
                with within(LONGEST):
                    use()
            except BaseException as error:
                raise AssertionError(f"{file.relative_to(folder)}, seed {seed}: {changed[:300]!r}") from error
            shutil.rmtree(folder)
            shutil.copytree(kept, folder)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index, questions, a finished run and a run in progress."""
    folder = tmp_path_factory.mktemp("outputs")
    facts = [(f"Town {i}", f"{1000 + 7 * i}") for i in range(20)]
    with mw.open(folder / "mergewise.index", embedder="none") as index:
        index.add(*(mw.Document(name, f"# {name}\n\n{name} has {count} houses. It is old.\n") for name, count in facts))
    rows = [f"How many houses has {name}?,{count}" for name, count in facts]
    (folder / "few.csv").write_text("\n".join(["question,answer", *rows[:4]]))
    command(folder, "eval", "few.csv", "--out", "finished", "--budgets", "100")
    shutil.copytree(folder / "finished", folder / "begun")
    lines = [json.dumps(row.as_dict()) for row in open_run(folder / "finished").run_rows()]
    (folder / "begun/rows/0.jsonl").write_text("\n".join(lines[:-1]))
    for file in folder.joinpath("begun").glob("*.parquet"):
        file.unlink()
    return folder


@pytest.fixture
def copy(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Path(shutil.copytree(work, tmp_path / "work"))


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)


@pytest.mark.parametrize("run", ["finished", "begun"])
def test_damaged_runs_are_reported(copy: Path, run: str) -> None:
    uses = [
        ["report", run],
        ["report", run, "finished", "--metric", "all", "--html", "page.html", "--csv", "figures.csv"],
        ["eval", "few.csv", "--out", run, "--budgets", "100"],
    ]

    def use() -> None:
        for words in uses:
            command(copy, *words)

    attack(copy / run, files_below(copy / run), use, ROUNDS // 3)


def test_damaged_tunings_are_measured_again(tmp_path: Path) -> None:
    questions = [Question(str(number), f"Who lives in house {number}?", ("Ada",), None) for number in range(4)]
    points, folder = [Point("weave"), Point("topk")], tmp_path / "tuning"

    def measured(points: Sequence[Point], question: Question) -> list[PointScore]:
        return [PointScore(0.5, 7) for _ in points]

    def use() -> None:
        kept = KeptMeasure(measured, folder, "answer")
        for question in questions:
            for score in kept(points, question):
                assert -1e9 < score.score < 1e9 and -1e9 < score.tokens < 1e9
        opened = HoldoutLog(folder).open({"winner": "topk"}, questions)
        assert -1e9 < opened.alpha < 1e9

    folder.mkdir()
    use()
    HoldoutLog(folder).open({"winner": "weave"}, questions)
    attack(folder, files_below(folder), use, 4 * ROUNDS)


NESTED = (
    '{"question": ' + "[" * 100_000,
    '{"question": "How many houses has Town 3?", "where": ' + '{"a":' * 100_000,
    '{"question": "How many houses has Town 3?", "id": ' + "9" * 5000 + "}",
)


def test_nested_questions_fail_alone(work: Path) -> None:
    lines = "\n".join([*NESTED, "How many houses has Town 3?"])
    done = own_process(work, "ask", "-", stdin=lines)
    assert "1021 houses" in done.out and done.err.count("invalid question") >= 2


def test_damaged_labels_are_reported(tmp_path: Path) -> None:
    store, example = LabelStore(tmp_path / "labels"), Example("1", "How many houses has Town 1?", ("1007",), "towns")
    store.begin("passages", {"alpha": 0.5}, {"towns": {"documents": 3}})
    candidate = TrainCandidate("passages", "Town 1", ("Town 1",), "Town 1 has 1007 houses.", 0.5, None, False)
    store.write("passages", example, [Label(candidate, 1.5), Label(candidate, 2.5)], 3.5)
    assert store.read(["passages"])

    def use() -> None:
        for step in (
            lambda: store.read(["passages"]),
            lambda: store.begin("passages", {"alpha": 0.5}, {"towns": {"documents": 3}}),
        ):
            try:
                step()
            except MergewiseError as error:
                assert error.hint

    attack(store.folder, files_below(store.folder), use, 2 * ROUNDS)
