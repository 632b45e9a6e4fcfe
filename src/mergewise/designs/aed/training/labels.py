"""Labels: what each candidate of a question is worth to the reader, its CPPL (Eq. 2 and 3), kept as it comes.

A folder has a folder for each kind of candidate, and in it a Parquet file for each question, put in its place by a rename, and a
manifest of the parameters that they were made with. A kill loses what was being measured: one question's candidates, or one
batch of generated passages. Labels of other parameters are not mixed with those that stand: they are refused.

A candidate that is longer than the reader's window is labelled by its beginning, and says so. A question of whose candidates one
has no room at all is left out: it has no file, and is tried again the next time.

With `solved`, what the reader answers from the best candidate is kept beside the labels: GainRAG's public code learns from those
questions alone whose best candidate leads the reader to an answer that contains a gold one. AED-RAG's appendix C speaks of
"solvable instances", too, where it filters by a threshold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import tee, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs.aed.ensemble import prompts
from mergewise.designs.aed.training.candidates import (
    KINDS,
    Example,
    Kind,
    LabelSource,
    TrainCandidate,
    asked_of,
    beginning_that_fits,
    generated_candidate,
    passages_of,
    triplets_of,
)
from mergewise.errors import UsageError
from mergewise.index.executors import INLINE, Executor
from mergewise.models.cppl import ALPHA, cppl
from mergewise.models.decoding import StreamPrompts, decode
from mergewise.ranges import CheckedFields, Range
from mergewise.types import Message, Span

if TYPE_CHECKING:
    from mergewise.protocols import CausalModel, IndexReader

FORMAT = 2
MANIFEST = "_manifest.json"  # the underline keeps it out of what readers of folders take for data
SUFFIX = ".parquet"
TOGETHER = 8  # passages that the model writes in one batch
SOLVED = "solved"
ANSWER_TOKENS = 32  # of what the reader answers from the best candidate

OnProgress = Callable[[int, int, str], None]
"""Called with the questions done, all questions, and the one at hand."""

Solves = Callable[[str, Sequence[str]], bool]
"""Whether an answer is one of the gold answers, or contains one."""


@dataclass(frozen=True, slots=True)
class LabelSettings(CheckedFields):
    passages: Annotated[int, Range(1, 100), "passages retrieved for a question"] = 20
    triplets: Annotated[int, Range(0, 100), "triplet sets, those of the first passages; 0 for none"] = 20
    generated: Annotated[bool, "whether a passage that the reader writes itself is a candidate"] = True
    longest: Annotated[int, Range(1, 10_000), "tokens of a section up to which it is one passage"] = PASSAGE_TOKENS
    alpha: Annotated[float, Range(0, 100), "how much of what the question alone makes likely is taken off"] = ALPHA
    solved: Annotated[bool, "whether it is kept what the reader answers from the best candidate"] = False

    def kinds(self) -> list[Kind]:
        wanted = {"passages": True, "triplets": self.triplets > 0, "generated": self.generated}
        return [kind for kind in KINDS if wanted[kind]]

    def of(self, kind: Kind) -> dict[str, Any]:
        """The parameters on which the labels of this kind depend."""
        if kind == "generated":
            return {"alpha": self.alpha}
        return {"alpha": self.alpha, "count": asdict(self)[kind], "longest": self.longest}


@dataclass(frozen=True, slots=True)
class Label:
    """A candidate with its CPPL, at least 1: lower is better."""

    candidate: TrainCandidate
    cppl: float


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """`alone` is the CPPL of no context: the perplexity of the answer, given nothing but the question.

    `solved` says whether the reader answers rightly from the best candidate; None where that was not asked.
    """

    example: Example
    candidates: tuple[Label, ...]
    alone: float
    solved: bool | None = None


@dataclass(slots=True)
class LabelCounts:
    """What a call of `label` did: questions measured, candidates labelled by their beginning, questions without room."""

    questions: int = 0
    cut: int = 0
    left_out: int = 0


class LabelStore:
    """The labels in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def begin(self, kind: Kind, parameters: Mapping[str, Any], facts: Mapping[str, Mapping[str, Any]]) -> None:
        """Note what the labels of this kind are made with: `facts` of each set. UsageError where others stand."""
        path = self.folder / kind / MANIFEST
        own = {"format": FORMAT, **json.loads(json.dumps(parameters))}
        sets = json.loads(json.dumps(facts))
        if path.exists():
            known = _read_manifest(path)
            standing = known.pop("sets")
            _check_same(known, own, path.parent)
            for name in sets.keys() & standing.keys():
                _check_same(standing[name], sets[name], path.parent, f" of {name or 'the index'}")
            sets = {**standing, **sets}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda part: part.write_text(json.dumps({**own, "sets": sets}, indent=1) + "\n", "utf-8"))

    def has(self, kind: Kind, example: Example) -> bool:
        return self._path(kind, example).exists()

    def write(self, kind: Kind, example: Example, labelled: Sequence[Label], alone: float | None = None) -> None:
        """All labels of a kind for a question, none of them where it has none."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = [_row(example, number, one) for number, one in enumerate(labelled)]
        table = pa.Table.from_pylist(rows, schema=_schema())
        table = table.replace_schema_metadata({"example": json.dumps(asdict(example)), "alone": json.dumps(alone)})
        write_whole(self._path(kind, example), lambda part: pq.write_table(table, part))

    def read(self, kinds: Sequence[Kind]) -> list[LabelledQuestion]:
        """The questions that have labels of all these kinds, passages first, by their keys, each with its candidates."""
        keys = [{path.stem for path in (self.folder / kind).glob(f"*{SUFFIX}")} for kind in kinds]
        found = sorted(set.intersection(*keys)) if keys else []
        if found:
            for kind in kinds:
                self.manifest(kind)
        return [self.question(key, kinds) for key in found]

    def manifest(self, kind: Kind) -> dict[str, Any]:
        return _read_manifest(self.folder / kind / MANIFEST)

    def question(self, key: str, kinds: Sequence[Kind]) -> LabelledQuestion:
        """Return one question with its candidates. UsageError if a file is damaged or missing."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            tables = [pq.read_table(self.folder / kind / f"{key}{SUFFIX}") for kind in kinds]
            question, alone = (json.loads(tables[0].schema.metadata[name]) for name in (b"example", b"alone"))
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise UsageError(f"{self.folder}, {key}: {error}", "delete the file, and label again") from None
        example = Example(question["id"], question["text"], tuple(question["answers"]), question["set"])
        rows = [row for table in tables for row in table.to_pylist()]
        return LabelledQuestion(example, tuple(map(_label_from, rows)), alone, self.is_solved(key, kinds))

    def write_solved(self, example: Example, kinds: Sequence[Kind], said: str, solved: bool) -> None:
        path = self._solved_path(key_of(example), kinds)
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"question": example.text, "said": said, "solved": solved}
        write_whole(path, lambda part: part.write_text(json.dumps(body) + "\n", "utf-8"))

    def is_solved(self, key: str, kinds: Sequence[Kind]) -> bool | None:
        """Tell if the reader answers rightly from the best candidate of these kinds; None if that was not asked."""
        path = self._solved_path(key, kinds)
        try:
            return bool(json.loads(path.read_text("utf-8"))["solved"]) if path.exists() else None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: {error}", "delete the file, and label again") from None

    def _solved_path(self, key: str, kinds: Sequence[Kind]) -> Path:
        return self.folder / ".".join((SOLVED, *kinds)) / f"{key}.json"

    def _path(self, kind: Kind, example: Example) -> Path:
        return self.folder / kind / f"{key_of(example)}{SUFFIX}"


