"""The row of a run: the outcome of one question, method and budget, in a form for JSON and Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import NamedTuple

from mergewise.evaluate.judged import FoundText, LostStage, LostText
from mergewise.extend import span_json
from mergewise.types import Context, Json, JsonDict, Span, frozen


class RowKey(NamedTuple):
    """The key of a row. Rows with the same key are computed once.

    `asked` is the digest of the question (`runs.digests.question_digest`). `spec` is the digest of everything else that the row
    depends on.
    """

    set: str
    question: str
    asked: str
    method: str
    spec: str
    budget: int
    repeat: int


@frozen
class RunPassage:
    """A passage of a context.

    `text` is set for generated passages only. Other passages have the text of their spans, joined by `types.GAP`.
    """

    score: float
    spans: tuple[Span, ...]
    text: str | None = None


@frozen
class RankedDocument:
    doc: str
    score: float


@frozen
class RunRow:
    """The outcome of one question, method and budget.

    `scores` holds the scores of the context and the answer. A score that does not apply to the question is None. Fields of
    answers are None or empty without answers, as is `mode`. `together` is the size of the batch that the answer's seconds were
    divided by. Seconds are None if a cache answered a call of the model. A row with an `error` has no other outcome. `judge` is
    the spec of the reranker or utility predictor that scored the passages.
    """

    set: str
    question: str
    asked: str
    method: str
    spec: str
    budget: int
    repeat: int = 0
    tokens: int | None = None
    passages: tuple[RunPassage, ...] = ()
    ranking: tuple[RankedDocument, ...] = ()
    found: tuple[FoundText, ...] = ()
    lost: tuple[LostText, ...] = ()
    mode: str | None = None
    prediction: str | None = None
    refused: bool | None = None
    sure: bool | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    together: int = 1
    search_seconds: float | None = None
    assembly_seconds: float | None = None
    answer_seconds: float | None = None
    error: str = ""
    judge: str = ""
    scores: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def key(self) -> RowKey:
        return RowKey(*(getattr(self, name) for name in RowKey._fields))

    @property
    def query_seconds(self) -> float | None:
        """Seconds to find and assemble the context."""
        if self.search_seconds is None or self.assembly_seconds is None:
            return None
        return self.search_seconds + self.assembly_seconds

    @property
    def seconds(self) -> float | None:
        """Seconds to find the context and answer from it."""
        if self.query_seconds is None or self.answer_seconds is None:
            return None
        return self.query_seconds + self.answer_seconds

    def as_dict(self) -> JsonDict:
        """Return the row for JSON and Parquet: `scores` as a dictionary, `weights` as a list, spans as {doc, start, end}."""
        # `asdict` would copy every nested value
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("ranking", "found", "lost"):
            values[name] = [asdict(one) for one in values[name]]
        values["passages"] = [
            {"score": one.score, "spans": [span_json(span) for span in one.spans], "text": one.text}
            for one in self.passages
        ]
        values["weights"] = [{"stream": name, "weight": weight} for name, weight in self.weights.items()]
        return values


def row_of(values: Json) -> RunRow:
    """Read the result of `RunRow.as_dict`. Raises LookupError, TypeError or ValueError for an invalid row."""
    known = dict(values)
    known["passages"] = tuple(
        RunPassage(one["score"], tuple(span_of(span) for span in one["spans"]), one["text"])
        for one in known["passages"]
    )
    known["ranking"] = tuple(RankedDocument(**one) for one in known["ranking"])
    known["found"] = tuple(FoundText(**one) for one in known["found"])
    known["lost"] = tuple(LostText(one["text"], LostStage(one["stage"])) for one in known["lost"])
    known["weights"] = {one["stream"]: one["weight"] for one in known["weights"]}
    return RunRow(**known)


def span_of(values: Json) -> Span:
    return Span(values["doc"], values["start"], values["end"])


def passages_of(context: Context) -> tuple[RunPassage, ...]:
    return tuple(
        RunPassage(one.score, one.spans, None if one.verbatim and one.spans else one.text) for one in context.passages
    )
