"""The mutation campaign: correct mutants, a reproducible sample, and trials that only touch a copy."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("benchmarks.mutants", reason="the campaign is not part of the package")

from benchmarks.mutants import reached, report, sample
from benchmarks.mutants.guess import likeliest
from benchmarks.mutants.operators import KINDS, changes
from benchmarks.mutants.trial import guessed, planned

ROOT = Path(__file__).parents[1]

CHANGED = [
    ("a == b", "comparison", {"(a != b)"}),
    ("a < b", "comparison", {"(a >= b)"}),
    ("a < b", "boundary", {"(a <= b)"}),
    ("a is b", "boundary", set()),
    ("a + b", "arithmetic", {"(a - b)"}),
    ("a + 'text'", "arithmetic", set()),
    ("a and b", "boolean", {"(a or b)", "b", "a"}),
    ("a or b or c", "boolean", {"(a and b and c)", "(b or c)", "(a or c)", "(a or b)"}),
    ("not a", "not", {"a"}),
    ("3", "constant", {"4", "2"}),
    ("0", "constant", {"1"}),
    ("0.0", "constant", {"0.25", "1.0"}),
    ("True", "constant", {"False"}),
    ("'text'", "constant", set()),
    ("sorted(a)", "call", {"a"}),
    ("a.strip()", "call", {"a"}),
    ("f(a, b)", "argument", {"f(b, a)"}),
    ("isinstance(a, b)", "argument", set()),
    ("f(a, b=c)", "argument", {"f(a)"}),
    ("min(a, b)", "extremum", {"max(a, b)"}),
    ("any(a)", "extremum", {"all(a)"}),
    ("sorted(a, key=b)", "order", {"sorted(a)"}),
    ("a[b:c]", "slice", {"(a[:c])", "(a[b:])"}),
    ("[a for a in b if c]", "filter", {"([a for a in b])"}),
]


@pytest.mark.parametrize(("code", "kind", "becomes"), CHANGED)
def test_operator_makes_its_kind_of_change(code: str, kind: str, becomes: set[str]) -> None:
    assert {change.becomes for change in changes(f"x = {code}") if change.kind == kind} == becomes


STATEMENTS = [
    ("f(a)", "statement", {"pass"}),
    ("a += b", "statement", {"pass"}),
    ("raise a", "statement", {"pass"}),
    ("'''A docstring.'''", "statement", set()),
    ("return a", "return", {"return None"}),
    ("return a == b", "return", {"return not a == b"}),
    ("return None", "return", set()),
]


@pytest.mark.parametrize(("code", "kind", "becomes"), STATEMENTS)
def test_statements_are_removed_and_returns_change(code: str, kind: str, becomes: set[str]) -> None:
    assert {change.becomes for change in changes(f"def g():\n    {code}") if change.kind == kind} == becomes


def test_every_kind_has_a_case() -> None:
    assert {kind for _, kind, becomes in CHANGED + STATEMENTS if becomes} == set(KINDS)


def test_change_replaces_only_its_own_characters() -> None:
    source = 'x = "ä", "€"; y = a < b  # kept\n'
    (change,) = (change for change in changes(source) if change.kind == "boundary")
    assert change.applied(source) == 'x = "ä", "€"; y = (a <= b)  # kept\n'


def test_annotations_messages_and_protocols_are_left_alone() -> None:
    source = """
x: Literal[1] = f"{2 + 3}"
def f(a: Annotated[int, 4]) -> Literal[5]:
    raise UsageError(6)
class P(Protocol):
    x = 7
if TYPE_CHECKING:
    y = 8
"""
    assert [(change.kind, change.function) for change in changes(source)] == [("statement", "f")]


@pytest.mark.parametrize("path", ["text/sentences.py", "cli/options.py"])
def test_every_change_is_valid_and_different_python(path: str) -> None:
    source = (ROOT / sample.SOURCE / path).read_text(encoding="utf-8")
    before = ast.dump(ast.parse(source))
    for change in changes(source):
        assert ast.dump(ast.parse(change.applied(source))) != before, change


SOURCE = """
def f(a, b):
    return a < b and a + 1 > 2 or not min(a, b)

def g(a):
    return sorted(a, key=f)[1:2]
