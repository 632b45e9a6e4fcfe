"""Conversations in the server's state, with the ratings of their answers. Deleted rows are overwritten on the disk.

Each owner sees only its own conversations. An owner is a token with its filter: users that a front end identifies by filters
share its token, but not their conversations.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from secrets import token_hex, token_urlsafe

from mergewise.server.configuration import ServeLimits
from mergewise.server.database import Database, Row
from mergewise.server.records import Token
from mergewise.server.tables.rows import ALL, insert
from mergewise.types import Json, JsonDict, frozen

MOST_TURNS = 500
"""Number of turns of a conversation. The oldest are dropped first."""
_LONGEST_TITLE = 80
_LIST = (
    "SELECT id, collection, title, created, changed, share, "
    "(SELECT count(*) FROM turns WHERE conversation = id) AS turns, "
    "(SELECT count(*) FROM turns WHERE conversation = id AND number <= shared_to) AS shared_turns FROM conversations"
)
_OWN = "WHERE owner = ? AND collection = ? AND id = ?"
_ANSWER = "coalesce(json_extract(data, '$.answer.answer'), '')"


@frozen
class ConversationRecord:
    """A conversation of an owner with a collection.

    `turns` counts its questions, `shared_turns` those that its link shows. `share` is the secret of the link.
    """

    id: str
    collection: str
    title: str
    created: float
    changed: float
    share: str | None
    turns: int
    shared_turns: int


class OwnConversations:
    """The conversations of a token with a collection."""

    def __init__(self, database: Database, token: Token, collection: str) -> None:
        self._database, self._token, self._collection = database, token, collection
        self._change, self._rows = database.change, database.rows
        self._key = [token.owner, collection]

    def add_turn(self, id: str, question: str, data: Json, limits: ServeLimits) -> JsonDict:
        """Add a question with its answer and context (`data`, as JSON). An unknown `id` begins a conversation.

        The owner's oldest conversations and turns are dropped when they exceed the limits. Returns {conversation, turn}.
        """
        now, body = time.time(), json.dumps(data, ensure_ascii=False)
        with self._change() as rows:
            if not rows.execute(f"UPDATE conversations SET changed = ? {_OWN}", [now, *self._key, id]).rowcount:
                id = f"conv_{token_hex(12)}"
                own = dict(zip(("owner", "collection"), self._key, strict=True)) | {"id": id, "token": self._token.id}
                line = " ".join(question.split())
                title = line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1].rstrip() + "…"
                insert(rows, "conversations", {**own, "created": now, "changed": now, "title": title})
            size = len(f"{question}{body}".encode("utf-8", "surrogatepass"))
            insert(rows, "turns", {"conversation": id, "question": question, "data": body, "bytes": size, "asked": now})
            (newest,) = rows.execute("SELECT max(number) AS n FROM turns WHERE conversation = ?", [id]).fetchall()
            last = "SELECT number FROM turns WHERE conversation = ? ORDER BY number DESC LIMIT 1 OFFSET ?"
            rows.execute(f"DELETE FROM turns WHERE conversation = ? AND number <= ({last})", [id, id, MOST_TURNS])
            # the owner's oldest turns above the limit of bytes, then empty conversations and those above the limit of number
            sizes = (
                "SELECT number, sum(bytes) OVER (ORDER BY changed DESC, number DESC) AS total "
                "FROM turns JOIN conversations ON id = conversation WHERE owner = ?"
            )
            excess = f"DELETE FROM turns WHERE number IN (SELECT number FROM ({sizes}) AS sized WHERE total > ?)"
            rows.execute(excess, [self._key[0], limits.conversation_bytes])
            last = f"SELECT id FROM conversations WHERE owner = ? ORDER BY changed DESC LIMIT {ALL} OFFSET ?"
            bare = "owner = ? AND NOT EXISTS (SELECT 1 FROM turns WHERE conversation = id)"
            beyond = f"DELETE FROM conversations WHERE id IN ({last}) OR ({bare})"
            rows.execute(beyond, [self._key[0], limits.conversations, self._key[0]])
        return {"conversation": id, "turn": newest["n"]}

    def find(self, words: str = "") -> list[ConversationRecord]:
        """Return the conversations, newest first. With `words`, only those that contain them in any case."""
        query = (
            f"{_LIST} WHERE owner = ? AND collection = ? AND (instr(casefold(title), ?) > 0 OR EXISTS (SELECT 1 FROM turns "
            f"WHERE conversation = id AND instr(casefold(question || '\n' || {_ANSWER}), ?) > 0)) ORDER BY changed DESC, id"
        )
        return [ConversationRecord(**row) for row in self._rows(query, [*self._key, *[words.casefold()] * 2])]

    def get(self, id: str) -> ConversationRecord | None:
        return self._first(_OWN, [*self._key, id])

    def by_link(self, share: str) -> ConversationRecord | None:
        """Return anybody's conversation by its link, or None if nobody shares it any more."""
        return self._first("WHERE collection = ? AND share = ?", [self._collection, share])

    def _first(self, condition: str, values: Sequence[str]) -> ConversationRecord | None:
        rows = self._rows(f"{_LIST} {condition}", values)
        return ConversationRecord(**rows[0]) if rows else None

    def turns(self, id: str, *, shared: bool = False) -> list[JsonDict]:
        """Return the turns of a conversation from `get`, or the `shared` ones of one from `by_link`, in order."""
        query = "SELECT turns.* FROM turns JOIN conversations ON id = conversation WHERE id = ?"
        until = " AND number <= shared_to" if shared else ""
        return [_turn(row) for row in self._rows(f"{query}{until} ORDER BY number", [id])]

    def rated_turns(self) -> list[JsonDict]:
        """Return the turns of all owners that have a rating, newest first."""
        query = "SELECT turns.* FROM turns JOIN conversations ON id = conversation WHERE collection = ? AND good IS NOT NULL"
        return [_turn(row) for row in self._rows(f"{query} ORDER BY number DESC", [self._collection])]

    def change(self, id: str, title: str | None, is_shared: bool | None) -> None:
        """Rename a conversation, share its questions so far by a link, or end the link. None leaves a property as it is."""
        with self._change() as rows:
            rows.execute(f"UPDATE conversations SET title = coalesce(?, title) {_OWN}", [title, *self._key, id])
            if is_shared is not None:
                link, secret = ("coalesce(share, ?)", [token_urlsafe(24)]) if is_shared else ("NULL", [])
                last = "(SELECT max(number) FROM turns WHERE conversation = id)" if is_shared else "NULL"
                change = f"UPDATE conversations SET share = {link}, shared_to = {last} {_OWN}"
                rows.execute(change, [*secret, *self._key, id])

    def rate(self, turn: int, good: bool | None, note: str) -> bool:
        """Rate the answer of a turn, or withdraw the rating with None. Return True if the owner has this turn."""
        own = "SELECT id FROM conversations WHERE owner = ? AND collection = ?"
        with self._change() as rows:
            change = f"UPDATE turns SET good = ?, note = ? WHERE number = ? AND conversation IN ({own})"
            return bool(rows.execute(change, [good, note, turn, *self._key]).rowcount)

    def delete(self, id: str) -> bool:
        """Delete a conversation with its ratings. Return True if it existed."""
        with self._change() as rows:
            found = bool(rows.execute(f"DELETE FROM conversations {_OWN}", [*self._key, id]).rowcount)
        self._database.overwrite_deleted()
        return found


def _turn(row: Row) -> JsonDict:
    rating = None if row["good"] is None else {"good": bool(row["good"]), "note": row["note"]}
    kept = {name: row[name] for name in ("number", "question", "asked")}
    return {**kept, "feedback": rating, **json.loads(row["data"])}
