"""Answers on disk: gone on with after a kill, and never mixed with those of other settings."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from mergewise.errors import UsageError
from mergewise.evaluate.judged import FoundText, LostStage, LostText
from mergewise.evaluate.kept import AnswerFile, KeptAnswer
from mergewise.evaluate.tasks import Question

RUN = {"dataset": "hotpot", "strategy": "aed(k=10, m=2)", "mode": "r&b", "budget": 800, "model": None}


def question(number: int, text: str = "") -> Question:
    return Question(f"q{number}", text or f"What is {number}?", ("it",), None)


def answer(prediction: str = "Delft") -> KeptAnswer:
    return KeptAnswer(prediction, True, 9, 3, 1, 0.5, 0.25, 1, 80, 1.0, None, None, 0.1, {"passages": 0.75})


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_what_was_answered_is_known_to_the_next_run(tmp_path: Path) -> None:
    first = AnswerFile(tmp_path / "new" / "folder", RUN)
    assert question(1) not in first
    first.add(question(1), answer())
    assert first[question(1)] == answer()
    second = AnswerFile(tmp_path / "new" / "folder", RUN)
    assert question(1) in second and question(2) not in second
    assert second[question(1)] == answer()


def test_without_a_folder_answers_are_known_while_the_object_lives() -> None:
    answers = AnswerFile(None, RUN)
    answers.add(question(1), answer())
    assert answers[question(1)] == answer()
    assert question(1) not in AnswerFile(None, RUN)


def test_a_question_is_known_by_its_id_and_its_text(tmp_path: Path) -> None:
    answers = AnswerFile(tmp_path, RUN)
    answers.add(question(1), answer())
    assert question(1, "Another text?") not in answers
    assert Question("q2", question(1).text, (), None) not in answers


def test_the_file_is_named_readably_and_says_what_it_was_made_with(tmp_path: Path) -> None:
    AnswerFile(tmp_path, RUN)
    path = only_file(tmp_path)
    assert path.name.startswith("hotpot.aed-k=10-m=2.r-b.")
    assert path.suffix == ".jsonl"
    assert json.loads(path.read_text()) == {"run": RUN}


def test_other_settings_have_another_file(tmp_path: Path) -> None:
    AnswerFile(tmp_path, RUN).add(question(1), answer())
    assert question(1) not in AnswerFile(tmp_path, {**RUN, "budget": 801})
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("left", [1, 20, -1])
def test_a_line_that_a_kill_cut_off_is_dropped_and_the_file_goes_on(tmp_path: Path, left: int) -> None:
    answers = AnswerFile(tmp_path, RUN)
    for number in (1, 2):
        answers.add(question(number), answer())
    path = only_file(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:left])
    again = AnswerFile(tmp_path, RUN)
    assert question(1) in again and question(2) not in again
    again.add(question(3), answer("Leiden"))
    third = AnswerFile(tmp_path, RUN)
    assert third[question(3)].prediction == "Leiden"
    assert question(2) not in third


def test_a_file_that_was_cut_off_in_its_first_line_begins_anew(tmp_path: Path) -> None:
    AnswerFile(tmp_path, RUN)
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes()[:10])
    AnswerFile(tmp_path, RUN).add(question(1), answer())
    assert question(1) in AnswerFile(tmp_path, RUN)


def test_of_two_answers_to_a_question_the_first_stays(tmp_path: Path) -> None:
    one, other = AnswerFile(tmp_path, RUN), AnswerFile(tmp_path, RUN)
    one.add(question(1), answer("first"))
    other.add(question(1), answer("second"))
    assert AnswerFile(tmp_path, RUN)[question(1)].prediction == "first"


@pytest.mark.parametrize(
    "content",
    [
        '{"run": {"other": 1}}\n',
        '{"no run": 1}\n',
        "[]\n",
        "no JSON\n",
        "7\n",
        f'{{"run": {json.dumps(RUN)}}}\n{{"key": "k"}}\n',
        f'{{"run": {json.dumps(RUN)}}}\n\xff\n',
    ],
)
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, content: str) -> None:
    AnswerFile(tmp_path, RUN)
    path = only_file(tmp_path)
    path.write_text(content, encoding="latin-1")
    with pytest.raises(UsageError, match="does not hold answers that can be gone on with"):
        AnswerFile(tmp_path, RUN)
    assert path.read_text(encoding="latin-1") == content


def test_half_a_surrogate_pair_in_an_answer_is_written_all_the_same(tmp_path: Path) -> None:
    answers = AnswerFile(tmp_path, RUN)
    answers.add(question(1, "What is \ud800?"), answer("it is \ud800"))
    again = AnswerFile(tmp_path, RUN)
    assert again[question(1, "What is \ud800?")].prediction == "it is ?"


@pytest.mark.parametrize(
    "poison",
    [
        {"prediction": 5},
        {"found": 1},
        {"input_tokens": "9"},
        {"seconds": float("nan")},
        {"context_answer": float("inf")},
        {"weights": ["passages"]},
        {"weights": {"passages": "much"}},
        {"context_all": []},
        {"calls": True},
    ],
)
def test_answers_that_others_wrote_have_the_form_of_ours(poison: dict[str, object], tmp_path: Path) -> None:
    AnswerFile(tmp_path, RUN).add(question(1), answer())
    path = only_file(tmp_path)
    first, line = path.read_text().splitlines()
    path.write_text(f"{first}\n{json.dumps({**json.loads(line), **poison})}\n")
    with pytest.raises(UsageError, match=f"{next(iter(poison)).rstrip('s')}.*is"):
        AnswerFile(tmp_path, RUN)


def test_whole_numbers_are_fractions_too(tmp_path: Path) -> None:
    AnswerFile(tmp_path, RUN).add(question(1), answer())
    path = only_file(tmp_path)
    path.write_text(path.read_text().replace('"seconds": 0.5', '"seconds": 1'))
    assert AnswerFile(tmp_path, RUN)[question(1)].seconds == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in the file system")
@pytest.mark.parametrize("kind", ["link", "pipe", "nested"])
def test_answers_are_in_plain_files(kind: str, tmp_path: Path) -> None:
    """A link would have a file elsewhere cut off and written to; a pipe would be waited for."""
    AnswerFile(tmp_path / "answers", RUN)
    path = only_file(tmp_path / "answers")
    path.unlink()
    (tmp_path / "victim").write_text("a line\nand half of one")
    if kind == "link":
        path.symlink_to(tmp_path / "victim")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("[" * 100_000 + "\n")
    with pytest.raises(UsageError, match="answers that can be gone on with"):
        AnswerFile(tmp_path / "answers", RUN)
    assert (tmp_path / "victim").read_text() == "a line\nand half of one"


def test_what_the_context_held_instead_is_kept_too(tmp_path: Path) -> None:
    found, lost = FoundText("a.md", 7, None, "first words"), LostText("gold", LostStage.SKIP)
    whole = replace(answer(), sure=True, context_found=(found,), context_lost=(lost,))
    AnswerFile(tmp_path, RUN).add(question(1), whole)
    assert AnswerFile(tmp_path, RUN)[question(1)] == whole
    context = whole.context(question(1))
    assert (context.answer, context.tokens, context.found, context.lost) == (1.0, 80, (found,), (lost,))
    # an older version kept scores of questions that have no answer
    assert whole.context(Question("q1", "?", (), None)).answer is None


def test_what_an_older_version_kept_is_gone_on_with(tmp_path: Path) -> None:
    AnswerFile(tmp_path, RUN).add(question(1), answer())
    path = only_file(tmp_path)
    run, line = path.read_text().splitlines()
    old = {
        name: value for name, value in json.loads(line).items() if name not in ("sure", "context_found", "context_lost")
    }
    path.write_text(f"{run}\n{json.dumps(old)}\n")
    kept = AnswerFile(tmp_path, RUN)[question(1)]
    assert kept == answer() and kept.sure is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"sure": "yes"},
        {"context_found": 5},
        {"context_found": [{"doc": "a"}]},
        {"context_found": [{"doc": "a", "line": "7", "page": None, "text": "x"}]},
        {"context_lost": [{"text": "gold", "stage": "elsewhere"}]},
        {"context_lost": [{"text": 5, "stage": "held in part"}]},
        {"context_lost": ["gold"]},
    ],
)
def test_what_no_version_keeps_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    AnswerFile(tmp_path, RUN).add(question(1), answer())
    path = only_file(tmp_path)
    run, line = path.read_text().splitlines()
    path.write_text(f"{run}\n{json.dumps({**json.loads(line), **wrong})}\n")
    with pytest.raises(UsageError, match="does not hold answers"):
        AnswerFile(tmp_path, RUN)
