"""Question sets in the forms that they are published in: which form a file or folder has, and how it is read.

A row that cannot be read is left out, and named in `QuestionSet.skipped` by its file, line and reason. Where reading is strict it
is an error. Evidence is marked where a set names sentences that stand in its documents. Where it names documents alone, those are
`gold_docs`, and the evidence is not judged.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Mapping
from pathlib import Path

from mergewise.errors import UsageError
from mergewise.evaluate.loaders import (
    beir,
    bench,
    dpr,
    flashrag,
    hipporag,
    hotpotqa,
    longbench,
    musique,
    qasper,
    squad,
    table,
)
from mergewise.evaluate.loaders.rows import Loader, SetReader, sample_of
from mergewise.evaluate.question_sets import QuestionSet

LOADERS: Mapping[str, Loader] = {
    "bench": bench.LOADER,
    "beir": beir.LOADER,
    "hipporag": hipporag.LOADER,
    "hotpotqa": hotpotqa.LOADER,
    "musique": musique.LOADER,
    "longbench": longbench.LOADER,
    # its files look like those of SQuAD, too
    "qasper": qasper.LOADER,
    "squad": squad.LOADER,
    "flashrag": flashrag.LOADER,
    "dpr": dpr.LOADER,
    "table": table.LOADER,
}
"""By name, in the order in which they are tried: what many files look like comes last."""

UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error)


def load_question_set(path: Path, form: str | None = None, is_strict: bool = False) -> QuestionSet:
    """The question set of a file or folder, in the form of this name, or in the one that it looks like.

    Raises UsageError where there is no such form, the set has another one, or holds no question; where `is_strict`, also for the
    first row that cannot be read.
    """
    if not path.exists():
        raise UsageError(f"there is no question set at {path}", "check the path")
    try:
        name = form or form_of(path)
        if name is None:
            raise UsageError(
                f"{path} is no question set of a known form", f"name one with --format: {', '.join(LOADERS)}"
            )
        if name not in LOADERS:
            raise UsageError(f"there is no form {name!r} of question sets", f"one of: {', '.join(LOADERS)}")
        return LOADERS[name].load(path, SetReader(is_strict))
    except UNREADABLE as error:
        raise UsageError(
            f"{path} cannot be read as a question set: {error}", "see docs/guide.md, Public question sets"
        ) from None


def form_of(path: Path) -> str | None:
    """The name of the form that a file or folder looks like. Raises what `UNREADABLE` names."""
    sample = sample_of(path)
    return next((name for name, loader in LOADERS.items() if loader.sniff(sample)), None)


def find_tasks(path: Path, form: str | None = None) -> list[Path]:
    """`path` itself where it is a question set, or a form is named; else the sets in that folder, by name.

    Tables in a folder are none: files with results have the same columns.
    """
    if form is not None or path.is_file() or _is_task(path):
        return [path]
    try:
        children = sorted(path.iterdir())
    except OSError:
        children = []
    found = [child for child in children if not child.name.startswith(".") and _is_task(child)]
    if not found:
        raise UsageError(
            f"no question set in {path}", "it needs corpus.jsonl.gz and questions.jsonl.gz, or a public form"
        )
    return found


def _is_task(path: Path) -> bool:
    try:
        return (path.is_dir() or path.is_file()) and form_of(path) not in (None, "table")
    except UNREADABLE:
        return False