def key_of(example: Example) -> str:
    body = json.dumps([example.set, example.text, example.answers])
    return blake2b(body.encode("utf-8", "replace"), digest_size=8).hexdigest()


def label(
    store: LabelStore,
    sources: Sequence[LabelSource],
    model: CausalModel[Any],
    settings: LabelSettings,
    progress: OnProgress | None = None,
    solves: Solves | None = None,
    executor: Executor = INLINE,
) -> LabelCounts:
    """Measure what has no label yet. The questions of the sources take turns. `solves` judges answers, where they are wanted.

    The `executor` has copies of the model measure; candidates are found, and labels written, here. Raises UsageError for a set
    without answers, an index without triplets, and labels of other parameters.
    """
    asked, kinds = list(_in_turn(sources)), settings.kinds()
    if not asked:
        raise UsageError("no question has an answer", "labels say how well answers follow: give questions with answers")
    for kind in kinds:
        made_with = {"chat": model.spec, **settings.of(kind)}
        facts = {source.examples[0].set: source.facts.get(kind, {}) for source in sources if source.examples}
        store.begin(kind, made_with, facts)

    def is_done(example: Example) -> bool:
        solved = solves is None or not settings.solved or store.is_solved(key_of(example), kinds) is not None
        return solved and all(store.has(kind, example) for kind in kinds)

    missing = [pair for pair in asked if not is_done(pair[0])]
    counts, before = LabelCounts(), len(asked) - len(missing)

    def requests() -> Iterator[_LabelRequest]:
        for first in range(0, len(missing), TOGETHER):
            batch = [pair for pair in missing[first : first + TOGETHER] if _has_room(model, pair[0])]
            counts.left_out += len(missing[first : first + TOGETHER]) - len(batch)
            yield from _requests(store, batch, settings)

    labelled = []
    asking, measuring = tee(requests())
    results = executor.map(partial(_measured_labels, model, settings), measuring)
    for request, measured in zip(asking, results, strict=True):
        for one in measured:
            if one.labels is not None:
                store.write(one.kind, one.example, one.labels, one.alone)
                counts.cut += sum(label.candidate.cut for label in one.labels)
        if request.found is None:
            continue
        (example,) = request.examples
        if not all(store.has(kind, example) for kind in kinds):
            counts.left_out += 1
            continue
        labelled.append(example)
        counts.questions += 1
        if progress is not None:
            progress(counts.questions, len(missing), f"{example.text} ({before} before)" if before else example.text)
    if settings.solved and solves is not None:
        _label_solved(store, labelled, kinds, model, solves, executor)
    return counts


