"""A third-party design works like the built-in ones, whether registered in the process or installed as a package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.store.lance import LanceStore
from tests import own_design
from tests.cli.invoking import invoke as run

OWN = Path(own_design.__file__)
SOURCE = Path(mw.__file__).parent
QUESTION = "How long do cats sleep?"
PAGES = {
    "cats.md": "# Cats\n\nCats sleep sixteen hours a day.\nThey eat fish.\n",
    "dogs.md": "# Dogs\n\nDogs sleep ten hours a day.\nThey eat meat.\n",
}


def write_docs(folder: Path) -> None:
    (folder / "docs").mkdir()
    for name, text in PAGES.items():
        (folder / "docs" / name).write_text(text)
    (folder / "questions.csv").write_text(f"question,answer\n{QUESTION},sixteen hours\n")


# -- registered in this process


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder with an index of the design's view, while the design is registered in the three dictionaries."""
    folder = tmp_path_factory.mktemp("own")
    write_docs(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for known, brought in (
            (mw.VIEWS, own_design.DESIGN.views),
            (mw.STRATEGIES, own_design.DESIGN.strategies),
            (mw.MODES, own_design.DESIGN.modes),
        ):
            for name, part in brought.items():
                patch.setitem(known, name, part)
        assert "2 added" in run("index", "docs", "--views", "leaf,line", "--set", "line.least=4")
        yield folder


def test_the_design_is_short_and_the_source_does_not_name_it() -> None:
    text = OWN.read_text(encoding="utf-8")
    own_lines = [line for line in text.splitlines() if not line.startswith(("from mergewise", "import mergewise"))]
    assert len(own_lines) <= 79
    # only public modules, one level deep
    public = re.compile(r"import mergewise as mw|from mergewise\.(designs|protocols|types) import [\w, ]+")
    assert all(public.fullmatch(line) for line in text.splitlines() if "mergewise" in line)
    for path in SOURCE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert "own_design" not in source and "first-line" not in source and '"lines"' not in source, path


def test_a_context_and_its_trace(home: Path) -> None:
    shown = run("context", QUESTION, "-s", "lines(k=3)", "-b", "40", "--trace")
    assert shown.startswith("[1]\nCats sleep sixteen hours a day.\n") and "docs/cats.md:3" in shown
    assert "search: 3 lines\n    docs/cats.md:3  “Cats sleep sixteen hours a day.”" in shown
    context = json.loads(run("context", QUESTION, "-s", "lines", "-b", "40", "--json"))
    assert context["tokens"] <= 40 and context["strategy"] == "lines"
    for passage in context["passages"]:
        (span,) = passage["spans"]
        assert (home / span["doc"]).read_text()[span["start"] : span["end"]] == passage["text"]


def test_an_answer_in_the_mode_that_the_strategy_prefers(home: Path) -> None:
    answer = json.loads(run("ask", QUESTION, "-s", "lines", "--json"))
    assert answer["mode"] == "first-line" and answer["answer"] == "“Cats sleep sixteen hours a day.” [1]"
    other = json.loads(run("ask", QUESTION, "-s", "topk", "-m", "first-line", "--json"))
    assert other["mode"] == "first-line" and "sixteen" in other["answer"]
    merged = json.loads(run("ask", QUESTION, "-s", "lines", "-r", "2", "--merge-with", "mergerag-asym", "--json"))
    assert "sixteen" in merged["answer"]


def test_page_of_the_design(home: Path) -> None:
    run("ask", QUESTION, "-s", "lines", "--html", "page.html")
    page = (home / "page.html").read_text()
    assert "sixteen hours" in page and "lines · " in page and "first-line" in page and "6 lines" in page


def test_info_counts_its_rows_and_check_audits_them(home: Path) -> None:
    assert json.loads(run("info", "--json"))["views"]["line"] == 6
    assert "all invariants hold" in run("check")
    index = mw.open("mergewise.index")
    assert isinstance(index.store, LanceStore)
    with index.store._writing() as change:
        change.tables.open("line").delete("id = 2")
        change.tables.commit()
    assert index.check(repair=True) == []
    assert json.loads(run("info", "--json"))["views"]["line"] == 6


def test_design_can_be_evaluated_and_compared(home: Path) -> None:
    run("eval", "questions.csv", "--index", "mergewise.index", "-s", "lines,topk", "-b", "40", "--json", "rows.json")
    rows = {row["strategy"]: row for row in json.loads((home / "rows.json").read_text())}
    assert rows["lines"]["answer"] == 1.0 and rows["lines"]["tokens"] <= 40
    compared = json.loads(run("compare", QUESTION, "-s", "lines,weave", "--json"))
    assert [one["strategy"] for one in compared] == ["lines", "weave"]


def test_settings_and_parameters_are_checked(home: Path) -> None:
    with pytest.raises(mw.UsageError, match="lines has no parameter 'm'"):
        run("context", QUESTION, "-s", "lines(m=3)")
    with pytest.raises(mw.UsageError, match="other settings"):
        mw.open("mergewise.index", settings={"line": own_design.LineSettings(least=5)})
    with pytest.raises(mw.UsageError, match="invalid settings of the view 'line'"):
        mw.open("mergewise.index", settings={"line": mw.SliceSettings()})


def test_adding_and_removing_documents_updates_rows(home: Path, tmp_path: Path) -> None:
    with mw.open(tmp_path / "index", views=["line"], embedder="none") as index:
        index.add(mw.Document("a", "One one one.\nTwo two two."), mw.Document("b", "Three three."))
        assert index.store.reader().row_counts()["line"] == 3 and index.check() == []
        index.remove(["a"])
        assert index.store.reader().row_counts()["line"] == 1
        assert index.context("three", strategy="lines", budget=20).text.endswith("Three three.")


# -- from an installed package


def install(site: Path, package: str, module: str, entry_points: str, group: str = "mergewise.designs") -> None:
    """Create the files that an installer leaves for a package of one module."""
    site.mkdir(exist_ok=True)
    (site / f"{package}.py").write_text(module)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry_points}\n")


