"""The boundary between routes and data: what a token may see and change.

Routes depend on a `ScopedService` (`service: InService`), and under `{c}` on a `Scoped` collection (`collection: InCollection`).
Both are defined in `routing`. Routes use nothing else of the service:

| call | result |
| --- | --- |
| `service.collections()`, `service.collection(name)` | collections of the token, else 404 |
| `service.jobs`, `.job`, `.job_events`, `.cancel`, `.retry` | jobs of the token |
| `service.response`, `.responses` | kept responses of the token |
| `service.files` | received files of the token |
| `service.add_collection`, `collection.change` | admin only |
| `collection.info()`, `.indexing()` | counts of what the token sees |
| `collection.documents`, `.entry`, `.document`, `.ids_within` | documents that the token sees |
| `collection.conversations` | conversations of the token, and links that it knows |
| `collection.rated_turns()` | rated answers of all tokens, with the scope for it |
| `collection.enqueue(kind, ...)` | a new job, if the token may write |
| `collection.writable()` | the collection itself, if the token may write |
| `service.config`, `.questions`, `.admission`, `.ending`, `.token` | settings, questions and limits |

A token with a filter sees the indexed documents that match, and no uploads, jobs and files. It cannot write, whatever its scopes.
Other tokens see their own jobs, and with write or admin all jobs of their collections. Only the token that started a job, or an
admin, cancels and retries it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from heapq import nsmallest
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mergewise.errors import UsageError
from mergewise.server.admission import ConcurrencyLimiter
from mergewise.server.collections import Collection as ServedCollection
from mergewise.server.collections import Collections
from mergewise.server.configuration import ServerConfig
from mergewise.server.conversations import OwnConversations
from mergewise.server.file_store import Attachment, FileStore
from mergewise.server.metrics import Metrics
from mergewise.server.problems import HTTPProblem, existing
from mergewise.server.records import (
    CollectionRecord,
    DocumentState,
    DocumentStatus,
    Job,
    JobEvent,
    JobKind,
    JobState,
    Scope,
    Token,
    Upload,
)
from mergewise.server.state import State
from mergewise.types import Answer, Context, Document, DocumentInfo, Json, JsonDict, Step

if TYPE_CHECKING:
    import mergewise as mw
    from mergewise.server.questions import Questions

Traced = TypeVar("Traced", Context, Answer)


@dataclass
class Service:
    """The objects of a worker: `request.app.state.service`. Routes see them through a `ScopedService`."""

    config: ServerConfig
    state: State
    collections: Collections
    questions: Questions
    admission: ConcurrencyLimiter
    metrics: Metrics
    # set when streams must end, because the server shuts down
    ending: asyncio.Event
    # time of the last successful readiness check, by the monotonic clock
    was_ready: float = -inf


class DocumentEntry(NamedTuple):
    """A document with its entries in the index and in the server's state, as far as they exist."""

    id: str
    info: DocumentInfo | None
    state: DocumentState | None


def check_scope(token: Token, scope: Scope) -> None:
    """Check the token. Raises HTTPProblem 403 if the scope is missing, or if the token has a filter and `scope` is not "read"."""
    if not token.may(scope):
        raise HTTPProblem(403, "forbidden", f"missing scope: {scope}", "ask an admin for a token with this scope")
    if scope != "read" and token.filter is not None:
        raise HTTPProblem(403, "forbidden", "token with a filter: read only", "ask an admin for one without a filter")


