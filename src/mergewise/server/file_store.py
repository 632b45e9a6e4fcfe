"""Received files in the server's state. Clients send a file once, and then attach it to collections.

The bytes are in STORAGE/files/ab/ab12.. by their sha256. The writer deletes them a day after they were last sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mergewise.server.database import Database
from mergewise.server.problems import HTTPProblem, unknown
from mergewise.server.records import Token, Upload
from mergewise.server.spool import link_blob, local_blob
from mergewise.server.tables.rows import columns, insert
from mergewise.types import Json, JsonDict, frozen


@frozen
class ReceivedFile:
    """A received file. `token` is the id of the token that sent it; other tokens cannot see it."""

    id: str
    name: str
    bytes: int
    sha256: str
    purpose: str
    created: float
    token: str

    def as_dict(self) -> JsonDict:
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.bytes,
            "created_at": int(self.created),
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
        }


@frozen
class Attachment:
    """The document and the job of a file in a collection."""

    file: str
    document: str
    job: str
    created: float


@frozen
class FileStore:
    """The files in a database, as a token sees them: its own, or all for an admin of the whole server.

    Their bytes are in `folder`, with copies of those in a bucket in `cache`.
    """

    database: Database
    folder: Path
    cache: Path
    token: Token

    def get(self, id: str) -> ReceivedFile:
        """Return a file. Raises HTTPProblem 404 if it does not exist, or if the token may not see it."""
        if not (found := self._seen("SELECT * FROM files WHERE id = ?", [id])):
            raise unknown("file")
        return found[0]

    def all(self) -> list[ReceivedFile]:
        """List the files, newest first."""
        return self._seen("SELECT * FROM files ORDER BY created DESC, id")

    def _seen(self, query: str, values: Sequence[str] = ()) -> list[ReceivedFile]:
        sees_all = self.token.may("admin") and not self.token.is_restricted
        own = None if self.token.filter is not None else self.token.id
        files = [ReceivedFile(**row) for row in self.database.rows(query, values)]
        return [file for file in files if sees_all or file.token == own]

    def keep(self, file: ReceivedFile) -> None:
        with self.database.change() as rows:
            insert(rows, "files", columns(file))

    def bytes_of(self, file: ReceivedFile) -> Path:
        """Return the path of a file's bytes. Raises HTTPProblem 404 if they were deleted."""
        place = local_blob(self.folder, file.sha256, self.cache)
        if not place.exists():
            raise HTTPProblem(404, "gone", "the file's bytes were deleted after a day", "send the file again")
        return place

    def upload(self, file: ReceivedFile, blobs: Path, attributes: Json) -> Upload:
        """Link the file's bytes into a collection's blobs, and return the document to index."""
        link_blob(self.bytes_of(file), file.sha256, blobs)
        return Upload(file.name, file.sha256, file.name, file.bytes, metadata=dict(attributes))

    def attachment(self, id: str, collection: str) -> Attachment | None:
        query = "SELECT file, document, job, created FROM attachments WHERE file = ? AND collection = ?"
        rows = self.database.rows(query, [id, collection])
        return Attachment(**rows[0]) if rows else None

    def note(self, attachment: Attachment, collection: str) -> None:
        with self.database.change() as rows:
            insert(rows, "attachments", {**columns(attachment), "collection": collection}, "file, collection")

    def detach(self, id: str, collection: str) -> None:
        """Forget the document of a file in a collection."""
        with self.database.change() as rows:
            rows.execute("DELETE FROM attachments WHERE file = ? AND collection = ?", [id, collection])

    def drop(self, file: ReceivedFile) -> None:
        """Forget a file. Its documents stay, and keep their keys."""
        with self.database.change() as rows:
            rows.execute("DELETE FROM files WHERE id = ?", [file.id])
