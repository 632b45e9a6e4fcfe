"""Objects below a prefix of a bucket, with conditional puts: a put fails if another one came first."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any, NamedTuple

from mergewise.errors import MissingExtra, StoreError, UsageError
from mergewise.ranges import short_repr
from mergewise.redaction import remember_key
from mergewise.store.damage import line, tells_full_disk

# seconds between the attempts of a put, as long as nobody else has put the object
PAUSES = (0.1, 0.5, 2.0)
_SECRET = re.compile(r"secret|token|password|sas|_key$|account_key", re.IGNORECASE)
_CLIENT = frozenset({"allow_http", "connect_timeout", "timeout", "proxy_url", "allow_invalid_certificates"})
_RETRIES, _RETRY_SECONDS = "client_max_retries", "client_retry_timeout"


class Superseded(Exception):
    """Another writer has put the object since it was read."""


class StoredObject(NamedTuple):
    """Content and ETag of an object, and the time of its put by the clock of the object store."""

    content: bytes
    tag: str
    put_at: datetime


class ListedObject(NamedTuple):
    """An entry of a listing: name relative to the prefix, size in bytes, time of the put, and ETag."""

    name: str
    bytes: int
    put_at: datetime
    tag: str


class Objects:
    """The objects below a prefix of a bucket. `storage` holds LanceDB's client options, such as `endpoint` and `region`.

    Every method raises StoreError if the object store is unreachable, refuses access or fails.
    """

    def __init__(self, url: str, storage: Mapping[str, str]) -> None:
        if "@" in url or "?" in url:
            raise UsageError(
                "invalid URL of a bucket: it contains credentials", "give them as `storage` or in the environment"
            )
        if not all(isinstance(part, str) for pair in storage.items() for part in pair):
            raise UsageError(
                "invalid storage options: expected texts", 'give a dictionary such as {"region": "eu-west-1"}'
            )
        for name, value in {**os.environ, **storage}.items():
            # in the environment, only the variables that object stores read
            if _SECRET.search(name) and (name in storage or name.startswith(("AWS_", "GOOGLE_", "AZURE_"))):
                remember_key(value)
        if "allow_http" not in storage and (plain := os.environ.get("AWS_ALLOW_HTTP")):
            # LanceDB reads this variable by itself, the other client does not
            storage = {**storage, "allow_http": plain}
        self.url = url
        self.storage = dict(storage)
        try:
            import obstore
        except ImportError as error:
            raise MissingExtra("the client of object stores", "s3", error) from None
        # the retry options of LanceDB, so that both clients give up alike
        retrying: dict[str, Any] = {}
        try:
            if _RETRIES in storage:
                retrying["max_retries"] = int(storage[_RETRIES])
            if _RETRY_SECONDS in storage:
                retrying["retry_timeout"] = timedelta(seconds=float(storage[_RETRY_SECONDS]))
        except ValueError:
            wrong = short_repr({name: storage[name] for name in (_RETRIES, _RETRY_SECONDS) if name in storage})
            hint = "give retries and seconds"
            raise UsageError(f"invalid storage options: {wrong} (expected numbers)", hint) from None
        self._obstore: Any = obstore
        self._error = obstore.exceptions.BaseError
        try:
            self._objects: Any = self._obstore.store.from_url(
                url,
                config={
                    name: value for name, value in storage.items() if name not in {*_CLIENT, _RETRIES, _RETRY_SECONDS}
                },
                client_options={
                    name: {"true": True, "false": False}.get(value.lower(), value)
                    for name, value in storage.items()
                    if name in _CLIENT
                },
                retry_config=retrying or None,
            )
        except (self._error, ValueError, TypeError) as error:
            raise UsageError(f"{url}: {line(error)}", "see docs/how-to/use-object-storage.md") from None

    def __repr__(self) -> str:
        return f"Objects({self.url!r})"

    def get_newer(self, name: str, tag: str) -> StoredObject | None:
        """Read an object if its tag has changed, else return None. Raise FileNotFoundError if it is missing."""
        try:
            found = self.get(name, {"if_none_match": tag})
        except self._obstore.exceptions.NotModifiedError:
            return None
        if found is None:
            raise FileNotFoundError(name)
        return found if found.tag != tag else None

    def get(self, name: str, options: Mapping[str, Any] | None = None) -> StoredObject | None:
        """Read an object. Return None if it is missing."""
        with self._reaching(passing=self._obstore.exceptions.NotModifiedError):
            try:
                answer = self._obstore.get(self._objects, name, options=options)
                content = bytes(answer.bytes())
            except FileNotFoundError:
                return None
            if len(content) != answer.meta["size"]:
                raise StoreError(f"incomplete download of {self.url}/{name}", "try again")
            return StoredObject(content, answer.meta["e_tag"], answer.meta["last_modified"])

    def swap(self, name: str, content: bytes, tag: str | None) -> str:
        """Put the content if the object still has the tag, or is still missing if `tag` is None. Return the new tag.

        The content must be unique to this writer, so that a put is recognised even if its response was lost.

        Raises:
            Superseded: if another writer came first.
        """
        for pause in (*PAUSES, None):
            try:
                mode = "create" if tag is None else {"e_tag": tag}
                return str(self._obstore.put(self._objects, name, content, mode=mode, use_multipart=False)["e_tag"])
            except (self._error, FileNotFoundError, OSError) as error:
                # the first attempt may have succeeded, and only a retry was refused
                found = self.get(name)
                if found is not None and found.content == content:
                    return found.tag
                if (None if found is None else found.tag) != tag:
                    raise Superseded(name) from None
                if pause is None:
                    raise self._failure(error) from error
            sleep(pause)
        raise AssertionError

    def put(self, name: str, content: bytes | Path) -> None:
        with self._reaching():
            self._obstore.put(self._objects, name, content)

    def download(self, name: str, to: Path) -> None:
        """Download an object to a file. Raise FileNotFoundError if the object is missing."""
        with self._reaching(passing=FileNotFoundError), to.open("wb") as file:
            answer = self._obstore.get(self._objects, name)
            for part in answer.stream():
                file.write(part)
        if to.stat().st_size != answer.meta["size"]:
            raise StoreError(f"incomplete download of {self.url}/{name}", "try again")

    def entries(self, below: str = "") -> Iterator[ListedObject]:
        """Yield all objects below a folder."""
        with self._reaching():
            for page in self._obstore.list(self._objects, below or None):
                names = ("path", "size", "last_modified", "e_tag")
                yield from (ListedObject(*(entry[name] for name in names)) for entry in page)

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects. Missing objects are ignored."""
        if not names:
            return
        with self._reaching():
            with suppress(FileNotFoundError):
                # this deletes a thousand objects per request if the object store supports it
                self._obstore.delete(self._objects, list(names))
                return
            for name in names:
                with suppress(FileNotFoundError):
                    self._obstore.delete(self._objects, name)

    def now(self, name: str) -> datetime:
        """Return the time of the object store's clock, read from an object that is put under this name."""
        with self._reaching():
            self._obstore.put(self._objects, name, os.urandom(16))
            return self._obstore.head(self._objects, name)["last_modified"]  # type: ignore[no-any-return]

    def check_conditional_writes(self, name: str) -> None:
        """Raise UsageError if the object store ignores conditions on a put. The check puts an object under this new name."""
        refusals = (self._obstore.exceptions.AlreadyExistsError, self._obstore.exceptions.PreconditionError)
        with self._reaching():
            self._obstore.put(self._objects, name, b"1", mode="create", use_multipart=False)
            refused = 0
            for mode in ("create", {"e_tag": '"another"'}):
                try:
                    self._obstore.put(self._objects, name, b"2", mode=mode, use_multipart=False)
                except refusals:
                    refused += 1
            self._obstore.delete(self._objects, name)
        if refused < 2:
            raise UsageError(
                f"{self.url} ignores conditions on a put (If-None-Match, If-Match), so two writers would lose documents",
                "choose an object store with conditional writes",
            )

    @contextmanager
    def _reaching(self, passing: type[Exception] | tuple[type[Exception], ...] = ()) -> Iterator[None]:
        try:
            yield
        except passing:
            raise
        except (self._error, OSError) as error:
            if tells_full_disk(error):
                # the local disk is full, not the object store
                raise
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> StoreError:
        exceptions = self._obstore.exceptions
        refused = (PermissionError, exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
        if isinstance(error, refused) or "403" in line(error):
            return StoreError(f"{self.url} refuses access: {line(error)}", "check the credentials and their rights")
        return StoreError(
            f"{self.url} cannot be reached: {line(error)}", "check the network and the endpoint; try again"
        )
