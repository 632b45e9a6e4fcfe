"""The records of a server's state: jobs, their events, uploads, documents under way, collections and tokens.

All times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

JobKind: TypeAlias = Literal[
    "add",
    "replace",
    "remove",
    "metadata",
    "sync",
    "add_view",
    "embed",
    "evaluate",
    "check",
    "repair",
    "optimize",
    "drop",
]
"""`add` and `replace` index uploads, `drop` removes a whole collection; the others are methods of an index."""
JobState: TypeAlias = Literal["queued", "waiting_lock", "running", "cancelling", "done", "failed", "cancelled"]
DocumentStatus: TypeAlias = Literal["queued", "indexing", "indexed", "failed"]
OnConflict: TypeAlias = Literal["replace", "skip", "fail"]
Scope: TypeAlias = Literal["read", "write", "admin"]

KINDS: tuple[JobKind, ...] = get_args(JobKind)
SCOPES: tuple[Scope, ...] = get_args(Scope)
ENDED: frozenset[JobState] = frozenset({"done", "failed", "cancelled"})
"""The states that a job does not leave (a retry is another job's beginning under the same id)."""
_SHOWN_OF_JOBS = "id kind collection state progress report error created started finished attempt".split()


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is: `done` of `total` characters, and the document that it is at."""

    done: int = 0
    total: int = 0
    unit: str = "characters"
    document: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Work on one collection, done by the writer.

    `request` is what the job was asked for, by kind:

    - `add`, `replace`: {on_conflict}; the documents are the job's uploads (`State.uploads`)
    - `remove`: {ids} or {prefix} or {filter}
    - `metadata`: {id, metadata}
    - `sync`: {} for all folders that the configuration names, or {folders}, some of them
    - `add_view`: {view, settings}; `evaluate`: {questions, strategies, budgets, name}
    - `check`, `repair`, `optimize`, `embed`, `drop`: {}

    `report` is what it did, once it is done; `error` is {code, detail, hint, document}. `attempt` counts how often it was begun,
    `kills` how often in a row the writer died at it without getting any further. `number` orders jobs as they came.
    """

    id: str
    kind: JobKind
    collection: str
    state: JobState
    created: float
    request: Mapping[str, Any] = field(default_factory=dict)
    progress: JobProgress = JobProgress()
    report: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    started: float | None = None
    finished: float | None = None
    attempt: int = 0
    kills: int = 0
    token: str | None = None
    number: int = 0

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def as_dict(self) -> dict[str, Any]:
        """The job as clients are told of it. What an evaluation found, row by row, is asked for by itself."""
        report = None if self.report is None else {k: v for k, v in self.report.items() if k not in _ASKED_FOR}
        shown = {name: getattr(self, name) for name in _SHOWN_OF_JOBS}
        error = None if self.error is None else dict(self.error)
        return {**shown, "progress": asdict(self.progress), "report": report, "error": error}


_ASKED_FOR = ("rows", "report", "page")


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A change of a job, for its stream: `number` grows within the job and is the id to resume behind. `job` is it then."""

    number: int
    job: Mapping[str, Any]
    time: float


@dataclass(frozen=True, slots=True)
class Upload:
    """One document of an `add` or `replace` job. `blob` is the sha256 of its bytes, in the collection's blobs.

    `name` is the file's name as the client said it: a label that chooses the reader, never a path. With `is_document`, the bytes
    are JSON of {id, text, title, metadata, units} instead of a file.
    """

    id: str
    blob: str
    name: str
    bytes: int
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    media_type: str | None = None
    is_document: bool = False
    on_conflict: OnConflict = "replace"


@dataclass(frozen=True, slots=True)
class DocumentState:
    """What the server knows of a document that was uploaded, or that failed: the index knows the rest.

    `blob`, `name`, `bytes` and `media_type` are those of the bytes that are indexed, or, before the first time, of those that
    wait. `error` is {code, detail, hint}. `job` is the last one that touched it.
    """

    collection: str
    id: str
    status: DocumentStatus
    job: str | None = None
    error: Mapping[str, Any] | None = None
    name: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    blob: str | None = None
    bytes: int | None = None
    media_type: str | None = None
    is_document: bool = False
    indexed_at: float | None = None


@dataclass(frozen=True, slots=True)
class CollectionRecord:
    """A collection that the server has: those of the configuration (`configured`), and those that clients made.

    `path` is the directory of its index, `blobs` that of its originals. `embedder` is a name or spec of the configuration; None
    for an index that stands. `defaults` are parameters of questions; `settings` those of views.
    """

    name: str
    path: str
    blobs: str
    title: str = ""
    embedder: str | None = None
    views: tuple[str, ...] = ("leaf",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    created: float = 0.0
    configured: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """Who may do what. The secret is not kept, only its sha256, which does not leave `State`.

    `collections` are names, or None for all. `filter` is a condition, as JSON, that every question and listing of this token must
    meet. `rate` is in requests a second.
    """

    id: str
    scopes: frozenset[Scope]
    collections: frozenset[str] | None = None
    title: str = ""
    filter: Mapping[str, Any] | None = None
    expires: float | None = None
    rate: float | None = None
    created: float = 0.0

    def may(self, scope: Scope, collection: str | None = None) -> bool:
        """Whether the token has the scope, and the collection where one is named. No scope holds another."""
        return scope in self.scopes and (
            collection is None or self.collections is None or collection in self.collections
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the token as clients see it."""
        among = None if self.collections is None else sorted(self.collections)
        return {**asdict(self), "scopes": sorted(self.scopes, key=SCOPES.index), "collections": among}