def with_site(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a separate process with the folder `site` in its path."""
    path = os.pathsep.join([str(folder / "site"), str(SOURCE.parent)])
    code = "from mergewise.cli.main import main; main()"
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which a package provides the design, with an index made by it."""
    folder = tmp_path_factory.mktemp("brought")
    write_docs(folder)
    (folder / "site").mkdir()
    install(folder / "site", "line_designs", OWN.read_text(encoding="utf-8"), "lines = line_designs:DESIGN")
    done = with_site(folder, "index", "docs", "--views", "leaf,line", "--embedder", "none")
    assert (done.returncode, "2 added" in done.stdout) == (0, True), done.stderr
    return folder


@pytest.fixture
def folder(brought: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(brought, tmp_path / "folder"))


def test_package_provides_view_strategy_and_mode(brought: Path) -> None:
    done = with_site(brought, "ask", QUESTION, "-s", "lines")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "“Cats sleep sixteen hours a day.” [1]"), done.stderr


def test_missing_package_is_reported(folder: Path) -> None:
    shutil.rmtree(folder / "site")
    done = with_site(folder, "info")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown view in the index: 'line'" in done.stderr and "install the package" in done.stderr


def test_a_package_that_fails_to_import_is_left_out_with_a_warning(folder: Path) -> None:
    install(folder / "site", "broken", "raise RuntimeError('no such device')", "other = broken:DESIGN")
    done = with_site(folder, "ask", QUESTION, "-s", "lines")
    assert (done.returncode, "sixteen" in done.stdout) == (0, True)
    assert "the design other of the package broken is skipped, it failed to load: no such device" in done.stderr


def test_package_with_an_invalid_design_is_refused(folder: Path) -> None:
    install(folder / "site", "strange", "DESIGN = {'strategies': {}}", "other = strange:DESIGN")
    done = with_site(folder, "ask", QUESTION, "-s", "lines")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the design other of the package strange is not a mergewise.designs.Design" in done.stderr
    assert with_site(folder, "--version").returncode == 0


@pytest.mark.parametrize(
    ("part", "name"), [("strategies", "weave"), ("modes", "extractive"), ("views", "leaf"), ("strategies", "lines")]
)
def test_a_name_that_is_taken_is_refused(folder: Path, part: str, name: str) -> None:
    module = f"import mergewise as mw\nDESIGN = mw.designs.Design({part}={{{name!r}: None}})"
    install(folder / "site", "same", module, "other = same:DESIGN")
    done = with_site(folder, "ask", QUESTION, "-s", "lines")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"duplicate name {name!r} in the design other of the package same" in done.stderr
    assert "uninstall" in done.stderr
