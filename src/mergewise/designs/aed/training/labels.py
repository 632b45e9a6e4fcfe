"""Labels: what each candidate of a question is worth to the reader, its CPPL (Eq. 2 and 3), kept as it comes.

A folder has a folder for each kind of candidate, and in it a Parquet file for each question, put in its place by a rename, and a
manifest of the parameters that they were made with. A kill loses what was being measured: one question's candidates of a
kind, or one batch of generated passages. Labels of other parameters are not mixed with those that stand: they are refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from itertools import zip_longest
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
    generated_candidate,
    passages_of,
    triplets_of,
)
from mergewise.errors import UsageError
from mergewise.models.cppl import ALPHA, cppl
from mergewise.models.decoding import StreamPrompts, decode
from mergewise.ranges import Range, check_fields
from mergewise.types import Span

if TYPE_CHECKING:
    from mergewise.protocols import CausalModel, IndexReader

FORMAT = 1
MANIFEST = "_manifest.json"  # the underline keeps it out of what readers of folders take for data
SUFFIX = ".parquet"
TOGETHER = 8  # passages that the model writes in one batch

OnProgress = Callable[[int, int, str], None]
"""Called with the questions done, all questions, and the one at hand."""


@dataclass(frozen=True, slots=True)
class LabelSettings:
    passages: Annotated[int, Range(1, 100), "passages retrieved for a question"] = 20
    triplets: Annotated[int, Range(0, 100), "triplet sets, those of the first passages; 0 for none"] = 20
    generated: Annotated[bool, "whether a passage that the reader writes itself is a candidate"] = True
    longest: Annotated[int, Range(1, 10_000), "tokens of a section up to which it is one passage"] = PASSAGE_TOKENS
    alpha: Annotated[float, Range(0, 100), "how much of what the question alone makes likely is taken off"] = ALPHA

    def __post_init__(self) -> None:
        check_fields(self)

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
    """`alone` is the CPPL of no context: the perplexity of the answer, given nothing but the question."""

    example: Example
    candidates: tuple[Label, ...]
    alone: float


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
            _demand_same(known, own, path.parent)
            for name in sets.keys() & standing.keys():
                _demand_same(standing[name], sets[name], path.parent, f" of {name or 'the index'}")
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
        return [self._question(key, kinds) for key in sorted(set.intersection(*keys))] if keys else []

    def manifest(self, kind: Kind) -> dict[str, Any]:
        return _read_manifest(self.folder / kind / MANIFEST)

    def _question(self, key: str, kinds: Sequence[Kind]) -> LabelledQuestion:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            tables = [pq.read_table(self.folder / kind / f"{key}{SUFFIX}") for kind in kinds]
            told, alone = (json.loads(tables[0].schema.metadata[name]) for name in (b"example", b"alone"))
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise UsageError(f"{self.folder}, {key}: {error}", "delete the file, and label again") from None
        example = Example(told["id"], told["text"], tuple(told["answers"]), told["set"])
        rows = [row for table in tables for row in table.to_pylist()]
        return LabelledQuestion(example, tuple(map(_label_from, rows)), alone)

    def _path(self, kind: Kind, example: Example) -> Path:
        return self.folder / kind / f"{key_of(example)}{SUFFIX}"


def key_of(example: Example) -> str:
    told = json.dumps([example.set, example.text, example.answers])
    return blake2b(told.encode("utf-8", "replace"), digest_size=8).hexdigest()


def label(
    store: LabelStore,
    sources: Sequence[LabelSource],
    model: CausalModel[Any],
    settings: LabelSettings,
    progress: OnProgress | None = None,
) -> int:
    """Measure what has no label yet, and how many questions were measured. The questions of the sources take turns.

    Raises UsageError for a set without answers, an index without triplets, and labels of other parameters.
    """
    asked = list(_in_turn(sources))
    if not asked:
        raise UsageError("no question has an answer", "labels say how well answers follow: give questions with answers")
    for kind in settings.kinds():
        made_with = {"chat": model.spec, **settings.of(kind)}
        facts = {source.examples[0].set: source.facts.get(kind, {}) for source in sources if source.examples}
        store.begin(kind, made_with, facts)
    missing = [pair for pair in asked if not all(store.has(kind, pair[0]) for kind in settings.kinds())]
    done, before = 0, len(asked) - len(missing)
    for first in range(0, len(missing), TOGETHER):
        batch = missing[first : first + TOGETHER]
        if settings.generated:
            _label_generated(store, [example for example, _ in batch], model, settings)
        for example, reader in batch:
            _label_retrieved(store, example, reader, model, settings)
            done += 1
            if progress is not None:
                progress(done, len(missing), f"{example.text} ({before} before)" if before else example.text)
    return done


def _in_turn(sources: Sequence[LabelSource]) -> Iterator[tuple[Example, IndexReader]]:
    """The first question of each source, then the second of each ...; those without answers are left out."""
    kept = [[example for example in source.examples if any(map(str.strip, example.answers))] for source in sources]
    for turn in zip_longest(*kept):
        yield from ((example, source.reader) for example, source in zip(turn, sources, strict=True) if example)


def _label_generated(
    store: LabelStore, examples: Sequence[Example], model: CausalModel[Any], settings: LabelSettings
) -> None:
    """The reader's own passages, d_gen = G(rho(q)), written in one batch and measured."""
    missing = [example for example in examples if not store.has("generated", example)]
    if not missing:
        return
    asked = [StreamPrompts((model.prompt(prompts.background(example.text)),), (1.0,)) for example in missing]
    for example, said in zip(missing, decode(model, asked, max_tokens=prompts.BACKGROUND_TOKENS), strict=True):
        candidate = generated_candidate(said.text)
        store.write(
            "generated", example, labels_of(model, example, [] if candidate is None else [candidate], settings.alpha)
        )


