"""`eval` as a person types it: questions without an answer, what was missed, files, and lines of 80 columns."""

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
    """A folder with an index and questions, of which one has no answer and one asks for what no document says."""
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
        assert "3 questions are few" in out and "Differences to topk" in out
        # each figure with its interval
        assert table[4].split()[:2] == ["topk", "0.000*" if "--answers" in more else "0.500*"] and "–" in table[5]


def test_questions_without_an_answer_are_asked_whether_they_are_refused(folder: Path) -> None:
    out = run("-s", "topk", "-b", "60", "--answers", "--json", "rows.json")
    (row,) = json.loads((folder / "rows.json").read_text())
    assert (row["questions"], row["unanswerable"], row["refused"], row["sure"]) == (3, 1, 1.0, 0.0)
    assert row["relaxed_em"] == 0.5 and "refused" in out
    assert row["refused_interval"] == [pytest.approx(0.2065, abs=1e-4), 1.0]


def test_a_set_of_such_questions_alone_works(folder: Path) -> None:
    (folder / "q.csv").write_text("question,answer\nWho sells cats?,\nWho paints dogs?,\n")
    out = run("-s", "topk", "-b", "60", "--json", "rows.json")
    (row,) = json.loads((folder / "rows.json").read_text())
    assert (row["answer"], row["evidence"], row["density"]) == (None, None, None)
    assert "2 questions without an answer: --answers tells" in " ".join(out.split())
    out = run(
        "-s", "topk,weave", "-b", "60", "--answers", "--json", "rows.json", "--show-missed", "--html", "page.html"
    )
    row, _ = json.loads((folder / "rows.json").read_text())
    assert (row["em"], row["withheld"], row["unanswerable"]) == (None, None, 2) and 0 <= row["refused"] <= 1


def test_what_was_missed_is_told_with_what_was_found_instead(folder: Path) -> None:
    out = run("-s", "topk,weave", "-b", "60,120", "--show-missed")
    assert "Missed in q: 1 of 3 questions" in out
    told = out[out.index("[3] What do cats eat?") :]
    assert "gold: meat" in told and "topk at 60, 120: missed (in no document of the index, word for word)" in told
    assert "cats.md:3 “" in told and "weave at 60, 120: missed" in told
    assert "No document holds an answer of 1 question word for word" in " ".join(out.split())


def test_what_was_missed_is_told_of_some(folder: Path) -> None:
    lines = "".join(f"What do cats eat {n}?,meat{n}\n" for n in range(MISSED + 5))
    (folder / "q.csv").write_text(f"question,answer\n{lines}")
    out = run("-s", "topk", "-b", "60", "--show-missed")
    assert out.count("gold: meat") == MISSED and "and 5 more: --report FILE or --json FILE lists all" in out


def test_every_question_has_a_row_beside_the_file_that_is_written(folder: Path) -> None:
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


def test_the_means_as_a_table_have_their_intervals_in_columns_of_their_own(folder: Path) -> None:
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
def test_a_file_that_cannot_be_written_is_told_before_anything_is_asked(folder: Path, option: str) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        run("-s", "topk", "-b", "60", option, "nowhere/rows.x")


def test_a_file_that_stands_is_not_lost_where_the_run_fails(folder: Path) -> None:
    (folder / "rows.json").write_text("kept")
    with pytest.raises(UsageError, match="strategy"):
        run("-s", "nothing", "-b", "60", "--json", "rows.json")
    with pytest.raises(UsageError, match=r"no index at mergewise\.index"):
        CliRunner().invoke(app, ["eval", "q.csv", "--json", "rows.json"], catch_exceptions=False)
    assert (folder / "rows.json").read_text() == "kept" and not (folder / "mergewise.index").exists()
    assert not list(folder.glob("rows.questions.*"))


def test_each_set_is_written_before_the_next_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        saved_task(tmp_path / "sets" / name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sets" / "b" / "questions.jsonl.gz").write_bytes(b"no set")
    with pytest.raises(UsageError, match="has no questions"):
        CliRunner().invoke(
            app, ["eval", "sets", "-e", "none", "-s", "topk", "-b", "60", "--json", "rows.json"], catch_exceptions=False
        )
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert row["dataset"] == "a" and len((tmp_path / "rows.questions.jsonl").read_text().splitlines()) == 4
