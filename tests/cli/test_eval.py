"""The command `eval`: unanswerable and missed questions, output files, and tables of 80 columns."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.evaluate.towns import saved_task
from typer.testing import CliRunner

import mergewise
from mergewise.cli.main import app
from mergewise.cli.reports import MISSED, WIDTH
from mergewise.errors import UsageError
from mergewise.evaluate.exports import csv_rows
from mergewise.types import Document

ASKED = "question,answer\nHow long do cats sleep?,sixteen hours\nWhat do cats eat?,meat\nWhich river flows through Vienna?,\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an index and questions. One question has no answer, and the answer of one is in no document."""
    monkeypatch.chdir(tmp_path)
    with mergewise.open(tmp_path / "mine", embedder="none") as index:
        index.add(Document("cats.md", "# Cats\n\nCats sleep sixteen hours a day. They eat fish."))
        index.add(Document("dogs.md", "# Dogs\n\nDogs bark at night, and sleep ten hours."))
    (tmp_path / "q.csv").write_text(ASKED)
    return tmp_path


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["eval", "q.csv", "-i", "mine", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_columns_are_explained_and_fit_a_terminal(folder: Path) -> None:
    for more in ((), ("--answers",), ("--show-missed",)):
        out = run("-s", "topk,weave,topk(k=5, order=score, longest=100)", "-b", "30,4096", *more)
        assert max(map(len, out.splitlines())) <= WIDTH, out
        assert out.splitlines()[0] == "q: 3 questions, 1 without an answer"
        table = out[out.index("\nq\n") :].splitlines()
        # every column of the table is explained below
        for column in table[2].split():
            assert any(line.startswith(f"{column} ") for line in out.splitlines()), column
        assert "Only 3 questions" in out and "Differences to topk" in out
        # each figure with its interval
        assert table[4].split()[:2] == ["topk", "0.500*"] and "–" in table[5]


def test_unanswerable_questions_must_be_refused(folder: Path) -> None:
    out = run("-s", "topk", "-b", "60", "--answers", "--json", "rows.json")
    (row,) = json.loads((folder / "rows.json").read_text())
    assert (row["questions"], row["unanswerable"], row["refused"], row["sure"]) == (3, 1, 1.0, 0.0)
    assert row["relaxed_em"] == 0.5 and "refused" in out
    assert row["refused_interval"] == [pytest.approx(0.2065, abs=1e-4), 1.0]


def test_a_set_of_only_unanswerable_questions_works(folder: Path) -> None:
    (folder / "q.csv").write_text("question,answer\nWho sells cats?,\nWho paints dogs?,\n")
    out = run("-s", "topk", "-b", "60", "--json", "rows.json")
    (row,) = json.loads((folder / "rows.json").read_text())
    assert (row["answer"], row["evidence"], row["density"]) == (None, None, None)
    assert "2 questions without an answer: use --answers" in " ".join(out.split())
    out = run(
        "-s", "topk,weave", "-b", "60", "--answers", "--json", "rows.json", "--show-missed", "--html", "page.html"
    )
    row, _ = json.loads((folder / "rows.json").read_text())
    assert (row["em"], row["withheld"], row["unanswerable"]) == (None, None, 2) and 0 <= row["refused"] <= 1


def test_missed_questions_are_shown_with_passages_found_instead(folder: Path) -> None:
    out = run("-s", "topk,weave", "-b", "60,120", "--show-missed")
    assert "Missed in q: 1 of 3 questions" in out
    shown = out[out.index("[3] What do cats eat?") :]
    assert "gold: meat" in shown and "topk at 60, 120: missed (in no document of the index, word for word)" in shown
    assert "cats.md:3 “" in shown and "weave at 60, 120: missed" in shown
    assert "The answers of 1 question appear in no document word for word" in " ".join(out.split())


def test_the_list_of_missed_questions_is_limited(folder: Path) -> None:
    lines = "".join(f"What do cats eat {n}?,meat{n}\n" for n in range(MISSED + 5))
    (folder / "q.csv").write_text(f"question,answer\n{lines}")
    out = run("-s", "topk", "-b", "60", "--show-missed")
    assert (
        out.count("gold: meat") == MISSED and "and 5 more: write all to a file with --report FILE or --json FILE" in out
    )


def test_every_question_has_a_row_next_to_the_output_file(folder: Path) -> None:
    for option, name in (("--json", "a.json"), ("--csv", "b.csv"), ("--md", "c.md"), ("--html", "d.html")):
        run("-s", "topk,weave", "-b", "60", option, name)
        assert (folder / name).stat().st_size
        stem = name.split(".")[0]
        lines = [json.loads(line) for line in (folder / f"{stem}.questions.jsonl").read_text().splitlines()]
        assert [(row["strategy"], row["id"], row["missed"]) for row in lines] == [
            ("topk", "2", False), ("topk", "3", True), ("topk", "4", False),
            ("weave", "2", False), ("weave", "3", True), ("weave", "4", False),
        ]  # fmt: skip
        assert lines[1]["found"][0]["doc"] == "cats.md" and lines[1]["found"][0]["line"] == 3
        assert lines[1]["lost"] == [{"text": "meat", "stage": "in no document of the index, word for word"}]
        with (folder / f"{stem}.questions.csv").open(newline="") as file:
            table = list(csv.DictReader(file))
        gold = [(row["id"], row["gold"]) for row in table][:3]
        assert gold == [("2", '["sixteen hours"]'), ("3", '["meat"]'), ("4", "[]")]


def test_the_csv_of_means_has_columns_of_intervals(folder: Path) -> None:
    run("-s", "topk,weave", "-b", "60", "--csv", "rows.csv", "--json", "rows.json")
    with (folder / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, means in zip(rows, json.loads((folder / "rows.json").read_text()), strict=True):
        assert float(row["answer"]) == means["answer"] and row["evidence"] == ""
        assert [float(row["answer_low"]), float(row["answer_high"])] == means["answer_interval"]


def test_a_table_holds_no_formula() -> None:
    values = {"question": "=1+1", "gold": ["=2"], "score": -0.5, "more": "@x"}
    made = csv_rows([values, {"question": 'a, b\n"c"', "later": "+"}])
    first, second = csv.DictReader(made.splitlines(keepends=True))
    assert first == {"question": "'=1+1", "gold": '["=2"]', "score": "-0.5", "more": "'@x", "later": ""}
    assert (second["question"], second["later"]) == ('a, b\n"c"', "'+")


def test_markdown_cannot_be_broken_by_names(folder: Path) -> None:
    (folder / "q.csv").rename(folder / "q|<b>.csv")
    done = CliRunner().invoke(app, ["eval", "q|<b>.csv", "-i", "mine", "-s", "topk,weave", "-b", "60", "--md", "r.md"])
    assert done.exit_code == 0, done.output
    text = (folder / "r.md").read_text()
    assert "### q\\|\\<b>\n" in text and "### q\\|\\<b>, 60 tokens: answer\n" in text
    tables = [[line.count("|") for line in part.splitlines()] for part in text.split("\n\n") if part.startswith("|")]
    assert all(len(set(counts)) == 1 for counts in tables) and len(tables) == 2


@pytest.mark.parametrize("option", ["--json", "--csv", "--md", "--html"])
def test_an_unwritable_file_is_reported_before_any_question(folder: Path, option: str) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        run("-s", "topk", "-b", "60", option, "nowhere/rows.x")


def test_a_failed_run_keeps_existing_files(folder: Path) -> None:
    (folder / "rows.json").write_text("kept")
    with pytest.raises(UsageError, match="strategy"):
        run("-s", "nothing", "-b", "60", "--json", "rows.json")
    with pytest.raises(UsageError, match=r"index not found: mergewise\.index"):
        CliRunner().invoke(app, ["eval", "q.csv", "--json", "rows.json"], catch_exceptions=False)
    assert (folder / "rows.json").read_text() == "kept" and not (folder / "mergewise.index").exists()
    assert not list(folder.glob("rows.questions.*"))


def test_each_set_is_written_before_the_next_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        saved_task(tmp_path / "sets" / name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sets" / "b" / "questions.jsonl.gz").write_bytes(b"no set")
    with pytest.raises(UsageError, match="no questions in "):
        CliRunner().invoke(
            app, ["eval", "sets", "-e", "none", "-s", "topk", "-b", "60", "--json", "rows.json"], catch_exceptions=False
        )
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert row["dataset"] == "a" and len((tmp_path / "rows.questions.jsonl").read_text().splitlines()) == 4
