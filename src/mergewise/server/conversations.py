"""Conversations and feedback in the server's state. Each owner sees only its own, and deleted rows are overwritten on the disk.

An owner is a token with its filter: users that a front end identifies by filters share its token, but not their conversations.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from secrets import token_hex, token_urlsafe
from typing import Any, Protocol

from mergewise.server.records import Token
from mergewise.server.transactions import digest, insert

MOST_FEEDBACK = 1000
"""Number of answers that an owner may rate. The oldest are dropped first."""
_LONGEST_TITLE = 80
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """A conversation of an owner with a collection. `turns` counts its answers, `share` is the secret of its link."""

    id: str
    collection: str
    title: str
    created: float
    changed: float
    share: str | None
    turns: int


@dataclass(frozen=True, slots=True)
class FeedbackRecord:
    """The rating of an answer. `gold` lists the cited passages as {doc, text}; `found` is False for "not in the documents"."""

    answer: str
    collection: str
    good: bool
    note: str
    question: str
    reply: str
    found: bool
    gold: Sequence[Mapping[str, str]]
    changed: float


class ConversationLimits(Protocol):
    """The limits of an owner's conversations, part of `ServeLimits`."""

    @property
    def conversations(self) -> int: ...
    @property
    def conversation_bytes(self) -> int: ...
    @property
    def conversation_days(self) -> float: ...


class ConversationStore:
    """The conversations and the feedback of a state. `change` opens a transaction, `rows` reads rows."""

    def __init__(
        self,
        change: Callable[[], AbstractContextManager[sqlite3.Connection]],
        rows: Callable[[str, Sequence[object]], list[sqlite3.Row]],
    ) -> None:
        self._change, self._rows = change, rows

    def add_turn(
        self,
        token: Token,
        collection: str,
        id: str | None,
        question: str,
        data: Mapping[str, Any],
        limits: ConversationLimits,
    ) -> str:
        """Add a question with its answer (`data`, as JSON). Without a known `id`, begin a conversation. Return its id.

        The owner's oldest conversations and turns are dropped when they exceed the limits.
        """
        now, owner = time.time(), owner_of(token)
        body = json.dumps(data, ensure_ascii=False)
        with self._change() as rows:
            known = "UPDATE conversations SET changed = ? WHERE id = ? AND owner = ? AND collection = ?"
            if id is None or not rows.execute(known, [now, id, owner, collection]).rowcount:
                id, title = f"conv_{token_hex(12)}", _title_of(question)
                own = {"id": id, "token": token.id, "owner": owner, "collection": collection, "title": title}
                insert(rows, "conversations", {**own, "created": now, "changed": now})
            size = len(body.encode("utf-8", "surrogatepass")) + len(question.encode("utf-8", "surrogatepass"))
            turn = {"conversation": id, "question": question, "data": body, "bytes": size, "created": now}
            insert(rows, "turns", turn)
            _drop_excess(rows, owner, limits)
        return id

    def conversations(self, token: Token, collection: str, words: str = "") -> list[ConversationRecord]:
        """Return the owner's conversations, newest first. With `words`, only those that contain them in any case."""
        text = "casefold(question || char(10) || coalesce(json_extract(data, '$.answer.answer'), ''))"
        query = (
            f"{_LIST} WHERE owner = ? AND collection = ? AND (instr(casefold(title), ?) OR EXISTS "
            f"(SELECT 1 FROM turns WHERE conversation = conversations.id AND instr({text}, ?))) ORDER BY changed DESC, id"
        )
        sought = words.casefold()
        return [ConversationRecord(*row) for row in self._rows(query, [owner_of(token), collection, sought, sought])]

    def conversation(self, token: Token, collection: str, id: str) -> ConversationRecord | None:
        """Return a conversation of the owner, or None."""
        rows = self._rows(f"{_LIST} WHERE owner = ? AND collection = ? AND id = ?", [owner_of(token), collection, id])
        return ConversationRecord(*rows[0]) if rows else None

    def shared(self, collection: str, share: str) -> ConversationRecord | None:
        """Return the conversation of a link, or None if nobody shares it any more."""
        rows = self._rows(f"{_LIST} WHERE collection = ? AND share = ?", [collection, share])
        return ConversationRecord(*rows[0]) if rows else None

    def turns(self, id: str, token: Token) -> list[dict[str, Any]]:
        """Return the turns of a conversation in order: {number, question, asked, feedback}, with their data."""
        query = (
            "SELECT turns.*, good, note FROM turns LEFT JOIN feedback ON feedback.owner = ? "
            "AND feedback.answer = json_extract(data, '$.answer.id') WHERE turns.conversation = ? ORDER BY number"
        )
        return [
            {
                "number": row["number"],
                "question": row["question"],
                "asked": row["created"],
                "feedback": None if row["good"] is None else {"good": bool(row["good"]), "note": row["note"]},
                **json.loads(row["data"]),
            }
            for row in self._rows(query, [owner_of(token), id])
        ]

    def change(self, token: Token, collection: str, id: str, title: str | None, is_shared: bool | None) -> None:
        """Rename a conversation, share it by a new link, or end its link. None leaves a property as it is."""
        with self._change() as rows:
            key = [id, owner_of(token), collection]
            where = "WHERE id = ? AND owner = ? AND collection = ?"
            rows.execute(f"UPDATE conversations SET title = coalesce(?, title) {where}", [title, *key])
            if is_shared is not None:
                link = token_urlsafe(24) if is_shared else None
                change = "coalesce(share, ?)" if is_shared else "?"
                rows.execute(f"UPDATE conversations SET share = {change} {where}", [link, *key])

    def delete(self, token: Token, collection: str, id: str) -> bool:
        """Delete a conversation with the feedback on its answers. Return True if it existed."""
        with self._change() as rows:
            key = [id, owner_of(token), collection]
            ratings = (
                "DELETE FROM feedback WHERE owner = ? AND answer IN "
                "(SELECT json_extract(data, '$.answer.id') FROM turns WHERE conversation = ?)"
            )
            rows.execute(ratings, [key[1], id])
            found = rows.execute("DELETE FROM conversations WHERE id = ? AND owner = ? AND collection = ?", key)
        self._overwrite()
        return found.rowcount > 0

    def prune(self, limits: ConversationLimits) -> None:
        """Delete conversations older than the limit, and all of them if none are kept."""
        oldest = time.time() - limits.conversation_days * _DAY if limits.conversations else float("inf")
        with self._change() as rows:
            rows.execute("DELETE FROM conversations WHERE changed < ?", [oldest])
        self._overwrite()

    def _overwrite(self) -> None:
        """Move the log into the file, so that no copy of a deleted row remains in the log."""
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)", ())

    # -- feedback

    def rate(self, token: Token, feedback: FeedbackRecord) -> None:
        """Store or replace the owner's rating of an answer."""
        owner = owner_of(token)
        own = {name: getattr(feedback, name) for name in FeedbackRecord.__slots__ if name != "gold"}
        row = {**own, "gold": list(feedback.gold), "token": token.id, "owner": owner}
        with self._change() as rows:
            insert(rows, "feedback", row, "REPLACE")
            kept = "SELECT rowid FROM feedback WHERE owner = ? ORDER BY changed DESC LIMIT -1 OFFSET ?"
            rows.execute(f"DELETE FROM feedback WHERE rowid IN ({kept})", [owner, MOST_FEEDBACK])

    def feedback(self, collection: str) -> list[FeedbackRecord]:
        """Return all ratings of the collection's answers, newest first."""
        names = ", ".join(FeedbackRecord.__slots__)
        rows = self._rows(f"SELECT {names} FROM feedback WHERE collection = ? ORDER BY changed DESC", [collection])
        return [
            FeedbackRecord(**{**row, "good": bool(row["good"]), "found": bool(row["found"]), "gold": json.loads(row["gold"])})
            for row in rows
        ]  # fmt: skip

    def withdraw_rating(self, collection: str, answer: str, token: Token | None) -> bool:
        """Delete the owner's rating of an answer, or everybody's ratings of it without a token. Return True if one existed."""
        with self._change() as rows:
            owner = None if token is None else owner_of(token)
            found = rows.execute(
                "DELETE FROM feedback WHERE collection = ? AND answer = ? AND owner = coalesce(?, owner)",
                [collection, answer, owner],
            )
        self._overwrite()
        return found.rowcount > 0


