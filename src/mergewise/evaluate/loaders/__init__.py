"""Loaders of published question sets: recognise the form of a file or folder, and read it.

An invalid row is left out and listed in `QuestionSet.skipped` with its file, line and reason. In strict reading it is an error.
If a set marks sentences of its documents, these are the evidence. If it marks only documents, these are `gold_docs`,
and evidence is not judged.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from mergewise.errors import UsageError, check_known
from mergewise.evaluate.loaders.articles import load_qasper, load_squad
from mergewise.evaluate.loaders.corpora import (
    corpus_of,
    has_lines,
    is_pairs,
    load_beir,
    load_bench,
    load_hipporag,
    load_pairs,
)
from mergewise.evaluate.loaders.paragraphs import (
    dpr_question,
    flashrag_question,
    hotpotqa_question,
    load_musique,
    longbench_question,
)
from mergewise.evaluate.loaders.rows import Sample, SetReader, bare_name, pool_loader, sample_of
from mergewise.evaluate.loaders.table import is_table, load_table
from mergewise.evaluate.question_sets import QuestionSet


def _has_fields(*names: str) -> Callable[[Sample], bool]:
    """Return a test for files whose first record has these fields."""
    return lambda sample: set(names) <= sample.record.keys()


def _holds(*names: str) -> Callable[[Sample], bool]:
    """Return a test for files that begin with an object and name these fields in their head."""
    return lambda sample: sample.head.lstrip().startswith("{") and all(f'"{name}"' in sample.head for name in names)


def _is_dpr(sample: Sample) -> bool:
    if sample.record:
        return "question" in sample.record and bool({"ctxs", "positive_ctxs"} & sample.record.keys())
    return sample.path.is_file() and is_pairs(sample.path)


LOADERS: Mapping[str, tuple[Callable[[Sample], bool], Callable[[Path, SetReader], QuestionSet]]] = {
    "bench": (lambda sample: has_lines(sample, "corpus", "questions"), load_bench),
    "beir": (lambda sample: "qrels" in sample.names and has_lines(sample, "queries"), load_beir),
    "hipporag": (lambda sample: "question" in sample.record and corpus_of(sample.path).is_file(), load_hipporag),
    "hotpotqa": (_has_fields("question", "context", "supporting_facts"), pool_loader(hotpotqa_question)),
    "musique": (_has_fields("question", "paragraphs"), load_musique),
    "longbench": (_has_fields("input", "context", "answers"), pool_loader(longbench_question)),
    # before SQuAD, because its files also hold the fields of SQuAD
    "qasper": (_holds("full_text", "section_name"), load_qasper),
    "squad": (_holds("paragraphs", "qas"), load_squad),
    "flashrag": (_has_fields("question", "golden_answers"), pool_loader(flashrag_question)),
    "dpr": (_is_dpr, lambda path, reader: (load_pairs if is_pairs(path) else pool_loader(dpr_question))(path, reader)),
    "table": (is_table, load_table),
}
"""A test and a loader for each form. Tests run in this order, so general forms come last."""

UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error)


def load_question_set(path: Path, form: str | None = None, is_strict: bool = False) -> QuestionSet:
    """Load a question set from a file or folder.

    Args:
        path: the file or folder.
        form: the name of the form, one of `LOADERS`. By default the form is recognised.
        is_strict: raise an error for the first invalid row, instead of leaving it out.

    Returns:
        The question set. `skipped` lists the rows that were left out.

    Raises:
        UsageError: if the path is missing, the form is unknown or does not fit, or no question could be read.
    """
    if not path.exists():
        raise UsageError(f"question set not found: {path}", "check the path")
    try:
        name = form or form_of(path)
        if name is None:
            raise UsageError(
                f"unknown form of question set: {path}",
                f"name the form with the setting set-format: {', '.join(LOADERS)}",
            )
        check_known("form of question sets", name, LOADERS)
        _, load = LOADERS[name]
        task = load(path, SetReader(is_strict))
        return replace(task, name=set_name(path, name))
    except UNREADABLE as error:
        raise UsageError(
            f"cannot read question set {path}: {error}", "see docs/evaluation/method.md, Files of questions"
        ) from None


_OWN_FORMS = ("bench", "beir", "table")
_PUBLIC = {
    "hotpot": "hotpotqa",
    "2wiki": "2wiki",
    "musique": "musique",
    "nq": "nq",
    "trivia": "triviaqa",
    "webq": "webq",
    "narrativeqa": "narrativeqa",
    "qasper": "qasper",
}
"""Beginnings of the names of public files and folders, and the names of their sets in the papers' tables."""


def set_name(path: Path, form: str | None) -> str:
    """Return the name of the set at a path: that of the papers' tables for a public file or folder (nq/test.jsonl)."""
    name = path.resolve().name if path.is_dir() else bare_name(path)
    if form in _OWN_FORMS:
        return name
    own = name.lower().removeprefix("biencoder-")
    if form == "longbench":
        return own if own.startswith("longbench-") else f"longbench-{own.removesuffix('_e')}"
    whole = path.resolve().parent.name.lower() if own in ("train", "dev", "test") else own
    return next((one for start, one in _PUBLIC.items() if re.match(rf"{start}(?![a-z]*-long)", whole)), name)


def form_of(path: Path) -> str | None:
    """Recognise the form of a file or folder, or return None. Raises the errors in `UNREADABLE`."""
    sample = sample_of(path)
    return next((name for name, (has_form, _) in LOADERS.items() if has_form(sample)), None)


def find_tasks(path: Path, form: str | None = None) -> list[Path]:
    """Find the question sets at a path: the path itself if it is a set or a form is given, else the sets in that folder.

    Tables in a folder do not count as sets, because files of results have the same columns.

    Raises:
        UsageError: if the folder holds no question set.
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
            f"no question set in {path}", "add corpus.jsonl.gz and questions.jsonl.gz, or a set in a public form"
        )
    return found


def _is_task(path: Path) -> bool:
    try:
        return (path.is_dir() or path.is_file()) and form_of(path) not in (None, "table")
    except UNREADABLE:
        return False
