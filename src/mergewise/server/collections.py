"""The collections of a worker: indexes open for questions, by name."""

from __future__ import annotations

import binascii
import json
import os
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import mergewise as mw
from mergewise.errors import MergewiseError, ReadError, StoreError
from mergewise.extend import (
    AT_ONCE,
    DEFAULT_BUDGET,
    STRATEGY,
    digest_of,
    file_bytes,
    is_url,
    load_chat,
    release,
    search_settings,
    split_digest,
    state_file,
)
from mergewise.server.admission import SlotReleasingChat
from mergewise.server.configuration import ServerConfig, folder_roots
from mergewise.server.logs import log
from mergewise.server.models import ModelConfig
from mergewise.server.problems import HTTPProblem, invalid, unknown
from mergewise.server.records import CollectionRecord, JobProgress
from mergewise.server.spool import local_blob
from mergewise.server.state import State
from mergewise.types import Json, JsonDict

if TYPE_CHECKING:
    from mergewise import Index
    from mergewise.protocols import ChatModel


OPEN_AGAIN_SECONDS = 2.0
"""Seconds between two attempts to open an index in a bucket."""
_NOT_OPEN = "The index of this collection is not open yet"
_BEHIND = "The index of this collection is older than the snapshot, and its bucket does not answer"
_TRY_AGAIN = "try again in a few seconds; the server's log has the reason"
NO_CHAT = "extractive"
"""The name that means "without a chat model"."""
# number of filters whose documents are kept
_KEPT_FILTERS = 64