"""


def test_names_are_unique_and_without_line_numbers() -> None:
    names = [mutant.name for mutant in sample.mutants_of("room/file.py", SOURCE)]
    assert len(set(names)) == len(names)
    assert names == [mutant.name for mutant in sample.mutants_of("room/file.py", "\n\n# moved\n" + SOURCE)]


def test_sample_depends_only_on_the_seed() -> None:
    every = [one for room in ("a", "b", "c") for one in sample.mutants_of(f"{room}/file.py", SOURCE)]
    first = sample.chosen(every, 20, seed=1)
    assert first == sample.chosen(list(reversed(every)), 20, seed=1)
    assert {one.name for one in first} != {one.name for one in sample.chosen(every, 20, seed=2)}
    assert len(first) == len({one.name for one in first}) == 20


def test_sample_of_a_room_does_not_depend_on_other_rooms() -> None:
    every = [one for room in ("a", "b") for one in sample.mutants_of(f"{room}/file.py", SOURCE)]
    changed = [*every[: len(every) // 2], *sample.mutants_of("b/file.py", SOURCE.replace("sorted", "tuple"))]
    kept = [[one.name for one in sample.chosen(some, 14, seed=3) if one.room == "a"] for some in (every, changed)]
    assert kept[0] and kept[0] == kept[1]


def test_all_rooms_and_kinds_are_drawn_from() -> None:
    every = sample.mutants(ROOT)
    drawn = sample.chosen(every, 220, seed=1)
    assert {one.room for one in drawn} == {one.room for one in every}
    assert report.gone(every) == [], "listed survivors that are not mutants of the current sources"
    assert {one.change.kind for one in drawn} == set(KINDS)


def test_files_whose_tests_need_a_missing_package_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [path for path in sample.NEEDS if not (ROOT / sample.SOURCE / path).is_file()] == []
    monkeypatch.setattr(sample, "absent", lambda: {"models/causal/network.py"})
    paths = set(sample.sources(ROOT))
    assert "models/causal/network.py" not in paths and {"models/causal/prompts.py", *sample.NEEDS} - paths == {
        "models/causal/network.py"
    }


def test_small_rooms_give_all_their_mutants() -> None:
    assert sample.quotas({"small": 2, "large": 400, "middle": 100}, 32) == {"small": 2, "large": 20, "middle": 10}
    assert sample.quotas({"small": 2, "large": 3}, 32) == {"small": 2, "large": 3}


def test_function_lines_exclude_nested_functions() -> None:
    outer = "X = 1\ndef f(a):\n    b = a\n    def g():\n        return b\n    return g\n"
    source = outer + "class C:\n    y = 2\n    def h(self):\n        pass\n"
    assert reached.function_lines(source) == {3: "f", 4: "f", 5: "f.g", 6: "f", 10: "C.h"}


# --- trials, in a small repository -------------------------------------------------------------------------------

SMALL = {
    "src/mergewise/__init__.py": "",
    "src/mergewise/room.py": "def least(a, b):\n    return min(a, b)\n\n\ndef loose(a):\n    return a + 1\n",
    "tests/__init__.py": "",
    "tests/test_room.py": (
        "from mergewise.room import least, loose\n\n"
        "def test_least():\n    assert least(1, 2) == 1\n\n"
        "def test_loose():\n    assert loose(1)\n"
    ),
    # a conftest that applies only to some tests of a run
    "tests/other/__init__.py": "",
    "tests/other/conftest.py": "",
    "tests/other/test_other.py": "from mergewise.room import loose\n\ndef test_loose():\n    loose(1)\n",
    "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow']\n",
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in SMALL.items():
        (tmp_path / "repository" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repository" / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(tmp_path / "repository")], check=True)
    return tmp_path / "repository"


DRIVER = """
import json, sys, time
from pathlib import Path
from benchmarks.mutants import forks, reached
from benchmarks.mutants.sample import mutants
from benchmarks.mutants.trial import Slot, planned

root, work = Path(sys.argv[1]), Path(sys.argv[2])
tree = forks.copy_tree(root, work / "tree")
for file in ("tests/test_room.py", "tests/other/test_other.py"):
    run = forks.fork(tree, lambda: reached.collect(tree, work / "reached", file, 60, 20), 300, 100)
    while not run.ended():
        time.sleep(0.02)
