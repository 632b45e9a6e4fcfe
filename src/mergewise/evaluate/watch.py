"""Callbacks of a running experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from mergewise import Estimate, Progress

if TYPE_CHECKING:
    from mergewise.evaluate.question_sets import Question, QuestionSet
    from mergewise.evaluate.runs.run_folder import Run


class ExperimentWatch:
    """Callbacks that do nothing. A terminal and a job of the server have their own."""

    def progress(self, title: str, in_characters: bool = False) -> AbstractContextManager[Progress]:
        """Return a context manager that yields a progress callback. Its amounts are rows, or characters of documents."""
        return nullcontext(lambda done, total, item: None)

    def warn(self, text: str) -> None:
        """Report a problem that does not stop the experiment."""

    def begin_set(self, task: QuestionSet, asked: Sequence[Question]) -> None:
        """Report the set whose questions are asked next."""

    def view_costs(self, costs: Iterator[tuple[list[str], Estimate]]) -> None:
        """Report the views that a chat model writes next, and their costs, which are estimated only on demand."""

    def end_set(self, run: Run) -> None:
        """Report the rows of a set. A killed experiment loses only the current set."""


SILENT = ExperimentWatch()
