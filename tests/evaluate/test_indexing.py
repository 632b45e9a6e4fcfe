"""An index for each question set of a folder."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

import mergewise
from mergewise.errors import UsageError
from mergewise.evaluate.loaders import find_tasks, load_question_set
from mergewise.evaluate.question_sets import QuestionSet
from mergewise.evaluate.run import tasks_at
from mergewise.evaluate.set_indexes import task_index
from mergewise.store.views import Progress
from mergewise.types import Document


def write_lines(path: Path, *rows: dict[str, Any] | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


def write_set(folder: Path) -> Path:
    write_lines(
        folder / "corpus.jsonl.gz",
        {"id": "d", "title": "Delft", "text": "Delft has a tower."},
        {"id": "e", "text": "E."},
    )
    evidence = [{"doc": "d", "start": 0, "end": 18, "text": "Delft has a tower."}]
    write_lines(
        folder / "questions.jsonl.gz",
        {"id": 7, "question": "What has Delft?", "answers": ["a tower"], "evidence": evidence},
    )
    return folder


def test_a_set_in_our_own_form_is_loaded(tmp_path: Path) -> None:
    task = load_question_set(write_set(tmp_path / "towns"))
    assert task.name == "towns"
    assert [(document.id, document.title) for document in task.documents] == [("d", "Delft"), ("e", "")]
    (question,) = task.questions
    assert (question.id, question.answers) == ("7", ("a tower",))
    assert question.evidence is not None
    ((span, text),) = question.evidence
    assert task.documents[0].text[span.start : span.end] == text


def test_find_tasks_returns_a_set_or_the_sets_in_a_folder_by_name(tmp_path: Path) -> None:
    names = ["b", "a"]
    for name in names:
        write_set(tmp_path / name)
    assert [path.name for path in find_tasks(tmp_path)] == ["a", "b"]
    assert find_tasks(tmp_path / "a") == [tmp_path / "a"]
    with pytest.raises(UsageError, match="no question set"):
        find_tasks(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "row", ["no JSON", "[]", {"question": "What?"}, {"id": 1, "question": "What?", "answers": [], "evidence": [{}]}]
)
def test_an_invalid_set_raises_an_error(tmp_path: Path, row: dict[str, Any] | str) -> None:
    write_lines(write_set(tmp_path) / "questions.jsonl.gz", row)
    with pytest.raises(UsageError, match=r"no questions in .*questions.jsonl.gz, line 1: "):
        load_question_set(tmp_path)
    with pytest.raises(UsageError, match=r"questions.jsonl.gz, line 1: "):
        load_question_set(tmp_path, is_strict=True)


@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-12], lambda packed: packed[:23] + b"\xff" * 8 + packed[31:]]
)
def test_a_truncated_or_damaged_set_raises_an_error(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    corpus = write_set(tmp_path) / "corpus.jsonl.gz"
    corpus.write_bytes(damage(corpus.read_bytes()))
    with pytest.raises(UsageError, match="cannot read question set"):
        load_question_set(tmp_path)


class FakeIndex:
    """A fake index that records its views and the added documents."""

    def __init__(self, path: Path, *, views: Sequence[str], progress: Progress) -> None:
        self.path, self.views = path, views
        self.added: list[str] = []

    def documents(self) -> list[Document]:
        return []

    def add(self, documents: Sequence[Document], *, progress: Progress) -> None:
        for number, document in enumerate(documents, 1):
            self.added.append(document.id)
            progress(number, len(documents), document.id)


def test_each_set_is_indexed_in_a_folder_of_its_name_before_the_next(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_set(tmp_path / "sets" / name)
    events: list[str] = []

    @contextmanager
    def progress(name: str) -> Iterator[Progress]:
        events.append(f"begin {name}")
        yield lambda done, total, item: events.append(f"{done} of {total}: {item}")
        events.append(f"end {name}")

    def indexed(task: QuestionSet) -> Any:
        place = tmp_path / "indexes" / task.name
        return task_index(task, place, cast(Any, FakeIndex), progress, views=["leaf", "slice"])

    sets = ((indexed(task), task) for task in tasks_at(tmp_path / "sets"))
    index, task = next(sets)
    assert events == ["begin Indexing a", "1 of 2: d", "2 of 2: e", "end Indexing a"]
    assert (index.path, index.views, index.added) == (tmp_path / "indexes" / "a", ["leaf", "slice"], ["d", "e"])
    assert task.name == "a"
    ((other, task),) = sets
    assert (other.path, task.name) == (tmp_path / "indexes" / "b", "b")


def test_sets_of_one_name_do_not_share_an_index(tmp_path: Path) -> None:
    """Otherwise searches would return the other set's documents, which are never gold."""
    first, second = write_set(tmp_path / "bench" / "towns"), write_set(tmp_path / "pools" / "towns")
    write_lines(second / "corpus.jsonl.gz", {"id": "f", "text": "F."})

    def open_index(folder: Path, **options: Any) -> mergewise.Index:
        return mergewise.open(folder, embedder="none")

    def index_sets(folder: Path) -> list[Any]:
        indexes, quiet = tmp_path / "indexes", cast(Any, lambda name: nullcontext(lambda *words: None))
        return [task_index(task, indexes / task.name, cast(Any, open_index), quiet) for task in tasks_at(folder)]

    assert len(index_sets(first)) == len(index_sets(first)) == 1
    with pytest.raises(UsageError, match=r"2 documents in the index at .* do not belong to towns"):
        index_sets(second)
