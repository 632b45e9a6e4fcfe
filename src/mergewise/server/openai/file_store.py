"""The folder of received files. Clients send a file once, and then attach it to collections.

DATA/files/file-ID.json              name, size, digest and owner of a file
DATA/files/file-ID.COLLECTION.json   its document and job in a collection
DATA/files/ab/ab12..                 its bytes by their sha256, deleted by the writer a day after they were last sent or attached
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from mergewise.files import write_whole
from mergewise.server.problems import HTTPProblem, unknown
from mergewise.server.records import Token, Upload
from mergewise.server.spool import blob_path

_ID = re.compile(r"file-[0-9a-f]{32}")
_FILES = "file-" + "[0-9a-f]" * 32 + ".json"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A received file. `token` is the id of the token that sent it; other tokens cannot see it."""

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
    """The document and the job of a file in a collection."""

    file: str
    document: str
    job: str
    created: float


@dataclass(frozen=True, slots=True)
class FileStore:
    folder: Path

    def get(self, id: str, token: Token) -> ReceivedFile:
        """Return a file. Raises HTTPProblem 404 if it does not exist, or if the token may not see it."""
        found = _record_in(self.folder / f"{id}.json", ReceivedFile) if _ID.fullmatch(id) else None
        if found is None or not _is_shown(found, token):
            raise unknown("file")
        return found

    def files(self, token: Token) -> list[ReceivedFile]:
        """List the files that the token may see, newest first."""
        found = (_record_in(path, ReceivedFile) for path in self.folder.glob(_FILES))
        shown = [one for one in found if one is not None and _is_shown(one, token)]
        return sorted(shown, key=lambda one: (-one.created, one.id))

    def keep(self, file: ReceivedFile) -> None:
        self._write(file.id, asdict(file))

    def bytes_of(self, file: ReceivedFile) -> Path:
        """Return the path of a file's bytes. Raises HTTPProblem 404 if they were deleted."""
        place = blob_path(self.folder, file.sha256)
        if not place.exists():
            raise HTTPProblem(404, "gone", "the file's bytes were deleted after a day", "send the file again")
        return place

    def upload(self, file: ReceivedFile, blobs: Path, attributes: Mapping[str, Any]) -> Upload:
        """Link the file's bytes into a collection's blobs, and return the document to index."""
        source, place = self.bytes_of(file), blob_path(blobs, file.sha256)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.link(source, place)
        # protect the bytes from the next sweep
        os.utime(place)
        return Upload(file.name, file.sha256, file.name, file.bytes, metadata=dict(attributes))

    def attachment(self, id: str, collection: str) -> Attachment | None:
        return _record_in(self.folder / f"{id}.{collection}.json", Attachment) if _ID.fullmatch(id) else None

    def note(self, attachment: Attachment, collection: str) -> None:
        self._write(f"{attachment.file}.{collection}", asdict(attachment))

    def detach(self, id: str, collection: str) -> None:
        """Forget the document of a file in a collection."""
        if _ID.fullmatch(id):
            (self.folder / f"{id}.{collection}.json").unlink(missing_ok=True)

    def drop(self, file: ReceivedFile) -> None:
        """Forget a file. Its documents stay, and keep their keys."""
        for path in self.folder.glob(f"{file.id}*.json"):
            path.unlink(missing_ok=True)

    def _write(self, name: str, record: Mapping[str, Any]) -> None:
        write_whole(self.folder / f"{name}.json", json.dumps(record).encode(), mode=0o600)


def _is_shown(file: ReceivedFile, token: Token) -> bool:
    is_own = file.token == token.id and token.filter is None
    return is_own or (token.may("admin") and not token.is_restricted)


def _record_in(path: Path, kind: type[Record]) -> Record | None:
    """Load a record from a file. Return None if it is missing or invalid."""
    try:
        return kind(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
