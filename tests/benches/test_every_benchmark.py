"""Every benchmark can be imported. The ones that no other test runs answer a question on ten documents."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import benchmarks
import pytest
from benchmarks import identical, latency, peers
from benchmarks.corpus import BENCH

import mergewise as mw

MODULES = sorted(one.name for one in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."))
DOCUMENTS = [
    mw.Document(f"d{n}", f"# Tower {n}\n\nTower {n} is {n + 20} metres high.", f"Tower {n}") for n in range(10)
]
QUESTION = "How high is Tower 7?"


@pytest.mark.parametrize("module", [name for name in MODULES if not name.endswith(".__main__")])
def test_benchmarks_can_be_imported(module: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        if (error.name or "").startswith(("benchmarks", "mergewise")):
            raise
        pytest.skip(f"{error.name} is not installed")


@pytest.fixture
def index(tmp_path: Path) -> mw.Index:
    index = mw.open(tmp_path / "index", embedder="none")
    index.add(DOCUMENTS)
    return index


def test_identical_names_each_difference(
    index: mw.Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(identical, "open_index", lambda name, cache: (index, [QUESTION]))
    monkeypatch.setattr(identical, "STRATEGIES", ("weave", "topk"))
    rows = list(identical.rows("towers", tmp_path, 60))
    assert [row["key"][1:3] for row in rows] == [["weave", 128], ["weave", 640], ["topk", 128], ["topk", 640]]
    assert all("27 metres" in row["context"][0] for row in rows)
    files = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    for file in files:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    identical.print_differences(*map(identical.read, files))
    same = capsys.readouterr().out
    rows[2]["answer"][0] = "another answer"
    files[1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    identical.print_differences(*map(identical.read, files))
    assert capsys.readouterr().out != same


@pytest.mark.skipif(not BENCH.is_dir(), reason=f"question sets not found: {BENCH}")
def test_peers_measures_this_engine() -> None:
    result = peers.measure("mergewise", 40, 3, "words")
    assert result.leaves > 10 and result.median_ms > 0 and result.documents > 0


def test_latency_answers_in_rounds(index: mw.Index, tmp_path: Path) -> None:
    index.close()
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps({"question": QUESTION}) + "\n")
    words = ["--index", str(tmp_path / "index"), "--questions", str(file), "--rounds", "1", "--strategies", "topk"]
    command = [sys.executable, "-m", latency.__name__, *words]
    done = subprocess.run(command, cwd=Path(benchmarks.__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0 and "topk" in done.stdout, done.stderr