def _label_retrieved(
    store: LabelStore, example: Example, reader: IndexReader, model: CausalModel[Any], settings: LabelSettings
) -> None:
    """D_ret and T_ret, found in the index and measured."""
    if not store.has("passages", example):
        candidates = passages_of(example.text, reader, settings.passages, settings.longest)
        question = model.prompt(asked_of(example.text, None))
        alone = float(cppl(model, question, [question], example.answers, alpha=0.0)[0])
        store.write("passages", example, labels_of(model, example, candidates, settings.alpha), alone)
    if settings.triplets and not store.has("triplets", example):
        candidates = triplets_of(example.text, reader, settings.triplets, settings.longest)
        store.write("triplets", example, labels_of(model, example, candidates, settings.alpha))


def labels_of(
    model: CausalModel[Any], example: Example, candidates: Sequence[TrainCandidate], alpha: float
) -> list[Label]:
    """The candidates that fit into the model's window, with their CPPL. UsageError where not even the question fits."""
    question = model.prompt(asked_of(example.text, None))
    contexts = [model.prompt(asked_of(example.text, candidate)) for candidate in candidates]
    room = model.window - max(len(model.encode(answer)) for answer in example.answers)
    fitting = [i for i, context in enumerate(contexts) if len(context) <= room]
    values = cppl(model, question, [contexts[i] for i in fitting], example.answers, alpha=alpha)
    return [Label(candidates[i], float(value)) for i, value in zip(fitting, values, strict=True)]


# -- what stands on the disk


def _schema() -> Any:
    import pyarrow as pa

    texts, places = pa.string(), pa.int64()
    asked = {"set": texts, "id": texts, "question": texts, "number": pa.int32(), "kind": texts, "title": texts}
    said = {"headings": pa.list_(texts), "text": texts, "score": pa.float64()}
    return pa.schema({**asked, **said, "doc": texts, "start": places, "end": places, "cppl": pa.float64()})


def _row(example: Example, number: int, one: Label) -> dict[str, Any]:
    candidate, span = one.candidate, one.candidate.span
    place = {} if span is None else {"doc": span.doc_id, "start": span.start, "end": span.end}
    asked = {"set": example.set, "id": example.id, "question": example.text, "number": number}
    return {**asdict(replace(candidate, span=None)), **asked, **place, "cppl": one.cppl}


def _label_from(row: Mapping[str, Any]) -> Label:
    span = None if row["doc"] is None else Span(row["doc"], row["start"], row["end"])
    candidate = TrainCandidate(row["kind"], row["title"], tuple(row["headings"]), row["text"], row["score"], span)
    return Label(candidate, row["cppl"])


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that is there whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    write(part)
    part.replace(path)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text("utf-8"))
        return {**known, "sets": dict(known["sets"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no manifest of labels: {error}", "name another folder for labels") from None


def _demand_same(standing: Mapping[str, Any], own: Mapping[str, Any], folder: Path, of: str = "") -> None:
    other = sorted(name for name in standing.keys() | own.keys() if standing.get(name) != own.get(name))
    if other:
        told = ", ".join(f"{name}{of} {standing.get(name)}, not {own.get(name)}" for name in other)
        raise UsageError(f"the labels in {folder} were made with {told}", "name another folder for these labels")