_LIST = (
    "SELECT id, collection, title, created, changed, share, (SELECT count(*) FROM turns "
    "WHERE conversation = conversations.id) AS turns FROM conversations"
)


def owner_of(token: Token) -> str:
    """Return the owner of what a token asks: the token, and its filter if it has one."""
    return token.id if token.filter is None else f"{token.id} {digest(json.dumps(dict(token.filter), sort_keys=True))}"


def _title_of(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1].rstrip() + "…"


def _drop_excess(rows: sqlite3.Connection, owner: str, limits: ConversationLimits) -> None:
    """Delete the owner's oldest turns above the limit of bytes, then empty conversations and those above the limit of number."""
    sizes = (
        "SELECT number, sum(bytes) OVER (ORDER BY changed DESC, number DESC) AS total "
        "FROM turns JOIN conversations ON conversations.id = conversation WHERE owner = ?"
    )
    rows.execute(
        f"DELETE FROM turns WHERE number IN (SELECT number FROM ({sizes}) WHERE total > ?)",
        [owner, limits.conversation_bytes],
    )
    last = "SELECT id FROM conversations WHERE owner = ? ORDER BY changed DESC LIMIT -1 OFFSET ?"
    rows.execute(
        f"DELETE FROM conversations WHERE id IN ({last}) "
        "OR (owner = ? AND NOT EXISTS (SELECT 1 FROM turns WHERE conversation = conversations.id))",
        [owner, limits.conversations, owner],
    )


def forget(rows: sqlite3.Connection, column: str, name: str) -> None:
    """Delete the conversations and the feedback of a removed token or collection."""
    for table in ("conversations", "feedback"):
        rows.execute(f"DELETE FROM {table} WHERE {column} = ?", [name])
