"""The lab in Python: evaluate strategies, load question sets, make questions, tune parameters and weights, and open runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.extend import lazy_names

if TYPE_CHECKING:
    from mergewise.evaluate.experiment import evaluate as evaluate
    from mergewise.evaluate.loaders import load_question_set as load_question_set
    from mergewise.evaluate.methods import Method as Method
    from mergewise.evaluate.runs.run_folder import open_run as open_run
    from mergewise.evaluate.synthetic import make_questions as make_questions
    from mergewise.evaluate.synthetic import write_questions as write_questions
    from mergewise.evaluate.tuning import fit_weights as fit_weights
    from mergewise.evaluate.tuning import tune as tune

__all__ = [
    "Method",
    "evaluate",
    "fit_weights",
    "load_question_set",
    "make_questions",
    "open_run",
    "tune",
    "write_questions",
]
__getattr__ = lazy_names(
    __name__,
    {
        "experiment": "evaluate",
        "loaders": "load_question_set",
        "methods": "Method",
        "runs.run_folder": "open_run",
        "synthetic": "make_questions write_questions",
        "tuning": "fit_weights tune",
    },
)