class ScopedService:
    """The service as a token sees it."""

    def __init__(self, service: Service, token: Token) -> None:
        self._service, self._state, self.token = service, service.state, token
        self.config, self.questions = service.config, service.questions
        self.admission, self.ending = service.admission, service.ending
        self.responses = service.state.responses(token)
        # the id of the token if it sees only its own jobs, else None
        sees_all_jobs = token.filter is None and (token.may("write") or token.may("admin"))
        self.own_jobs = None if sees_all_jobs else token.id

    def check_whole(self, scope: Scope) -> None:
        """Check a scope on all collections. Raises HTTPProblem 403 for an admin of some collections only."""
        check_scope(self.token, scope)
        if scope == "admin" and self.token.is_restricted:
            raise HTTPProblem(403, "forbidden", "token of some collections", "ask an admin of the whole server")

    # -- collections and questions

    def collections(self) -> list[Scoped]:
        """Return the collections that the token may know of, ordered by name."""
        known = self._service.collections.all()
        return [Scoped(one, self) for one in known if self.token.knows_of(one.name)]

    def collection(self, name: str) -> Scoped:
        """Return the collection. Raises HTTPProblem 404 if it does not exist or is hidden from the token."""
        found = self._service.collections.get(name) if self.token.knows_of(name) else None
        return Scoped(existing(found, "collection"), self)

    def add_collection(self, record: CollectionRecord) -> Scoped:
        self.check_whole("admin")
        self._state.collections.add(record)
        return self.collection(record.name)

    # -- jobs

    def jobs(
        self,
        collection: str | None = None,
        *,
        kind: str | None = None,
        states: Collection[JobState] | None = None,
        before: Job | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """Return the jobs that the token may see, newest first, of one or all collections."""
        names = self.token.collections if self.token.filter is None else frozenset()
        if collection is not None:
            names = frozenset() if names is not None and collection not in names else frozenset({collection})
        return self._state.jobs.find(
            collections=names,
            states=states,
            kinds=None if kind is None else {kind},
            token=self.own_jobs,
            before=None if before is None else before.number,
            limit=limit,
        )

    def find_job(self, id: str) -> Job | None:
        """Return the job, or None if it does not exist or is hidden from the token."""
        job = self._state.jobs.get(id)
        if job is None or self.token.filter is not None or not self.token.knows_of(job.collection):
            return None
        return job if self.own_jobs in (None, job.token) else None

    def job(self, id: str) -> Job:
        """Return the job. Raises HTTPProblem 404 if it does not exist or is hidden from the token."""
        return existing(self.find_job(id), "job")

    def job_events(self, id: str, after: int) -> list[JobEvent]:
        """Return the events of the job after this number."""
        return self._state.jobs.events(self.job(id).id, after)

    def cancel(self, id: str) -> Job:
        """Cancel a job of the token, or as an admin any job. Finished batches stay."""
        return self._state.jobs.cancel(self._own_job(id).id) or self.job(id)

    def retry(self, id: str) -> Job:
        """Queue a failed or cancelled job again."""
        return self._state.jobs.retry(self._own_job(id).id) or self.job(id)

    def _own_job(self, id: str) -> Job:
        job = self.job(id)
        check_scope(self.token, "write")
        if job.token != self.token.id and not self.token.may("admin"):
            hint = "use the token that started it, or ask an admin"
            raise HTTPProblem(403, "forbidden", "job of another token", hint)
        return job

    # -- kept responses

    def response(self, id: str) -> JsonDict | None:
        """Return a kept response of the token, or None if it does not exist. It is `withheld` if a source of it was removed."""
        if (kept := self.responses.get(id)) is None:
            return None
        known, sources = {one.name: one for one in self.collections()}, kept["sources"].items()
        is_whole = all(name in known and known[name].indexed(ids) == {*ids} for name, ids in sources)
        return {**kept, "withheld": not is_whole}

    # -- received files

    @property
    def files(self) -> FileStore:
        return FileStore(self._state.database, self.config.shared / "files", self.config.cache, self.token)


class Scoped:
    """A collection as a token sees it."""

    def __init__(self, collection: ServedCollection, service: ScopedService) -> None:
        self._collection, self.service = collection, service
        self.token, self.questions, self._state = service.token, service.questions, service._state
        self.name, self.record, self.own = collection.name, collection.record, collection.own
        self.url, self.strategies = collection.url, collection.strategies
        self.check_strategy, self.blob, self.folder_file = (
            collection.check_strategy,
            collection.blob,
            collection.folder_file,
        )
        # questions to the open index must add the token's filter
        self.open_index, self.await_snapshot = collection.open_index, collection.await_snapshot
        self.waiting = collection.waiting

    @property
    def is_made(self) -> bool:
        return self._collection.is_made

    @property
    def changed_at(self) -> float:
        """Time of the last change, or of the creation for a token with a filter, which may not see the change."""
        return self.record.created if self.token.filter is not None else self._collection.changed_at

    @property
    def embedder(self) -> str | None:
        return self._collection.embedder

    def info(self) -> JsonDict:
        """Describe the collection for clients, with counts of the documents that the token sees."""
        info = self._collection.info()
        if (ids := self._visible_ids) is not None:
            leaves, characters = self._collection.index.store.reader().sizes(ids) if ids else (0, 0)
            info |= {"documents": len(ids), "leaves": leaves, "characters": characters, "indexing": None}
        return info

    def indexing(self) -> JsonDict | None:
        """Describe the indexing in progress. None for a token with a filter, which sees only indexed documents."""
        return None if self.token.filter is not None else self._collection.indexing()

    def with_chat(self, chat: str | None) -> mw.Index:
        """Return the index with the chat model of this name. Questions must add the token's filter."""
        if self.token.filter is not None and not self.is_made:
            raise HTTPProblem(409, "empty", f"collection {self.name} has no documents yet")
        return self._collection.with_chat(chat)

    # -- documents

    @cached_property
    def _visible_ids(self) -> frozenset[str] | None:
        """The ids of the documents that the token sees, or None for all."""
        return None if self.token.filter is None else self._collection.ids_within(self.token.filter)

    def sees(self, doc_id: str) -> bool:
        return self._visible_ids is None or doc_id in self._visible_ids

    def ids_within(self, condition: Json | str) -> frozenset[str]:
        """Return the ids of the documents that the token sees and that match the condition."""
        ids = self._collection.ids_within(condition)
        return ids if self._visible_ids is None else ids & self._visible_ids

    def documents(
        self,
        prefix: str = "",
        *,
        statuses: Collection[DocumentStatus] | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[DocumentEntry]:
        """Return documents by id, including waiting and failed ones, from the id `after` on."""
        if self._visible_ids is not None:
            has_any = statuses is None or "indexed" in statuses
            seen = (id for id in self._visible_ids if has_any and id.startswith(prefix) and id > (after or ""))
            return [self.entry(id) for id in nsmallest(limit, seen)]
        if statuses is not None and "indexed" not in statuses:
            # most documents are indexed: look up the others separately
            states = self._states(prefix=prefix, statuses=statuses, after=after, limit=limit)
            return [DocumentEntry(state.id, self._info(state.id), state) for state in states]
        found: list[DocumentEntry] = []
        while len(found) < limit:
            infos = self._collection.index.documents(prefix, after=after, limit=limit) if self.is_made else []
            states = self._states(prefix=prefix, after=after, limit=limit)
            # up to the first end of the two lists, if one goes on
            after = min((rows[-1].id for rows in (infos, states) if len(rows) == limit), default=None)
            indexed = {info.id: info for info in infos if after is None or info.id <= after}
            known = {state.id: state for state in states if after is None or state.id <= after}
            # a document that was indexed and is not in the index has been removed
            ids = sorted({*indexed, *(id for id, state in known.items() if state.status != "indexed")})
            entries = (DocumentEntry(id, indexed.get(id), known.get(id)) for id in ids)
            # a document without a state is indexed
            found += [one for one in entries if statuses is None or not one.state or one.state.status in statuses]
            if after is None:
                break
        return found[:limit]

    def entry(self, doc_id: str) -> DocumentEntry:
        """Look up a document. Raises HTTPProblem 404 if it does not exist or is hidden from the token."""
        return existing(self.find(doc_id), "document")

    def find(self, doc_id: str) -> DocumentEntry | None:
        """Look up a document. Return None if it does not exist or is hidden from the token."""
        if not self.sees(doc_id):
            return None
        info, state = self._info(doc_id), next(iter(self._states(ids=[doc_id])), None)
        if info is None and (state is None or state.status == "indexed"):
            return None
        return DocumentEntry(doc_id, info, state)

    def indexed(self, ids: Iterable[str]) -> set[str]:
        """Return the documents among these that are in the index and that the token sees."""
        return {id for id in ids if (found := self.find(id)) is not None and found.info is not None}

    def _info(self, doc_id: str) -> DocumentInfo | None:
        """Return the index's entry of a document, if any."""
        found = self._collection.index.documents(doc_id, limit=1) if self.is_made else []
        return found[0] if found and found[0].id == doc_id else None

    def _states(self, **wanted: Any) -> list[DocumentState]:
        """Return states of documents, as `State.document_states` does, without jobs that the token may not see."""
        states = self._state.documents.find(self.name, **wanted)
        if self.token.filter is not None:
            # the bytes and the error of an upload may belong to another document that is not indexed yet
            return [
                replace(one, status="indexed", job=None, error=None) for one in states if one.indexed_at is not None
            ]
        return states if self.service.own_jobs is None else [replace(one, job=None) for one in states]

    def unfinished(self) -> list[DocumentState]:
        """Return the states of the documents that wait or failed. A token with a filter sees none."""
        return [] if self.token.filter is not None else self._states(statuses=["queued", "indexing", "failed"])

    def states_of(self, ids: Collection[str]) -> dict[str, DocumentState]:
        """Map the ids of documents to their states. Documents that the token does not see have none."""
        return {one.id: one for one in self._states(ids=[id for id in ids if self.sees(id)])}

    def document(self, doc_id: str, hint: str = "") -> Document:
        """Return an indexed document with its text. Raises HTTPProblem 404 if it does not exist or is hidden from the token."""
        return existing(self.find_document(doc_id) if self.is_made else None, "document", hint)

    def find_document(self, doc_id: str) -> Document | None:
        """Return an indexed document, or None if it does not exist or is hidden from the token."""
        try:
            return self._collection.index.document(doc_id) if self.sees(doc_id) else None
        except UsageError:
            return None

    def without_hidden_steps(self, traced: Traced) -> Traced:
        """Return a context or an answer without the trace steps on documents that the token does not see."""
        if self.token.filter is None:
            return traced

        def is_seen(step: Step) -> bool:
            return all(span is None or self.sees(span.doc_id) for span in (*step.inputs, step.output))

        return replace(traced, trace=tuple(filter(is_seen, traced.trace)))

    def attachment(self, file_id: str) -> Attachment | None:
        """Return the document of a received file, or None if the token does not see it."""
        found = self.service.files.attachment(file_id, self.name)
        return found if found is not None and self.sees(found.document) else None

    @property
    def conversations(self) -> OwnConversations:
        """The token's conversations with the collection."""
        return self._state.conversations(self.token, self.name)

    def rated_turns(self) -> list[JsonDict]:
        """Return the rated answers of all tokens. Raises HTTPProblem 403 without the scope for it."""
        check_scope(self.token, "feedback")
        return self.conversations.rated_turns()

    # -- changes

    def writable(self) -> ServedCollection:
        """Return the collection itself. Raises HTTPProblem 403 if the token may not write, and Conflict if it is read-only."""
        check_scope(self.token, "write")
        self._state.jobs.check_changeable(self.name)
        return self._collection

    def change(self, **changes: Any) -> JsonDict:
        """Change the collection as `State.update_collection` does. Return the new description. Raises HTTPProblem 403 and 404."""
        check_scope(self.token, "admin")
        self._collection.record = existing(self._state.collections.change(self.name, **changes), "collection")
        return self.info()

    def enqueue(
        self,
        kind: JobKind,
        request: Json | None = None,
        uploads: Sequence[Upload] = (),
        idempotency_key: str | None = None,
    ) -> Job:
        """Enqueue a job. A repeated request with the same idempotency key gets the existing job. Raises HTTPProblem 403."""
        check_scope(self.token, "admin" if kind == "drop" else "write")
        same = json.dumps([kind, self.name, request, [asdict(upload) for upload in uploads]], sort_keys=True)
        key = None
        if idempotency_key is not None:
            key = f"{self.token.id}:{idempotency_key}", sha256(same.encode()).hexdigest()
        return self._state.jobs.enqueue(kind, self.name, request, uploads=uploads, token=self.token.id, idempotency=key)

    def named_ids(self, ids: Iterable[str] | None, prefix: str) -> list[str]:
        """Return the indexed and waiting documents among `ids`, or those with the prefix. Raises HTTPProblem 403."""
        check_scope(self.token, "write")
        indexed = [info.id for info in self._collection.index.documents(prefix)] if self.is_made else []
        known = {*indexed, *(one.id for one in self._states(prefix=prefix) if one.status != "indexed")}
        return sorted(known if ids is None else known.intersection(ids))