@dataclass(frozen=True, slots=True)
class _LabelRequest:
    """Candidates to measure: those that were `found` for one question, by kind; or, where None were, what the reader writes
    itself about each of the questions."""

    examples: Sequence[Example]
    found: Mapping[Kind, Sequence[TrainCandidate]] | None = None


@dataclass(frozen=True, slots=True)
class _MeasuredLabels:
    """The labels of a kind; None where a candidate has no room at all."""

    example: Example
    kind: Kind
    labels: Sequence[Label] | None
    alone: float | None = None


def _requests(
    store: LabelStore, batch: Sequence[tuple[Example, IndexReader]], settings: LabelSettings
) -> Iterator[_LabelRequest]:
    """One for what the reader writes, then one for each question, which may want nothing any more."""
    unwritten = [example for example, _ in batch if settings.generated and not store.has("generated", example)]
    if unwritten:
        yield _LabelRequest(unwritten)
    for example, reader in batch:
        found: dict[Kind, Sequence[TrainCandidate]] = {}
        if not store.has("passages", example):
            found["passages"] = passages_of(example.text, reader, settings.passages, settings.longest)
        if settings.triplets and not store.has("triplets", example):
            found["triplets"] = triplets_of(example.text, reader, settings.triplets, settings.longest)
        yield _LabelRequest([example], found)


def _measured_labels(model: CausalModel[Any], settings: LabelSettings, request: _LabelRequest) -> list[_MeasuredLabels]:
    """The labels of the candidates: a pure function, which workers call."""
    if request.found is None:
        asked = [prompts.background(example.text) for example in request.examples]
        texts = _texts_by(model, asked, prompts.BACKGROUND_TOKENS)  # d_gen = G(rho(q))
        own = [(example, generated_candidate(text)) for example, text in zip(request.examples, texts, strict=True)]
        return [
            _MeasuredLabels(example, "generated", labels_of(model, example, [one] if one else [], settings.alpha))
            for example, one in own
        ]
    (example,) = request.examples
    measured = []
    for kind, candidates in request.found.items():
        alone = None
        if kind == "passages":
            question = model.prompt(asked_of(example.text, None))
            alone = float(cppl(model, question, [question], example.answers, alpha=0.0)[0])
        measured.append(_MeasuredLabels(example, kind, labels_of(model, example, candidates, settings.alpha), alone))
    return measured


def _texts_by(model: CausalModel[Any], asked: Sequence[Sequence[Message]], most: int) -> list[str]:
    """What the reader writes for each prompt, in one batch."""
    streams = [StreamPrompts((model.prompt(messages),), (1.0,)) for messages in asked]
    return [said.text for said in decode(model, streams, max_tokens=most)]


