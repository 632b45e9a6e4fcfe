"""A server's state in one SQLite file: tokens, sessions, collections, jobs with their events and uploads, documents.

The file is in write-ahead mode, so that workers read while the writer writes. A row that was committed is on the disk
(`synchronous=FULL`): a job that was accepted is not lost with the power. Every method is one transaction of a few milliseconds,
safe from any thread and any process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from mergewise.errors import MergewiseError
from mergewise.server.records import (
    CollectionRecord,
    DocumentState,
    DocumentStatus,
    Job,
    JobEvent,
    JobKind,
    JobProgress,
    JobState,
    Scope,
    Token,
    Upload,
)


class Conflict(MergewiseError):
    """What is asked contradicts what stands: a collection of that name, another request under the same key, a job that ended."""


class State:
    """The state in the file `path`, which is made or brought up to date. Raises UsageError on a network disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # set in a process that is to end: /readyz answers 503, and nothing new is begun
        self.draining = Event()

    def close(self) -> None:
        """Close this thread's connection."""
        raise NotImplementedError

    def check_writable(self) -> None:
        """Raises StoreError where nothing could be written now (a full disk, a directory that is gone)."""
        raise NotImplementedError

    # -- tokens and sessions

    def add_token(
        self,
        scopes: Iterable[Scope],
        *,
        collections: Iterable[str] | None = None,
        title: str = "",
        filter: Mapping[str, Any] | None = None,
        expires: float | None = None,
        rate: float | None = None,
    ) -> tuple[Token, str]:
        """A new token, and its secret form `mw_ID_SECRET`, which nobody can learn again."""
        raise NotImplementedError

    def tokens(self) -> list[Token]:
        raise NotImplementedError

    def remove_token(self, id: str) -> bool:
        """Whether there was one. Its sessions end with it."""
        raise NotImplementedError

    def authenticate(self, presented: str) -> Token | None:
        """The token of `mw_ID_SECRET`, compared in constant time; None where there is none, or it has expired."""
        raise NotImplementedError

    def open_session(self, token: Token, seconds: float) -> str:
        """An opaque value for a cookie; it ends after so many seconds, with the token, or by `close_session`."""
        raise NotImplementedError

    def session_token(self, cookie: str) -> Token | None:
        """The token of a session that stands."""
        raise NotImplementedError

    def close_session(self, cookie: str) -> None:
        raise NotImplementedError

    # -- collections

    def collections(self) -> list[CollectionRecord]:
        """By name."""
        raise NotImplementedError

    def collection(self, name: str) -> CollectionRecord | None:
        raise NotImplementedError

    def add_collection(self, collection: CollectionRecord) -> CollectionRecord:
        """Raises Conflict where there is one of this name. A configured one takes the place of its older record.

        Its index is made by the writer, soon: until then there is no manifest at `path`, and the collection is empty.
        """
        raise NotImplementedError

    def update_collection(
        self, name: str, *, title: str | None = None, defaults: Mapping[str, Any] | None = None
    ) -> CollectionRecord | None:
        """The record with another title or other defaults; None where there is none."""
        raise NotImplementedError

    # -- jobs, for those who ask

    def enqueue(
        self,
        kind: JobKind,
        collection: str,
        request: Mapping[str, Any] | None = None,
        *,
        uploads: Sequence[Upload] = (),
        token: str | None = None,
        idempotency: tuple[str, str] | None = None,
    ) -> Job:
        """A new job, on the disk when this returns. Documents of `uploads` are queued, unless a newer version is known.

        `idempotency` is the client's key and a fingerprint of its request: within 24 hours the same token and key give the same
        job, and Conflict with another fingerprint. What is to be removed leaves the uploads that still wait for it.
        """
        raise NotImplementedError

    def job(self, id: str) -> Job | None:
        raise NotImplementedError

    def jobs(
        self,
        *,
        collections: Collection[str] | None = None,
        states: Collection[JobState] | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """The newest first; those before the number `before`, to page on."""
        raise NotImplementedError

    def job_counts(self) -> dict[JobState, int]:
        """How many jobs are in each state."""
        raise NotImplementedError

    def events(self, id: str, after: int = 0) -> list[JobEvent]:
        """What happened to a job behind the event of this number. A stream asks again until one shows a state of `ENDED`."""
        raise NotImplementedError

    def cancel(self, id: str) -> Job | None:
        """Cancelled at once where it waits, `cancelling` where it runs, unchanged where it has ended; None: no such job."""
        raise NotImplementedError

    def retry(self, id: str) -> Job | None:
        """Queued once more, with what it was asked for. Raises Conflict where it neither failed nor was cancelled."""
        raise NotImplementedError

    def uploads(self, id: str) -> list[Upload]:
        """The documents of an `add` or `replace` job, in order."""
        raise NotImplementedError

    # -- documents

    def document_states(
        self,
        collection: str,
        *,
        ids: Collection[str] | None = None,
        prefix: str = "",
        statuses: Collection[DocumentStatus] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[DocumentState]:
        """By id. What the index has and the server did not receive (folders, an index that stood before) has no state here."""
        raise NotImplementedError

    # -- the writer's side

    def beat(self, pid: int | None) -> None:
        """The writer is alive; None: it has ended."""
        raise NotImplementedError

    def writer_is_alive(self, within: float = 15.0) -> bool:
        """Whether the writer said so in the last seconds."""
        raise NotImplementedError

    def claim(self, coalesce: float = 0.5) -> list[Job]:
        """The jobs that are to be run next, together, now `running`; none where nothing waits.

        Removing goes first. Uploads of one collection are taken together, once the newest is so many seconds old.
        """
        raise NotImplementedError

    def set_state(self, id: str, state: JobState) -> JobState:
        """Give a job that has not ended a state, except that one that is to be cancelled stays `cancelling`. The state then."""
        raise NotImplementedError

    def set_progress(self, id: str, progress: JobProgress) -> JobState:
        """Tell how far a job is. The state that it has, which may be `cancelling`."""
        raise NotImplementedError

    def finish(
        self,
        id: str,
        state: JobState,
        *,
        report: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
        documents: Mapping[str, Mapping[str, Any] | None] | None = None,
    ) -> None:
        """End a job. `documents` are those of its uploads that are settled: None for indexed, an error for failed."""
        raise NotImplementedError

    def put_back(self, kills: int) -> list[Job]:
        """After a death of the writer: its jobs are queued again, and those that it died at so often have failed."""
        raise NotImplementedError

    def blobs_needed(self, collection: str) -> set[str]:
        """The blobs that documents, and uploads that could still be indexed, need."""
        raise NotImplementedError
