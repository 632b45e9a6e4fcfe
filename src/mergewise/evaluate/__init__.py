"""The lab in Python: question sets read, questions made, parameters and weights tuned, and runs opened."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mergewise.evaluate.loaders import load_question_set as load_question_set
    from mergewise.evaluate.runs.folder import open_run as open_run
    from mergewise.evaluate.synthetic import make_questions as make_questions
    from mergewise.evaluate.synthetic import write_questions as write_questions
    from mergewise.evaluate.tuning import fit_weights as fit_weights
    from mergewise.evaluate.tuning import tune as tune

_LAZY = {
    "fit_weights": "mergewise.evaluate.tuning",
    "load_question_set": "mergewise.evaluate.loaders",
    "make_questions": "mergewise.evaluate.synthetic",
    "open_run": "mergewise.evaluate.runs.folder",
    "tune": "mergewise.evaluate.tuning",
    "write_questions": "mergewise.evaluate.synthetic",
}
__all__ = ["fit_weights", "load_question_set", "make_questions", "open_run", "tune", "write_questions"]


def __getattr__(name: str) -> object:
    """The names that are imported when they are first used."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