def _in_turn(sources: Sequence[LabelSource]) -> Iterator[tuple[Example, IndexReader]]:
    """The first question of each source, then the second of each ...; those without answers are left out."""
    kept = [[example for example in source.examples if any(map(str.strip, example.answers))] for source in sources]
    for turn in zip_longest(*kept):
        yield from ((example, source.reader) for example, source in zip(turn, sources, strict=True) if example)


def _has_room(model: CausalModel[Any], example: Example) -> bool:
    """Whether the question alone fits into the reader's window with its answers, and without a context."""
    answer = max(len(model.encode(answer)) for answer in example.answers)
    asked = (asked_of(example.text, None), prompts.background(example.text))
    return all(len(model.prompt(messages)) + max(answer, 1) < model.window for messages in asked)


def labels_of(
    model: CausalModel[Any], example: Example, candidates: Sequence[TrainCandidate], alpha: float
) -> list[Label] | None:
    """The candidates, as far as they fit into the model's window, with their CPPL; None where one has no room at all.

    UsageError where not even the question fits.
    """
    question = model.prompt(asked_of(example.text, None))
    room = model.window - max(len(model.encode(answer)) for answer in example.answers)

    def fits(candidate: TrainCandidate) -> bool:
        return len(model.prompt(asked_of(example.text, candidate))) <= room

    fitting = [fitted for one in candidates if (fitted := beginning_that_fits(one, fits)) is not None]
    if len(fitting) < len(candidates):
        return None
    contexts = [model.prompt(asked_of(example.text, candidate)) for candidate in fitting]
    values = cppl(model, question, contexts, example.answers, alpha=alpha)
    return [Label(candidate, float(value)) for candidate, value in zip(fitting, values, strict=True)]


def _label_solved(
    store: LabelStore,
    examples: Sequence[Example],
    kinds: Sequence[Kind],
    model: CausalModel[Any],
    solves: Solves,
    executor: Executor,
) -> None:
    """Whether the reader answers rightly from the candidate of least CPPL."""
    asked = (
        asked_of(example.text, None if best is None else best.candidate)
        for example in examples
        for best in (min(store.question(key_of(example), kinds).candidates, key=lambda one: one.cppl, default=None),)
    )
    for example, said in zip(examples, executor.map(partial(_answer_of, model), asked), strict=True):
        store.write_solved(example, kinds, said, solves(said, example.answers))


def _answer_of(model: CausalModel[Any], messages: Sequence[Message]) -> str:
    (said,) = _texts_by(model, [messages], ANSWER_TOKENS)
    return said.strip()


# -- what stands on the disk


def _schema() -> Any:
    import pyarrow as pa

    texts, places = pa.string(), pa.int64()
    asked = {"set": texts, "id": texts, "question": texts, "number": pa.int32(), "kind": texts, "title": texts}
    said = {"headings": pa.list_(texts), "text": texts, "score": pa.float64()}
    found = {"doc": texts, "start": places, "end": places, "cut": pa.bool_(), "cppl": pa.float64()}
    return pa.schema({**asked, **said, **found})


def _row(example: Example, number: int, one: Label) -> dict[str, Any]:
    candidate, span = one.candidate, one.candidate.span
    place = {} if span is None else {"doc": span.doc_id, "start": span.start, "end": span.end}
    asked = {"set": example.set, "id": example.id, "question": example.text, "number": number}
    return {**asdict(replace(candidate, span=None)), **asked, **place, "cppl": one.cppl}


def _label_from(row: Mapping[str, Any]) -> Label:
    span = None if row["doc"] is None else Span(row["doc"], row["start"], row["end"])
    candidate = TrainCandidate(
        row["kind"], row["title"], tuple(row["headings"]), row["text"], row["score"], span, row["cut"]
    )
    return Label(candidate, row["cppl"])


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that is there whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    write(part)
    part.replace(path)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text("utf-8"))
        manifest = {**known, "sets": dict(known["sets"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no manifest of labels: {error}", "name another folder for labels") from None
    if manifest.get("format") != FORMAT:
        raise UsageError(f"{path.parent} has labels of another version", "name another folder, and label again")
    return manifest


def _check_same(standing: Mapping[str, Any], own: Mapping[str, Any], folder: Path, of: str = "") -> None:
    other = sorted(name for name in standing.keys() | own.keys() if standing.get(name) != own.get(name))
    if other:
        differences = ", ".join(f"{name}{of} {standing.get(name)}, not {own.get(name)}" for name in other)
        raise UsageError(f"the labels in {folder} were made with {differences}", "name another folder for these labels")
