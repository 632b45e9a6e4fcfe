"""Batches of questions from standard input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests import command

import mergewise
from mergewise.cli.batch import QuestionLine, questions
from mergewise.types import Document

LINES = b"""How long do cats sleep?

{"id": "x7", "question": "What do cats eat?", "answer": "fish"}
{"question": 3}
{"question": "What
\xff\xfe
What do dogs eat?
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    index = mergewise.open(folder / "mergewise.index", embedder="none")
    index.add(
        Document(id="cats.md", text="# Cats\n\nCats eat fish.\n\nCats sleep sixteen hours a day.\n", metadata={"n": 1})
    )
    index.add(Document(id="dogs.md", text="Dogs eat meat.\n", metadata={"n": 2}))
    return folder


def run(cwd: Path, given: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    return command.run([*words, "--budget", "60"], cwd, input=given)


def test_lines_are_questions_or_objects() -> None:
    found = list(questions(LINES.splitlines()))
    assert found[0] == QuestionLine(1, "How long do cats sleep?")
    assert found[1] == QuestionLine(3, "What do cats eat?", "x7")
    assert [entry.line for entry in found if entry.error] == [4, 5, 6]
    assert found[-1] == QuestionLine(7, "What do dogs eat?")
    assert list(questions([b"\xef\xbb\xbfCaf\xc3\xa9?\r\n", b"  \n"])) == [QuestionLine(1, "Café?")]
    assert list(questions([b'{"question": "q", "where": "n = 2"}'])) == [QuestionLine(1, "q", None, "n = 2")]
    assert next(questions([b'{"question": "q", "where": 2}'])).error is not None


def test_one_bad_line_does_not_stop_the_others(home: Path) -> None:
    done = run(home, LINES, "ask", "-", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["line"] for row in rows] == [1, 3, 4, 5, 6, 7]
    assert [row["line"] for row in rows if "error" in row] == [4, 5, 6]
    assert rows[1]["id"] == "x7" and rows[1]["citations"][0]["line"] == 3
    assert "fish" in rows[1]["answer"] and "meat" in rows[-1]["answer"]
    assert done.returncode == 1 and done.stderr.count(b"invalid question") == 3


def test_answers_for_people_name_their_questions(home: Path) -> None:
    done = run(home, b"How long do cats sleep?\nWhat do dogs eat?\n", "ask", "-")
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert text.index("? How long") < text.index("sixteen hours") < text.index("? What do dogs") < text.index("meat")


def test_contexts_of_many_questions_with_their_conditions(home: Path) -> None:
    given = b'{"question": "Who eats?", "where": "n = 2"}\n{"question": "Who eats?", "where": "nope ="}\nWho eats?\n'
    done = run(home, given, "context", "-", "--json")
    first, second, third = (json.loads(line) for line in done.stdout.splitlines())
    assert {span["doc"] for p in first["passages"] for span in p["spans"]} == {"dogs.md"}
    assert "invalid condition" in second["error"] and second["question"] == "Who eats?"
    assert {span["doc"] for p in third["passages"] for span in p["spans"]} == {"cats.md", "dogs.md"}
    assert done.returncode == 1


def test_empty_standard_input_is_wrong_usage(home: Path) -> None:
    done = run(home, b"\n \n", "ask", "-")
    assert done.returncode == 2 and b"no question on standard input" in done.stderr


@pytest.mark.parametrize("command", ["ask", "context"])
def test_nothing_found_exits_with_1(home: Path, command: str) -> None:
    words = (command, "xylophone zebra?", "--where", "n = 3")
    assert run(home, b"", *words).returncode == 1
    done = run(home, b"", *words, "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["question"] == "xylophone zebra?"
    assert run(home, b"xylophone zebra?\n", command, "-", "--where", "n = 3").returncode == 1
    assert run(home, b"xylophone zebra?\nWhat do cats eat?\n", command, "-").returncode == 0
