"""The records of a server's state: jobs, their events, uploads, uploaded documents, collections and tokens.

All times are seconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, field
from typing import Literal, NamedTuple, cast, get_args

from mergewise.errors import UsageError
from mergewise.extend import check_filter, choice
from mergewise.types import Json, JsonDict, frozen

ReadingKind = Literal["evaluate", "check"]
"""The kinds of jobs that change nothing. The evaluator runs them, the writer runs all others."""
ViewKind = Literal["add_view", "remove_view"]
"""The kinds of jobs that change the rows of everybody's documents. Only an admin starts them."""
JobKind = Literal[
    "add", "replace", "remove", "metadata", "sync", ViewKind, "embed", ReadingKind, "repair", "optimize", "drop"
]
"""`add` and `replace` index uploads, `drop` removes a whole collection; the rest are methods of an index."""
JobState = Literal["queued", "waiting_lock", "running", "cancelling", "done", "failed", "cancelled"]
DocumentStatus = Literal["queued", "indexing", "indexed", "failed"]
OnConflict = Literal["replace", "skip", "fail"]
Scope = Literal["read", "write", "feedback", "admin"]
"""`feedback` reads the rated questions of all tokens, with their notes."""

KINDS: tuple[JobKind, ...] = get_args(JobKind)
SCOPES: tuple[Scope, ...] = get_args(Scope)
ENDED: frozenset[JobState] = frozenset({"done", "failed", "cancelled"})
"""The final states of a job. Only a retry queues such a job again, under the same id."""
INDEXING: frozenset[JobKind] = frozenset({"add", "replace", "sync"})
"""The kinds of jobs that index documents."""
UPLOADS: frozenset[JobKind] = frozenset({"add", "replace"})
READ_ONLY: frozenset[JobKind] = frozenset(get_args(ReadingKind))
CHANGING: tuple[JobKind, ...] = tuple(kind for kind in KINDS if kind not in READ_ONLY)
_PUBLIC_JOB_FIELDS = "id kind collection state progress report error created started finished attempt".split()


@frozen
class JobProgress:
    """Progress of a job: `done` of `total` characters, and the current document."""

    done: int = 0
    total: int = 0
    unit: str = "characters"
    document: str | None = None


@frozen
class Job:
    """Work on one collection, done by the writer or the evaluator.

    `request` has the parameters of the job, by kind:

    - `add`, `replace`: {on_conflict}; the documents are the job's uploads (`State.uploads`)
    - `remove`: {ids} or {prefix} or {filter}
    - `metadata`: {id, metadata}
    - `sync`: {} for all folders of the configuration, or {folders} for some of them
    - `add_view`: {view, settings}; `remove_view`: {view}; `evaluate`: {questions, strategies, budgets, name}
    - `check`, `repair`, `optimize`, `embed`, `drop`: {}

    `report` is the result of a job that is done; `error` is {code, detail, hint, document}. `attempt` counts the job's starts,
    `kills` the deaths of its process in a row at the same document. `number` orders jobs by time of arrival.
    """

    id: str
    kind: JobKind
    collection: str
    state: JobState
    created: float
    request: Json = field(default_factory=dict)
    progress: JobProgress = JobProgress()
    report: Json | None = None
    error: Json | None = None
    started: float | None = None
    finished: float | None = None
    attempt: int = 0
    kills: int = 0
    token: str | None = None
    number: int = 0

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def as_dict(self) -> JsonDict:
        """Return the job as clients see it. The results of an evaluation have endpoints of their own."""
        report = (
            None
            if self.report is None
            else {k: v for k, v in self.report.items() if k not in ("rows", "report", "page")}
        )
        public = {name: getattr(self, name) for name in _PUBLIC_JOB_FIELDS}
        error = None if self.error is None else dict(self.error)
        return {**public, "progress": asdict(self.progress), "report": report, "error": error}