def key_of(doc_id: str) -> str:
    """Encode a document id for URL paths: base64url without padding."""
    return urlsafe_b64encode(doc_id.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def id_of(key: str) -> str:
    """Decode the document id of a key. Raises HTTPProblem 404 if the key is invalid."""
    try:
        doc_id = urlsafe_b64decode(key.encode("ascii") + b"=" * (-len(key) % 4)).decode("utf-8")
    except (UnicodeError, binascii.Error):
        raise unknown("document") from None
    if key_of(doc_id) != key:
        raise unknown("document")
    return doc_id


def indexing_notice(done: int, total: int) -> str:
    """Say how far indexing is, for people who ask before its end. The share is rounded down, and 0 for an unknown total."""
    return f"Indexing is at {100 * done // max(1, total)} %: answers may be incomplete"


class Collection:
    """A collection and its index, which is opened on first use and then stays open."""

    def __init__(self, record: CollectionRecord, config: ServerConfig, chats: Chats, state: State) -> None:
        self.record, self.name, self.is_in_bucket = record, record.name, is_url(record.path)
        # the collection's table of the configuration
        self.own, self.blobs = config.collection(record.name), Path(record.blobs)
        self._config, self._chats, self._state = config, chats, state
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._chat_indexes: dict[ModelConfig, Index] = {}
        self._counted: JsonDict = {}
        self._ids = lru_cache(_KEPT_FILTERS)(
            lambda snapshot, condition: frozenset(self.index.find("*", where=json.loads(condition))["*"])
        )
        # an index in a bucket: the thread that opens it, and the time at which each snapshot was noticed
        self._opening: threading.Thread | None = None
        self._closed = threading.Event()
        self._noticed = ("", 0.0)

    @property
    def is_made(self) -> bool:
        """True once the index can be used. A collection without an index is empty.

        An index in a bucket is opened by a thread, since the bucket may take long to answer.
        """
        if not self.is_in_bucket:
            return state_file(Path(self.record.path)).exists()
        with self._lock:
            if self._opening is None:
                self._opening = threading.Thread(target=self._keep_opening, name=f"open {self.name}", daemon=True)
                self._opening.start()
        return self._index is not None

    @property
    def index(self) -> Index:
        """The index, open for questions. Raises HTTPProblem 409 if it does not exist yet, and all errors of `mergewise.open`.

        Raises HTTPProblem 503 if a bucket does not answer.
        """
        if self._index is None and not self.is_made:
            if self.is_in_bucket:
                raise HTTPProblem(503, "index-not-open", _NOT_OPEN, _TRY_AGAIN, retry_after=OPEN_AGAIN_SECONDS)
            notice = (self.indexing() or {"notice": "add some"})["notice"]
            raise HTTPProblem(409, "empty", f"collection {self.name} has no documents yet", notice)
        with self._lock:
            if self._index is None:
                self._index = self._open()
            return self._index

    def await_snapshot(self, wanted: str) -> None:
        """Wait until the index has this snapshot or a later one. Raises HTTPProblem 503 if the bucket does not answer.

        A state that is read after the request is no older than one that the client knows. That of a folder is always read.
        """
        if self.is_in_bucket and self.index.snapshot != wanted:
            try:
                self.index.store.refresh()
            except StoreError:
                raise HTTPProblem(503, "index-behind", _BEHIND, _TRY_AGAIN, retry_after=OPEN_AGAIN_SECONDS) from None

    def _open(self) -> Index:
        limits = self._config.limits
        # the writer notes the spec of the embedder of an index in a directory
        embedder = self._config.embedder(self.record.embedder)
        embedder = embedder if self.is_in_bucket or not isinstance(embedder, str) else None
        return mw.open(
            self.record.path,
            create=False,
            ceilings=mw.Ceilings(k=limits.k, candidates=limits.candidates),
            search_settings=search_settings(self.own.search),
            weights=self.own.weights,
            embedder=embedder,
            cache=self._config.cache if self.is_in_bucket else None,
            root=folder_roots(self.record.path, self.own.folders),
            ray=self._config.ray,
        )

    def _keep_opening(self) -> None:
        """Open the index in a bucket and load its files. Try again until it succeeds."""
        reason = ""
        while not self._closed.is_set():
            try:
                index = self._open()
                with suppress(MergewiseError):
                    index.context("what is here?")
            except (MergewiseError, OSError) as error:
                if str(error) != reason:
                    reason = str(error)
                    log.warning("cannot open the index of %s, trying again: %s", self.name, error)
                self._closed.wait(OPEN_AGAIN_SECONDS)
                continue
            with self._lock:
                if self._closed.is_set():
                    index.close()
                else:
                    self._index = index
            return

    def with_chat(self, chat: str | None) -> Index:
        """Return the index with the chat model of this name, or with the default chat model for None.

        Raises HTTPProblem 422 for an unknown name.
        """
        name = self._chat_name(chat)
        if name == NO_CHAT:
            return self.index
        model, index = self._chats.get(name), self.index
        with self._lock:
            return self._chat_indexes.setdefault(self._config.chats[name], index.with_chat(model))

    def open_index(self, chat: str | None) -> Index | None:
        """Return the index of `with_chat` if it is open already, else None. Never blocks."""
        name = self._chat_name(chat)
        model = self._config.chats.get(name)
        return self._index if name == NO_CHAT else None if model is None else self._chat_indexes.get(model)

    def _chat_name(self, chat: str | None) -> str:
        return chat or self.record.defaults.get("chat") or self._config.default_chat or NO_CHAT

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            if self._index is not None:
                self._index.close()
            self._index, self._chat_indexes = None, {}

    def blob(self, sha256: str) -> Path:
        """Return the path of the bytes of an upload, or of a copy."""
        return local_blob(self.blobs, sha256, self._config.cache)

    def folder_file(self, doc_id: str) -> bytes | None:
        """Return the file of a document in a folder of the configuration, or None without the bytes that were indexed."""
        if not self.own.folders or not self.is_made:
            return None
        known = self.index.store.reader().known_documents([doc_id])
        path = self.index.files([doc_id]).get(doc_id, Path())
        for folder in map(os.path.realpath, self.own.folders):
            if path.is_relative_to(folder):
                with suppress(ReadError):
                    content = file_bytes(path, None if self.own.follow_links else Path(folder))
                    return content if digest_of(content) == split_digest(known[0].digest)[0] else None
        return None

    def url(self, doc_id: str, start: int | None = None, end: int | None = None) -> str:
        """Return the URL of the document, or of a span of the document, on the server's page."""
        place = "" if start is None else f"?s={start}-{end}"
        return f"{(self._config.public_url or '').rstrip('/')}/#/c/{self.name}/d/{key_of(doc_id)}{place}"

    @property
    def embedder(self) -> str | None:
        """The spec of the index's embedder, or the name for an index that does not exist yet (None: the default)."""
        return self.index.manifest.embedder if self.is_made else self.record.embedder

    def strategies(self) -> list[str]:
        """Return the strategies that clients may use: allowed by the configuration, with all their views in the index."""
        allowed = self.own.strategies
        views = set(self.index.manifest.views) if self.is_made else set(self.record.views)
        return [
            name
            for name, strategy in mw.STRATEGIES.items()
            if views.issuperset(strategy.views) and (not allowed or name in allowed)
        ]

    def check_strategy(self, spec: str, field: str) -> None:
        """Check that the configuration allows the strategy. Raises HTTPProblem 422 if not."""
        allowed = self.own.strategies
        if allowed and spec.partition("(")[0].strip() not in allowed:
            raise invalid(f"/{field}", f"strategy not allowed here: {spec!r}", f"one of: {', '.join(allowed)}")

    def info(self) -> JsonDict:
        """Describe the collection for clients. The counts are cached per snapshot of the index."""
        record = self.record
        return {
            "name": record.name,
            "title": record.title,
            "indexing": self.indexing(),
            "strategies": self.strategies(),
            "defaults": {"strategy": STRATEGY, "budget": DEFAULT_BUDGET, **record.defaults},
            "metadata": dict(record.metadata),
            "configured": record.configured,
            "read_only": record.name in self._config.read_only,
            **self._counts(),
        }

    def indexing(self) -> JsonDict | None:
        """Describe the indexing of documents that waits, runs or has failed: {percent, notice, document}.

        The percentage is by characters. It is None if the folders of an empty collection could not be indexed. `document` is read
        now. Returns None if nothing is left to index.
        """
        progress, own = self._state.jobs.indexing_progress(self.name), self.own
        if progress is None and own.synced and not self._counts()["documents"]:
            last = self._state.jobs.last_sync(self.name)
            if last is not None and last.state == "failed":
                reason = str((last.error or {}).get("detail"))
                return {"percent": None, "notice": f"The folders of this collection could not be indexed: {reason}"}
            # the first run starts soon; after it, the folders are just empty
            progress = JobProgress() if last is None else None if last.has_ended else last.progress
        if progress is None:
            is_closed = self.is_in_bucket and not self.is_made
            return {"percent": None, "notice": _NOT_OPEN} if is_closed else None
        done, total = progress.done, progress.total
        return {
            "percent": 100 * done // max(1, total),
            "notice": indexing_notice(done, total),
            "document": progress.document,
        }

    def _counts(self) -> JsonDict:
        """Describe the contents of the index."""
        snapshot, record = self.index.snapshot if self.is_made else None, self.record
        if snapshot is None:
            empty = dict.fromkeys(("documents", "leaves", "characters"), 0)
            return {**empty, "embedder": record.embedder, "views": list(record.views), "snapshot": None}
        if self._counted.get("snapshot") != snapshot:
            leaves, characters = self.index.store.reader().sizes()
            manifest = self.index.manifest
            self._counted = {
                "documents": len(self.index),
                "leaves": leaves,
                "characters": characters,
                "embedder": manifest.embedder,
                "views": list(manifest.views),
                "snapshot": snapshot,
            }
        return self._counted

    def waiting(self, doc_ids: Sequence[str]) -> set[str]:
        """Return the documents among these with vectors that wait: only their words are found."""
        if not self.is_made:
            return set()
        reader = self.index.store.reader()
        rows = reader.unembedded()
        found = reader.leaf_ranges(doc_ids) if len(rows) else {}
        return {doc_id for doc_id, own in found.items() if len(rows[(rows >= own.start) & (rows < own.stop)])}

    @property
    def changed_at(self) -> float:
        """Time of the index's last change in seconds since 1970, or the current time without an index.

        For a bucket, the time at which this worker noticed the change.
        """
        if self.is_in_bucket:
            snapshot = "" if self._index is None else self._index.snapshot
            if snapshot != self._noticed[0]:
                self._noticed = snapshot, time.time()
            return self._noticed[1] or time.time()
        try:
            return state_file(Path(self.record.path)).stat().st_mtime
        except OSError:
            return time.time()

    def ids_within(self, condition: Json | str) -> frozenset[str]:
        """Return the ids of the documents that match a condition, cached per snapshot of the index."""
        return self._ids(self.index.snapshot, json.dumps(condition, sort_keys=True)) if self.is_made else frozenset()


class Chats:
    """The chat models of the configuration, each loaded once."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._models: dict[ModelConfig, SlotReleasingChat] = {}

    def get(self, name: str) -> ChatModel:
        """Return a chat model whose callers release their slot while they wait. Raises HTTPProblem 422 for an unknown name."""
        if name not in self._config.chats:
            names = [*self._config.chats, NO_CHAT]
            raise invalid("/chat", f"unknown chat model: {name!r}", f"one of: {', '.join(names)}")
        model = self._config.chats[name]
        with self._lock:
            if model not in self._models:
                # each caller holds one of the `streams` places, so more connections are never needed
                places = min(self._config.limits.streams, int(AT_ONCE.high))
                chat = model.chat(concurrency=places)
                loaded = load_chat(chat, model.window) if isinstance(chat, str) else chat
                if loaded is None:
                    raise mw.UsageError(f"not a chat model: {chat!r}", "remove it from [chats] in the configuration")
                self._models[model] = SlotReleasingChat(loaded)
            return self._models[model]

    def close(self) -> None:
        """Close the connections of the models."""
        with self._lock:
            while self._models:
                release(self._models.popitem()[1].chat)


class Collections:
    """The collections that this worker serves. Collections that another process adds or drops are noticed at once."""

    def __init__(self, config: ServerConfig, state: State) -> None:
        self._config, self._state = config, state
        self._chats = Chats(config)
        self._lock = threading.Lock()
        self._known: dict[str, Collection] = {}

    def get(self, name: str) -> Collection | None:
        record = self._state.collections.get(name)
        return None if record is None else self._collection_of(record)

    def all(self) -> list[Collection]:
        """Return all collections, ordered by name."""
        return [self._collection_of(record) for record in self._state.collections.all()]

    def close(self) -> None:
        """Close all indexes and chat models."""
        with self._lock:
            known, self._known = list(self._known.values()), {}
        for collection in known:
            collection.close()
        self._chats.close()

    def _collection_of(self, record: CollectionRecord) -> Collection:
        with self._lock:
            known = self._known.get(record.name)
            if known is not None and (known.record.path, known.record.created) == (record.path, record.created):
                known.record = record
                return known
            fresh = self._known[record.name] = Collection(record, self._config, self._chats, self._state)
        if known is not None:
            known.close()
        return fresh
