"""The folder of received files, which clients send once and then attach to collections.

DATA/files/file-ID.json              its name, size and digest, and whose it is
DATA/files/file-ID.COLLECTION.json   the document and the job that it became there
DATA/files/ab/ab12..                 its bytes, by their sha256; those that were sent a day ago go
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from mergewise.files import write_whole
from mergewise.server.problems import HTTPProblem, unknown
from mergewise.server.records import Token, Upload
from mergewise.server.spool import blob_path, sweep_blobs

KEPT_SECONDS = 86_400.0
_ID = re.compile(r"file-[0-9a-f]{32}")
_FILES = "file-" + "[0-9a-f]" * 32 + ".json"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that was received. `token` is the id of the token that sent it: others do not see it."""

    id: str
    name: str
    bytes: int
    sha256: str
    purpose: str
    created: float
    token: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.bytes,
            "created_at": int(self.created),
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
        }


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a file became in a collection."""

    file: str
    document: str
    job: str
    created: float


@dataclass(frozen=True, slots=True)
class FileStore:
    folder: Path

    def get(self, id: str, token: Token) -> ReceivedFile:
        """Raises HTTPProblem 404 for one that there is not, or that somebody else sent."""
        found = _record_in(self.folder / f"{id}.json", ReceivedFile) if _ID.fullmatch(id) else None
        if found is None or not _is_shown(found, token):
            raise unknown("file")
        return found

    def files(self, token: Token) -> list[ReceivedFile]:
        """The newest first."""
        shown = [one for one in self._all() if _is_shown(one, token)]
        return sorted(shown, key=lambda one: (-one.created, one.id))

    def _all(self) -> Iterator[ReceivedFile]:
        for path in self.folder.glob(_FILES):
            if found := _record_in(path, ReceivedFile):
                yield found

    def keep(self, file: ReceivedFile) -> None:
        self._write(file.id, asdict(file))

    def bytes_of(self, file: ReceivedFile) -> Path:
        """Raises HTTPProblem 404 where they are gone."""
        place = blob_path(self.folder, file.sha256)
        if not place.exists():
            raise HTTPProblem(404, "gone", "the bytes of the file went after a day", "send it again")
        return place

    def upload(self, file: ReceivedFile, blobs: Path, attributes: Mapping[str, Any]) -> Upload:
        """The file as a document to be indexed, with its bytes among the blobs of a collection."""
        source, place = self.bytes_of(file), blob_path(blobs, file.sha256)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.link(source, place)
        # young again for the sweep
        os.utime(place)
        return Upload(file.name, file.sha256, file.name, file.bytes, metadata=dict(attributes))

    def attachment(self, id: str, collection: str) -> Attachment | None:
        return _record_in(self.folder / f"{id}.{collection}.json", Attachment) if _ID.fullmatch(id) else None

    def note(self, attachment: Attachment, collection: str) -> None:
        self._write(f"{attachment.file}.{collection}", asdict(attachment))

    def detach(self, id: str, collection: str) -> None:
        """The file is no more a document there."""
        if _ID.fullmatch(id):
            (self.folder / f"{id}.{collection}.json").unlink(missing_ok=True)

    def drop(self, file: ReceivedFile) -> None:
        """The file is forgotten; documents that it became stay, and are known by their keys."""
        for path in self.folder.glob(f"{file.id}*.json"):
            path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Drop bytes that were sent a day ago: what was attached has them in its collection."""
        last = time.time() - KEPT_SECONDS
        sweep_blobs(self.folder, {one.sha256 for one in self._all() if one.created > last})

    def _write(self, name: str, record: Mapping[str, Any]) -> None:
        write_whole(self.folder / f"{name}.json", json.dumps(record).encode(), mode=0o600)


def _is_shown(file: ReceivedFile, token: Token) -> bool:
    return file.token == token.id or token.may("admin")


def _record_in(path: Path, kind: type[Record]) -> Record | None:
    """The record in a file; None where there is none."""
    try:
        return kind(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
