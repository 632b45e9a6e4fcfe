"""The forms of what the native API answers."""

from __future__ import annotations

from typing import Any, Generic, Literal, NotRequired, TypeVar

# pydantic needs this one before Python 3.12
from typing_extensions import TypedDict

Item = TypeVar("Item")


class PageOf(TypedDict, Generic[Item]):
    items: list[Item]
    next: str | None


class DocumentName(TypedDict):
    key: str
    id: str
    title: str


class SpanReply(TypedDict):
    key: str
    start: int
    end: int


class PlaceReply(TypedDict):
    start: int
    end: int


class UsageReply(TypedDict):
    calls: int
    input_tokens: int
    output_tokens: int


class PassageReply(TypedDict):
    mark: int
    document: DocumentName | None
    headings: list[str]
    page: int | None
    line: int | None
    text: str
    score: float
    verbatim: bool
    spans: list[SpanReply]
    url: str | None


class AssembledReply(TypedDict):
    """A context. Offsets are in code points."""

    text: str
    tokens: int
    budget: int
    strategy: str
    snapshot: str
    usage: UsageReply
    passages: list[PassageReply]
    trace: NotRequired[list[dict[str, Any]]]
    evidence: NotRequired[list[dict[str, Any]]]


class ContextReply(TypedDict):
    id: str
    question: str
    searched_for: str
    context: AssembledReply
    snapshot: str
    timings: dict[str, float | None]
    cached: bool


class CitationReply(TypedDict):
    mark: int
    answer_spans: list[PlaceReply]
    document: DocumentName
    headings: list[str]
    page: int | None
    line: int | None
    text: str
    span: SpanReply
    url: str | None


class AnswerReply(TypedDict):
    id: str
    question: str
    searched_for: str
    answer: str
    found: bool
    sure: bool
    complete: bool
    mode: str
    citations: list[CitationReply]
    unverified: list[str]
    unsupported: float | None
    removed_marks: int
    usage: UsageReply
    context: AssembledReply
    snapshot: str
    timings: dict[str, float | None]
    cached: bool
    streams: NotRequired[dict[str, Any]]
    trace: NotRequired[list[dict[str, Any]]]


class RunReply(TypedDict):
    index: int
    context: NotRequired[AssembledReply]
    only: NotRequired[list[SpanReply]]
    ms: NotRequired[float]
    problem: NotRequired[dict[str, Any]]


class ComparisonReply(TypedDict):
    question: str
    runs: list[RunReply]


class CollectionReply(TypedDict):
    name: str
    title: str
    documents: int
    leaves: int
    characters: int
    embedder: str | None
    views: list[str]
    strategies: list[str]
    defaults: dict[str, Any]
    configured: bool
    snapshot: str | None


class DocumentReply(DocumentName):
    metadata: dict[str, str | int | float | bool]
    status: Literal["queued", "indexing", "indexed", "failed"]
    error: dict[str, Any] | None
    job: str | None
    bytes: int | None
    characters: int | None
    leaves: int | None
    media_type: str | None
    indexed_at: float | None
    has_original: bool


class HeadingReply(TypedDict):
    level: int
    title: str
    start: int
    end: int


class PageReply(TypedDict):
    number: int
    start: int
    end: int


class OutlinedDocumentReply(DocumentReply):
    outline: list[HeadingReply]
    pages: list[PageReply]
    language: str


class TextReply(SpanReply):
    characters: int
    text: str


class ProgressReply(TypedDict):
    done: int
    total: int
    unit: str
    document: str | None


class JobReply(TypedDict):
    id: str
    kind: str
    collection: str
    state: str
    progress: ProgressReply
    report: dict[str, Any] | None
    error: dict[str, Any] | None
    created: float
    started: float | None
    finished: float | None
    attempt: int


class AcceptedReply(TypedDict):
    job: JobReply
    documents: list[DocumentName]


class RemovalReply(TypedDict):
    """`job` is null with `dry_run`; `documents` are the first 200 that leave, `count` are all of them."""

    job: JobReply | None
    count: int
    documents: list[DocumentName]


class StartedReply(TypedDict):
    job: JobReply


class EstimateReply(TypedDict):
    estimate: dict[str, Any]


class EvaluationReply(TypedDict):
    id: str
    state: str
    rows: list[Any]
    report: Any


class TokenReply(TypedDict):
    id: str
    title: str
    scopes: list[str]
    collections: list[str] | None
    filter: dict[str, Any] | None
    expires: float | None
    rate: float | None
    created: float


class NewTokenReply(TokenReply):
    """The only time that `secret` is told."""

    secret: str


class HealthReply(TypedDict):
    status: str
