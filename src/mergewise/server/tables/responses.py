"""Kept responses of the OpenAI-compatible API."""

from __future__ import annotations

import json
import time

from mergewise.server.database import Database
from mergewise.server.records import Token
from mergewise.server.tables.rows import ALL, insert
from mergewise.types import Json, JsonDict, frozen

RESPONSE_SECONDS, MOST_RESPONSES = 30 * 86_400.0, 200
"""Seconds for which responses are kept, and their number per token."""


@frozen
class OwnResponses:
    """The responses of a token with its rights (`Token.owner`)."""

    database: Database
    token: Token

    def keep(self, id: str, body: Json) -> None:
        """Keep a response. Drop expired ones, and the oldest of the token if it has too many."""
        now, owner = time.time(), self.token.owner
        with self.database.change(lasting=False) as rows:
            insert(
                rows,
                "responses",
                {"id": id, "token": self.token.id, "owner": owner, "created": now, "body": dict(body)},
            )
            rows.execute("DELETE FROM responses WHERE created < ?", [now - RESPONSE_SECONDS])
            oldest = f"SELECT id FROM responses WHERE owner = ? ORDER BY created DESC LIMIT {ALL} OFFSET ?"
            rows.execute(f"DELETE FROM responses WHERE id IN ({oldest})", [owner, MOST_RESPONSES])

    def get(self, id: str) -> JsonDict | None:
        """Return what `keep` kept, or None if it is expired or if a token with other rights made it."""
        query = "SELECT body FROM responses WHERE id = ? AND owner = ? AND created > ?"
        rows = self.database.rows(query, [id, self.token.owner, time.time() - RESPONSE_SECONDS])
        return json.loads(rows[0]["body"]) if rows else None

    def drop(self, id: str) -> bool:
        """Delete a response. Return True if it existed."""
        query = "DELETE FROM responses WHERE id = ? AND owner = ?"
        with self.database.change() as rows:
            return bool(rows.execute(query, [id, self.token.owner]).rowcount)