class JobEvent(NamedTuple):
    """A change of a job, for its event stream. `number` grows within the job; streams resume after it. `job` is the new state."""

    number: int
    job: Json


@frozen
class Upload:
    """One document of an `add` or `replace` job. `blob` is the sha256 of its bytes, in the collection's blobs.

    `name` is the file's name from the client: a label that chooses the reader, never a path. With `is_document`, the bytes are
    JSON of {id, text, title, metadata, units} instead of a file.
    """

    id: str
    blob: str
    name: str
    bytes: int
    title: str | None = None
    metadata: Json = field(default_factory=dict)
    media_type: str | None = None
    is_document: bool = False
    on_conflict: OnConflict = "replace"


@frozen
class DocumentState:
    """The server's record of a document that was uploaded or that failed. The index has the rest.

    `blob`, `name`, `bytes` and `media_type` describe the indexed bytes, or the waiting bytes of a document not indexed yet.
    `error` is {code, detail, hint}. `job` is the last job on this document.
    """

    collection: str
    id: str
    status: DocumentStatus
    job: str | None = None
    error: Json | None = None
    name: str | None = None
    title: str | None = None
    metadata: Json = field(default_factory=dict)
    blob: str | None = None
    bytes: int | None = None
    media_type: str | None = None
    is_document: bool = False
    indexed_at: float | None = None


@frozen
class CollectionRecord:
    """A collection of the server, either from the configuration (`configured`) or created by a client.

    `path` is the directory of its index, `blobs` the directory of its originals. `embedder` is a name from the configuration or a
    spec; None for an index that exists already. `defaults` are options of questions, `settings` are settings of views, `metadata`
    are the clients' own values by name.
    """

    name: str
    path: str
    blobs: str
    title: str = ""
    embedder: str | None = None
    views: tuple[str, ...] = ("leaf",)
    settings: Json = field(default_factory=dict)
    defaults: Json = field(default_factory=dict)
    created: float = 0.0
    configured: bool = False
    metadata: Json = field(default_factory=dict)


@frozen
class Token:
    """The permissions of a client. The secret is stored only as sha256, which never leaves `State`.

    `collections` are names, or None for all. `filter` is a JSON condition on documents for every question and listing of this
    token. `rate` is in requests per second.
    """

    id: str
    scopes: frozenset[Scope]
    collections: frozenset[str] | None = None
    title: str = ""
    filter: Json | None = None
    expires: float | None = None
    rate: float | None = None
    created: float = 0.0

    def may(self, scope: Scope) -> bool:
        """Check if the token has the scope. No scope includes another."""
        return scope in self.scopes

    def knows_of(self, collection: str) -> bool:
        """Check if the token has access to the collection."""
        return self.collections is None or collection in self.collections

    @property
    def owner(self) -> str:
        """The token and what it sees, as a text: the owner of its conversations and responses."""
        return f"{self.id} {json.dumps([sorted(self.collections or ()), self.filter], sort_keys=True)}"

    @property
    def is_restricted(self) -> bool:
        """True for a token of some collections or some documents."""
        return self.collections is not None or self.filter is not None

    def as_dict(self) -> JsonDict:
        """Return the token as clients see it."""
        among = None if self.collections is None else sorted(self.collections)
        return {**asdict(self), "scopes": sorted(self.scopes, key=SCOPES.index), "collections": among}


def checked_scopes(scopes: Iterable[str], filter: Json | None) -> frozenset[Scope]:
    """Return the scopes of a token.

    Raises:
        UsageError: for unknown scopes, none, or an invalid filter, and for a filter with other scopes than "read".
    """
    own = frozenset(cast(Scope, choice("scope", scope, SCOPES)) for scope in scopes)
    if filter is not None:
        check_filter(filter)
        if own - {"read"}:
            raise UsageError("a token with a filter only reads", 'give it the scope "read" alone, or no filter')
    if not own:
        raise UsageError("missing scope of the token", f"one of: {', '.join(SCOPES)}")
    return own
