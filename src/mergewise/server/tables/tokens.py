"""Tokens, and the sessions of the page that stand for them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from hashlib import sha256
from hmac import compare_digest
from secrets import token_hex, token_urlsafe

from mergewise.server.database import Database, Row
from mergewise.server.records import Scope, Token, checked_scopes
from mergewise.server.tables.rows import columns, insert, record_of, records_of
from mergewise.types import Json, frozen

_TOKEN = re.compile(r"mw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@frozen
class TokenTable:
    """The tokens and sessions in a database. Secrets are stored only as sha256."""

    database: Database

    def add(
        self,
        scopes: Iterable[Scope],
        *,
        collections: Iterable[str] | None = None,
        title: str = "",
        filter: Json | None = None,
        expires: float | None = None,
        rate: float | None = None,
    ) -> tuple[Token, str]:
        """Create a token. Return it with its secret form `mw_ID_SECRET`, which cannot be read again later.

        Raises:
            UsageError: for unknown scopes or an invalid filter, and for a filter with other scopes than "read".
        """
        own = checked_scopes(scopes, filter)
        among = None if collections is None else frozenset(collections)
        token = Token(token_hex(6), own, among, title, filter, expires, rate, time.time())
        secret = token_urlsafe(32)
        with self.database.change() as rows:
            insert(rows, "tokens", {**columns(token), "secret_sha256": digest(secret)})
        return token, f"mw_{token.id}_{secret}"

    def keep_user(self, token: Token) -> None:
        """Keep the token of an issuer's user, with the rights of its last sign-in. Nobody has its secret."""
        with self.database.change() as rows:
            insert(rows, "tokens", {**columns(token), "secret_sha256": digest(token_urlsafe(32))}, replacing="id")

    def all(self) -> list[Token]:
        return records_of(Token, self.database.rows("SELECT * FROM tokens ORDER BY created, id"))

    def remove(self, id: str) -> bool:
        """Remove a token with its sessions and conversations. Return True if the token existed."""
        with self.database.change() as rows:
            # users of a front end have the ids TOKEN-USER
            for table in ("conversations", "responses"):
                rows.execute(f"DELETE FROM {table} WHERE token = ? OR instr(token, ?) = 1", [id, f"{id}-"])
            found = bool(rows.execute("DELETE FROM tokens WHERE id = ?", [id]).rowcount)
        self.database.overwrite_deleted(rewrite=found)
        return found

    def authenticate(self, presented: str) -> Token | None:
        """Return the token of `mw_ID_SECRET`, or None if it is unknown or expired. Compares in constant time."""
        match = _TOKEN.fullmatch(presented)
        if match is None:
            return None
        rows = self.database.rows("SELECT * FROM tokens WHERE id = ?", [match[1]])
        is_right = compare_digest(rows[0]["secret_sha256"] if rows else "", digest(match[2]))
        return _unless_expired(rows) if is_right else None

    def open_session(self, token: Token, seconds: float) -> tuple[str, str]:
        """Return an opaque cookie value and its secret, which are valid only together.

        They expire after the given seconds, with the token, or by `close_session`.
        """
        cookie, secret, now = token_urlsafe(32), token_urlsafe(32), time.time()
        key = digest(f"{cookie}.{secret}")
        with self.database.change() as rows:
            rows.execute("DELETE FROM sessions WHERE expires <= ?", [now])
            rows.execute("INSERT INTO sessions VALUES (?, ?, ?)", [key, token.id, now + seconds])
        return cookie, secret

    def of_session(self, cookie: str, secret: str) -> Token | None:
        """Return the token of an open session, or None."""
        # safe from timing attacks: the lookup is by the sha256 of 64 random bytes
        rows = self.database.rows(
            "SELECT tokens.* FROM sessions JOIN tokens ON tokens.id = token "
            "WHERE cookie_sha256 = ? AND sessions.expires > ?",
            [digest(f"{cookie}.{secret}"), time.time()],
        )
        return _unless_expired(rows)

    def close_session(self, cookie: str, secret: str) -> None:
        with self.database.change() as rows:
            rows.execute("DELETE FROM sessions WHERE cookie_sha256 = ?", [digest(f"{cookie}.{secret}")])


def digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _unless_expired(rows: Sequence[Row]) -> Token | None:
    """Return the token in the first row, or None without a row or if the token has expired."""
    is_valid = rows and (rows[0]["expires"] is None or rows[0]["expires"] > time.time())
    return record_of(Token, rows[0]) if is_valid else None
