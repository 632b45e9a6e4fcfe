"""Labels: the CPPL of each candidate of a question for the reader (Eq. 2 and 3), saved while they are measured.

The folder has a subfolder for each kind of candidate, with a JSON file per question (written atomically) and a manifest of
parameters. A crash loses only the work in progress: the candidates of a question, or a batch of generated passages. Labels with
other parameters are rejected, so that they never mix.

A candidate longer than the reader's window is cut to its beginning, and marked as `cut`. If a candidate does not fit at all, its
question is skipped: it has no file, and the next call retries it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from itertools import tee, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from mergewise.defaults import PASSAGE_TOKENS
from mergewise.designs.aed.ensemble import prompts
from mergewise.designs.aed.training.candidates import (
    KINDS,
    Example,
    Kind,
    LabelSource,
    TrainCandidate,
    beginning_that_fits,
    generated_candidate,
    passages_of,
    reader_prompt,
    triplets_of,
)
from mergewise.errors import UsageError
from mergewise.index.executors import INLINE, Executor
from mergewise.models.cppl import ALPHA, cppl
from mergewise.models.decoding import decode_each
from mergewise.ranges import CheckedFields, Range
from mergewise.types import AnyPath, Json, JsonDict, Span, frozen

if TYPE_CHECKING:
    from mergewise.protocols import CausalModel, IndexReader

FORMAT = 3
MANIFEST = "_manifest.json"
TOGETHER = 8  # generated passages per batch
# errors of reading a damaged file
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)

OnProgress = Callable[[int, int, str], None]
"""Callback with the finished questions, the total of questions, and the current question."""


@frozen
class LabelSettings(CheckedFields):
    """Settings of labelling."""

    passages: Annotated[int, Range(1, 100), "Passages per question"] = 20
    triplets: Annotated[int, Range(0, 100), "Triplet sets of the first passages; 0 for none"] = 20
    generated: Annotated[bool, "Background by the reader as a candidate"] = True
    longest: Annotated[int, Range(1, 10_000), "Maximum size of a passage, in tokens"] = PASSAGE_TOKENS
    alpha: Annotated[float, Range(0, 100), "Weight of the contrast with the question alone"] = ALPHA

    def kinds(self) -> list[Kind]:
        """Return the kinds of candidates to label."""
        wanted = {"passages": True, "triplets": self.triplets > 0, "generated": self.generated}
        return [kind for kind in KINDS if wanted[kind]]

    def of(self, kind: Kind) -> JsonDict:
        """Return the parameters that affect the labels of this kind."""
        if kind == "generated":
            return {"alpha": self.alpha}
        return {"alpha": self.alpha, "count": asdict(self)[kind], "longest": self.longest}


@frozen
class Label:
    """A candidate with its CPPL, 1 or more. Lower is better."""

    candidate: TrainCandidate
    cppl: float


@frozen
class LabelledQuestion:
    """A question with its labelled candidates.

    `alone` is the CPPL without a context: the perplexity of the answer given only the question.
    """

    example: Example
    candidates: tuple[Label, ...]
    alone: float


@dataclass(slots=True)
class LabelCounts:
    """Counts of a call of `label`: questions labelled, candidates cut, and questions skipped because a candidate does not fit."""

    questions: int = 0
    cut: int = 0
    left_out: int = 0


class LabelStore:
    """Store of labels in a folder."""

    def __init__(self, folder: AnyPath) -> None:
        self.folder = Path(folder)

    def begin(self, kind: Kind, parameters: Json, facts: Mapping[str, Json]) -> None:
        """Write the manifest of a kind of candidate, or check it against the existing one.

        Args:
            kind: Kind of candidate.
            parameters: Parameters of the labels.
            facts: Properties of the index, by set of questions.

        Raises:
            UsageError: if the existing labels have other parameters.
        """
        path = self.folder / kind / MANIFEST
        own = {"format": FORMAT, **json.loads(json.dumps(parameters))}
        sets = json.loads(json.dumps(facts))
        if path.exists():
            known = self.manifest(kind)
            existing = known.pop("sets")
            _check_same(known, own, path.parent)
            for name in sets.keys() & existing.keys():
                _check_same(existing[name], sets[name], path.parent, f" of {name or 'the index'}")
            sets = {**existing, **sets}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda part: part.write_text(json.dumps({**own, "sets": sets}, indent=1) + "\n", "utf-8"))

    def has(self, kind: Kind, example: Example) -> bool:
        """Check if a question has labels of a kind."""
        return self._path(kind, key_of(example)).exists()

    def write(self, kind: Kind, example: Example, labelled: Sequence[Label], alone: float | None = None) -> None:
        """Write all labels of a kind for a question.

        Args:
            kind: Kind of candidate.
            example: The question.
            labelled: Labels of its candidates. May be empty.
            alone: CPPL without a context, for passages.
        """
        body = {"example": asdict(example), "alone": alone, "labels": [asdict(one) for one in labelled]}
        write_whole(self._path(kind, key_of(example)), lambda part: part.write_text(json.dumps(body) + "\n", "utf-8"))

    def read(self, kinds: Sequence[Kind]) -> list[LabelledQuestion]:
        """Load the questions with labels of all these kinds, sorted by key. Candidates follow the order of `kinds`."""
        keys = [{path.stem for path in (self.folder / kind).glob("[!_]*.json")} for kind in kinds]
        found = sorted(set.intersection(*keys)) if keys else []
        if found:
            for kind in kinds:
                self.manifest(kind)
        return [self.question(key, kinds) for key in found]

    def manifest(self, kind: Kind) -> JsonDict:
        """Load the manifest of a kind of candidate."""
        path = self.folder / kind / MANIFEST
        try:
            known = json.loads(path.read_text("utf-8"))
            manifest = {**known, "sets": {name: dict(facts) for name, facts in known["sets"].items()}}
        except DAMAGE as error:
            raise UsageError(
                f"invalid manifest of labels: {path}: {error}", "choose another folder for the labels"
            ) from None
        if manifest.get("format") != FORMAT:
            raise UsageError(f"labels of another version in {path.parent}", "choose another folder, and label again")
        return manifest

    def question(self, key: str, kinds: Sequence[Kind]) -> LabelledQuestion:
        """Load a question with its candidates.

        Raises:
            UsageError: if a file is damaged or missing.
        """
        try:
            bodies = [json.loads(self._path(kind, key).read_text("utf-8")) for kind in kinds]
            question = bodies[0]["example"]
            example = Example(**{**question, "answers": tuple(question["answers"])})
            labels = []
            for one in (one for body in bodies for one in body["labels"]):
                given = one["candidate"]
                span = None if given["span"] is None else Span(**given["span"])
                given |= {"headings": tuple(given["headings"]), "span": span}
                labels.append(Label(TrainCandidate(**given), one["cppl"]))
            return LabelledQuestion(example, tuple(labels), bodies[0]["alone"])
        except DAMAGE as error:
            raise UsageError(f"{self.folder}, {key}: {error}", "delete the file, and label again") from None

    def _path(self, kind: Kind, key: str) -> Path:
        return self.folder / kind / f"{key}.json"


def key_of(example: Example) -> str:
    body = json.dumps([example.set, example.text, example.answers])
    return blake2b(body.encode("utf-8", "replace"), digest_size=8).hexdigest()


def label(
    store: LabelStore,
    sources: Sequence[LabelSource],
    model: CausalModel,
    settings: LabelSettings,
    progress: OnProgress | None = None,
    executor: Executor = INLINE,
) -> LabelCounts:
    """Label the questions without labels, alternating between the sources.

    Args:
        store: Store of the labels.
        sources: Questions and their indexes.
        model: The reader.
        settings: Settings of labelling.
        progress: Called after every question.
        executor: Executor of the measurements, on copies of the model. This process retrieves candidates and writes labels.

    Returns:
        The counts of this call.

    Raises:
        UsageError: if no question has an answer, an index lacks triplets, or existing labels have other parameters.
    """
    # The first question of each source, then the second, and so on. Questions without answers are skipped.
    kept = [[example for example in source.examples if any(map(str.strip, example.answers))] for source in sources]
    turns = (zip(turn, sources, strict=True) for turn in zip_longest(*kept))
    asked = [(example, source.reader) for turn in turns for example, source in turn if example]
    kinds = settings.kinds()
    if not asked:
        raise UsageError("no question with an answer", "add gold answers to the questions")
    for kind in kinds:
        made_with = {"chat": model.spec, **settings.of(kind)}
        facts = {source.examples[0].set: source.facts.get(kind, {}) for source in sources if source.examples}
        store.begin(kind, made_with, facts)

    missing = [(example, reader) for example, reader in asked if not all(store.has(kind, example) for kind in kinds)]
    counts, before = LabelCounts(), len(asked) - len(missing)

    def requests() -> Iterator[_LabelRequest]:
        """Yield a request for the backgrounds of each batch, then a request per question, which may be empty."""
        for first in range(0, len(missing), TOGETHER):
            batch = []
            for example, reader in missing[first : first + TOGETHER]:
                # The question and its answers must fit into the reader's window without a context.
                answer = max(1, *(len(model.encode(answer)) for answer in example.answers))
                alone = (reader_prompt(example.text, None), prompts.background(example.text))
                if all(len(model.prompt(messages)) + answer < model.window for messages in alone):
                    batch.append((example, reader))
                else:
                    counts.left_out += 1
            unwritten = [example for example, _ in batch if settings.generated and not store.has("generated", example)]
            if unwritten:
                yield unwritten, None
            for example, reader in batch:
                found: dict[Kind, Sequence[TrainCandidate]] = {}
                if not store.has("passages", example):
                    found["passages"] = passages_of(example.text, reader, settings.passages, settings.longest)
                if settings.triplets and not store.has("triplets", example):
                    found["triplets"] = triplets_of(example.text, reader, settings.triplets, settings.longest)
                yield [example], found

    asking, measuring = tee(requests())
    measure = partial(_measure, model, settings)
    for (examples, found), measured in zip(asking, executor.map(measure, measuring), strict=True):
        for example, kind, labels, alone in measured:
            if labels is not None:
                store.write(kind, example, labels, alone)
                counts.cut += sum(label.candidate.cut for label in labels)
        if found is None:
            continue
        (example,) = examples
        if not all(store.has(kind, example) for kind in kinds):
            counts.left_out += 1
            continue
        counts.questions += 1
        if progress is not None:
            progress(counts.questions, len(missing), f"{example.text} ({before} before)" if before else example.text)
    return counts


_LabelRequest: TypeAlias = tuple[Sequence[Example], Mapping[Kind, Sequence[TrainCandidate]] | None]
"""Candidates to measure: those found for a single question, by kind. None asks for the backgrounds of all questions."""
_Measured: TypeAlias = tuple[Example, Kind, Sequence[Label] | None, float | None]
"""A question with its labels of a kind, or None if a candidate does not fit at all, and its CPPL without a context."""


def _measure(model: CausalModel, settings: LabelSettings, request: _LabelRequest) -> list[_Measured]:
    """Measure the candidates of a request. This is a pure function for workers."""
    examples, found = request
    measured: list[_Measured] = []
    if found is None:
        asked = [prompts.background(example.text) for example in examples]
        texts = [one.text for one in decode_each(model, asked, prompts.BACKGROUND_TOKENS)]  # d_gen = G(rho(q))
        for example, text in zip(examples, texts, strict=True):
            one = generated_candidate(text)
            labels = labels_of(model, example, [one] if one else [], settings.alpha)
            measured.append((example, "generated", labels, None))
        return measured
    (example,) = examples
    for kind, candidates in found.items():
        alone = None
        if kind == "passages":
            question = model.prompt(reader_prompt(example.text, None))
            alone = float(cppl(model, question, [question], example.answers, alpha=0.0)[0])
        measured.append((example, kind, labels_of(model, example, candidates, settings.alpha), alone))
    return measured


def likeliest_kind(model: CausalModel, example: Example, reader: IndexReader, settings: LabelSettings) -> Kind | None:
    """Return the kind of the candidate with the least CPPL (Figure 1). A background of "N/A" is no candidate.

    Return None if a candidate does not fit into the window.
    """
    found = passages_of(example.text, reader, settings.passages, settings.longest)
    found += triplets_of(example.text, reader, settings.passages, settings.longest)
    (background,) = decode_each(model, [prompts.background(example.text)], prompts.BACKGROUND_TOKENS)
    written = None if prompts.knows_nothing(background.text) else generated_candidate(background.text)
    labels = labels_of(model, example, [*found, *([written] if written else [])], settings.alpha)
    return min(labels, key=lambda one: one.cppl).candidate.kind if labels else None


def labels_of(
    model: CausalModel, example: Example, candidates: Sequence[TrainCandidate], alpha: float
) -> list[Label] | None:
    """Measure the CPPL of the candidates, cut to the model's window. Return None if a candidate does not fit at all.

    Raises:
        UsageError: if the question does not fit.
    """
    question = model.prompt(reader_prompt(example.text, None))
    room = model.window - max(len(model.encode(answer)) for answer in example.answers)

    def fits(candidate: TrainCandidate) -> bool:
        return len(model.prompt(reader_prompt(example.text, candidate))) <= room

    fitting = [fitted for one in candidates if (fitted := beginning_that_fits(one, fits)) is not None]
    if len(fitting) < len(candidates):
        return None
    contexts = [model.prompt(reader_prompt(example.text, candidate)) for candidate in fitting]
    values = cppl(model, question, contexts, example.answers, alpha=alpha)
    return [Label(candidate, float(value)) for candidate, value in zip(fitting, values, strict=True)]


# -- files


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    write(part)
    part.replace(path)


def _check_same(existing: Json, own: Json, folder: Path, of: str = "") -> None:
    other = sorted(name for name in existing.keys() | own.keys() if existing.get(name) != own.get(name))
    if other:
        differences = ", ".join(f"{name}{of} {existing.get(name)}, not {own.get(name)}" for name in other)
        raise UsageError(
            f"the labels in {folder} were made with {differences}", "choose another folder for these labels"
        )
