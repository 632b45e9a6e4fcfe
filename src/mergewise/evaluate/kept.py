"""Answers kept on disk while they are made: a file of JSON lines for everything that an answer depends on but its question.

The first line says what that is, each further line is an answer. A line is written in one go and brought to the disk; one that
was cut off by a kill is dropped when the file is opened again, so that at most the questions under way are asked anew.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from mergewise.errors import UsageError
from mergewise.evaluate.judged import FoundText, JudgedContext, LostStage, LostText
from mergewise.evaluate.tasks import Question
from mergewise.files import regular_bytes
from mergewise.ranges import short_repr

T = TypeVar("T")
_LATER = {"sure", "context_found", "context_lost", "context_ranked"}
"""What older versions did not keep."""
_LONGEST = 1 << 31
"""Bytes of the answers of one run."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """One answer of a method, and its costs.

    `seconds` are those of the whole, `answer_seconds` those after the context stood; of `together` answers that were made in one
    batch, their share. `prediction` is the answer without marks. `sure` is None where an older version kept it. `context_*` are
    those of its `JudgedContext`. `weights` are those of its streams.
    """

    prediction: str
    found: bool
    input_tokens: int
    output_tokens: int
    calls: int
    seconds: float
    answer_seconds: float
    together: int
    context_tokens: int
    context_answer: float | None
    context_evidence: float | None
    context_all: float | None
    context_density: float | None
    weights: Mapping[str, float]
    sure: bool | None = None
    context_found: tuple[FoundText, ...] = ()
    context_lost: tuple[LostText, ...] = ()
    context_ranked: tuple[str, ...] = ()

    def context(self, question: Question) -> JudgedContext:
        """Of a question without an answer nothing is judged, whatever was kept."""
        scores = (self.context_answer, self.context_evidence, self.context_all, self.context_density)
        answer, evidence, whole, density = scores if question.answerable else (None,) * len(scores)
        return JudgedContext(
            answer,
            evidence,
            whole,
            density,
            self.context_tokens,
            self.context_found,
            self.context_lost,
            self.context_ranked,
        )


class AnswerFile:
    """The answers of one run, by question. Without a directory they are kept for as long as this object is."""

    def __init__(self, directory: Path | None, run: Mapping[str, Any]) -> None:
        self._known: dict[str, KeptAnswer] = {}
        self._path = None if directory is None else directory / _name(run)
        if self._path is not None:
            try:
                self._open(self._path, dict(run))
            except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
                raise UsageError(
                    f"{self._path} does not hold answers that can be gone on with: {error}",
                    "delete it, or name another folder",
                ) from None

    def __getitem__(self, question: Question) -> KeptAnswer:
        return self._known[_key(question)]

    def __contains__(self, question: Question) -> bool:
        return _key(question) in self._known

    def add(self, question: Question, answer: KeptAnswer) -> None:
        self._known[_key(question)] = answer
        if self._path is not None:
            line = {"key": _key(question), "id": question.id, "question": question.text, **asdict(answer)}
            _append(self._path, line)

    def _open(self, path: Path, run: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = regular_bytes(path, _LONGEST) if os.path.lexists(path) else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with path.open("r+b") as file:
                file.truncate(len(whole))
        lines = [json.loads(line) for line in whole.splitlines()]
        if not lines:
            _append(path, {"run": run})
            return
        if lines[0]["run"] != json.loads(json.dumps(run)):
            raise ValueError("it was made with other settings")
        for line in lines[1:]:
            self._known.setdefault(line["key"], _kept_answer(line))


def _kept_answer(line: Mapping[str, Any]) -> KeptAnswer:
    """Raises ValueError where a value is not of the type that it is written with, or no finite number."""
    values = {name: line[name] for name in KeptAnswer.__slots__ if name in line or name not in _LATER}
    hints = get_type_hints(KeptAnswer)
    texts = {name: values.pop(name, []) for name in ("context_found", "context_lost", "context_ranked")}
    _check_types(values, hints)
    if not all(_is_one_of(weight, {float}) for weight in values["weights"].values()):
        raise ValueError("a weight is no number")
    found = (_read_record(FoundText, one) for one in texts["context_found"])
    lost = (_read_record(LostText, {**one, "stage": LostStage(one["stage"])}) for one in texts["context_lost"])
    if not all(_is_one_of(one, {str}) for one in texts["context_ranked"]):
        raise ValueError("the id of a document is no text")
    ranked = tuple(texts["context_ranked"])
    return KeptAnswer(**values, context_found=tuple(found), context_lost=tuple(lost), context_ranked=ranked)


def _read_record(kind: type[T], values: Mapping[str, Any]) -> T:
    _check_types(values, get_type_hints(kind))
    return kind(**values)


def _check_types(values: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    for name, value in values.items():
        hint = hints[name]
        kinds = {get_origin(kind) or kind for kind in (get_args(hint) if isinstance(hint, UnionType) else (hint,))}
        if not _is_one_of(value, kinds):
            raise ValueError(f"{name} is {short_repr(value)}")


def _is_one_of(value: object, kinds: Collection[type]) -> bool:
    if isinstance(value, float):
        return float in kinds and math.isfinite(value)
    # 1.0 may be written as 1, and an object is a dict
    return type(value) in kinds or (type(value) is int and float in kinds) or (type(value) is dict and Mapping in kinds)


def _append(path: Path, line: Mapping[str, Any]) -> None:
    """One line, written in one go, so that a second process that does the same cannot tear it."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
        os.write(handle, json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)


def _key(question: Question) -> str:
    return _hash([question.id, question.text])


def _name(run: Mapping[str, Any]) -> str:
    """Readable, and different for different settings."""
    parts = (re.sub(r"[^\w.=-]+", "-", str(run.get(part) or "")).strip("-") for part in ("dataset", "strategy", "mode"))
    return f"{'.'.join(part[:80] for part in parts if part)}.{_hash(run)}.jsonl"


def _hash(value: object) -> str:
    return blake2b(json.dumps(value, sort_keys=True).encode("utf-8", "replace"), digest_size=6).hexdigest()