known = reached.Reached(work / "reached")
slot, found = Slot(tree), {}
for number, mutant in enumerate(mutants(root)):
    # one control for all: without any change nothing fails
    for changed in (True, False) if number == 0 else (True,):
        slot.start(mutant, planned(known.concerned(mutant.path, mutant.change.function), 60), changed=changed)
        while (verdict := slot.verdict()) is None:
            time.sleep(0.02)
        found[f"{mutant.change.was} {changed}"] = [verdict.verdict, verdict.by, verdict.tests]
print(json.dumps(found))
"""


@pytest.mark.skipif("MERGEWISE_ATTACK" not in os.environ, reason="takes half a minute: run make chaos")
def test_mutant_is_judged_by_the_tests_that_call_it(small: Path, tmp_path: Path) -> None:
    """It runs in a separate process. Forks of the process of this suite would inherit locked locks of its threads."""
    pytest.importorskip("coverage")
    before = {path: path.read_bytes() for path in small.rglob("*") if path.is_file()}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(small), str(tmp_path / "work")],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    least, loose = "tests/test_room.py::test_least", "tests/test_room.py::test_loose"
    assert found["min(a, b) True"] == ["caught", least, 1]
    assert found["return min(a, b) True"] == ["caught", least, 1]
    assert found["return a + 1 True"][:2] == ["caught", loose]
    assert found["1 True"] == ["survived", "", 2]
    assert found["a + 1 True"][:2] == ["caught", loose]  # 1 - 1 is false, 1 + 2 is as true as 1 + 1
    assert {verdict for name, (verdict, *_) in found.items() if name.endswith("False")} == {"survived"}
    assert {path: path.read_bytes() for path in small.rglob("*") if path.is_file()} == before


def test_plan_takes_the_fastest_tests_within_the_limit() -> None:
    tests = [
        reached.Test(f"tests/test_{file}.py::test", cpu, cpu) for file, cpu in (("a", 1.0), ("b", 2.0), ("c", 9.0))
    ]
    assert planned(tests, 5).batches == [["tests/test_a.py"], ["tests/test_b.py"]]
    assert planned(tests[2:], 5).names == {"tests/test_c.py::test"}  # at least one test
    assert planned([], 5).batches == []
    assert guessed(["a", "b", "c"], 5, 2).batches == [["a", "b"], ["c"]]


def test_the_nearest_test_files_come_first() -> None:
    files = sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("test_*.py"))
    assert likeliest(ROOT, "text/sentences.py", "blocks", files, 3)[0] == "tests/text/test_sentences.py"
    assert "tests/index/test_tree.py" in likeliest(ROOT, "index/tree/build.py", "_bounded", files, 3)


# --- reports -----------------------------------------------------------------------------------------------------


def result(name: str, verdict: str, room: str = "a") -> report.Result:
    return {"name": name, "verdict": verdict, "room": room, "kind": "call"}


def test_share_counts_all_kinds_of_survivors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "reasons", lambda: {"two": ("equivalent", "says the same")})
    found = [
        result("one", "caught"),
        result("two", "survived"),
        result("three", "survived", "b"),
        result("four", "unclear"),
    ]
    assert report.share(found) == pytest.approx(1 / 3)
    rows = list(report.table(found, "room"))
    assert rows[2:] == [
        "| a | 3 | 1 | 1 | 1 | 0.50 |",
        "| b | 1 | 0 | 1 | 0 | 0.00 |",
        "| all | 4 | 1 | 2 | 1 | 0.33 |",
    ]
    assert list(report.survivors(found)) == ["- `three`: not judged yet", "- `two`: equivalent: says the same"]


def test_last_verdict_of_the_file_counts(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    assert report.results(kept) == {}
    for verdict in ("survived", "caught"):
        report.keep(kept, result("one", verdict))
    assert report.results(kept) == {"one": result("one", "caught")}


def test_every_listed_survivor_has_one_reason(tmp_path: Path) -> None:
    assert all(kind in report.WHY and len(why) > 10 for kind, why in report.reasons().values())
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[[survivor]]\nname = "one"\nequivalent = "a"\nleft = "b"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="one"):
        report.reasons(wrong)
