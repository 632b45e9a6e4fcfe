"""Users of an issuer (OAuth 2.1, OpenID Connect): their access tokens for the API and MCP, and the sign-in of the page.

The server is a resource of the issuer, which `/.well-known/oauth-protected-resource/mcp` describes (RFC 9728). An access token
is a JWT, which must be signed by a key of the issuer with an asymmetric algorithm, for this audience, and valid now. The first
grant whose claim the user has gives the rights.

The page signs in by the code flow with PKCE, a state and a nonce, which a cookie keeps for some minutes. The user then has a
session like the owner of a token, and a row among the tokens whose secret nobody knows.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from secrets import token_urlsafe
from threading import Lock
from typing import Any
from urllib.parse import urlencode

import httpx2
import jwt

from mergewise.server.configuration import IssuerConfig, filter_of
from mergewise.server.logs import log
from mergewise.server.problems import HTTPProblem
from mergewise.server.records import Token, checked_scopes
from mergewise.types import Json

ALGORITHMS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split()
"""Algorithms with a private key. Others would accept a text that anybody can sign with the public key."""
SKEW_SECONDS = 60
"""Difference of clocks that a token may have."""
KEYS_SECONDS, AGAIN_SECONDS = 600.0, 10.0
"""Age after which the issuer's keys are fetched again, and the shortest time between two fetches for unknown keys."""
SESSION_SECONDS = 43_200.0
"""Length of a session of the page: half a day, since only a new sign-in notices changed rights."""


class Issuer:
    """The issuer of the configuration, with its keys. Workers have their own copies."""

    def __init__(self, config: IssuerConfig, resource: str) -> None:
        self.config = config
        self.audience = config.audience or resource
        self._keys: dict[str, Any] = {}
        self._places: Json = {}
        self._fetched = -AGAIN_SECONDS
        self._lock = Lock()

    def places(self) -> Json:
        """Return the issuer's description of itself. Raises HTTPProblem 503 if it does not answer."""
        if not self._places:
            self.update()
        if not self._places:
            raise HTTPProblem(503, "issuer", "the issuer does not answer", "try again", retry_after=AGAIN_SECONDS)
        return self._places

    def lacks_key(self, encoded: str) -> bool:
        """Check if `update` should be called before a token is read: its key is unknown, or the keys are old."""
        try:
            key = str(jwt.get_unverified_header(encoded).get("kid", ""))
        except jwt.InvalidTokenError:
            return False
        return key not in self._keys or time.monotonic() - self._fetched > KEYS_SECONDS

    def update(self) -> None:
        """Fetch the issuer's keys, unless this was done some seconds ago. Unknown keys cannot make a server ask more often."""
        with self._lock:
            if time.monotonic() - self._fetched < AGAIN_SECONDS:
                return
            self._fetched = time.monotonic()
            try:
                places = _json(httpx2.get(f"{self.config.url.rstrip('/')}/.well-known/openid-configuration"))
                if places["issuer"] != self.config.url:
                    raise ValueError(f"the issuer names itself {places['issuer']!r}")
                keys = jwt.PyJWKSet.from_dict(_json(httpx2.get(places["jwks_uri"]))).keys
                own = {one.key_id or "": one.key for one in keys if one.public_key_use in (None, "sig")}
                self._keys, self._places = own, places
            except (httpx2.HTTPError, jwt.PyJWTError, ValueError, KeyError) as error:
                # the known keys stay in use
                log.warning("cannot fetch the keys of %s: %s", self.config.url, error)

    def claims(self, encoded: str, audience: str) -> Json | None:
        """Return the claims of a token for this audience, or None if it is not valid."""
        try:
            key = self._keys[str(jwt.get_unverified_header(encoded).get("kid", ""))]
            claims: Json = jwt.decode(
                encoded,
                key,
                ALGORITHMS,
                {"require": ["exp", "iss", "sub", "aud"]},
                audience=audience,
                issuer=self.config.url,
                leeway=SKEW_SECONDS,
            )
            return claims
        except (jwt.PyJWTError, KeyError, TypeError, ValueError):
            return None

    def token(self, encoded: str) -> Token | None:
        """Return the rights of an access token, or None if it is not valid. Raises HTTPProblem 403 for a user without rights."""
        claims = self.claims(encoded, self.audience)
        return None if claims is None else self.token_of(claims)

    def token_of(self, claims: Json) -> Token:
        """Return the rights of a user. Raises HTTPProblem 403 without a grant."""
        user = claims.get(self.config.user)
        for grant in self.config.grants:
            given = claims.get(grant.claim)
            values = given.split() if isinstance(given, str) else given if isinstance(given, list) else [given]
            if grant.value in map(str, values) and isinstance(user, str):
                own = None if grant.filter is None else filter_of(grant.filter, user)
                among = frozenset(grant.collections) if grant.collections else None
                id = sha256(f"{self.config.url} {claims['sub']}".encode()).hexdigest()[:16]
                scopes, ends = checked_scopes(grant.scopes, own), float(claims["exp"])
                return Token(f"user_{id}", scopes, among, user, own, ends, created=time.time())
        raise HTTPProblem(403, "no-grant", "this user has no rights here", "ask an admin for a grant")

    # -- the page

    def begin(self, back: str) -> tuple[str, str]:
        """Return the address at the issuer where a user signs in, and the secret that `end` needs."""
        secret = token_urlsafe(32)
        query = {
            "response_type": "code",
            "client_id": self.config.client_id,
            "redirect_uri": back,
            "scope": "openid profile email",
            "state": _derived(secret, "state"),
            "nonce": _derived(secret, "nonce"),
            "code_challenge": _derived(_derived(secret, "verifier")),
            "code_challenge_method": "S256",
        }
        return f"{self.places()['authorization_endpoint']}?{urlencode(query)}", secret

    def end(self, back: str, secret: str, code: str, state: str) -> Token:
        """Return the token of the user who has signed in. Raises HTTPProblem 401 for any other answer."""
        if secret and state == _derived(secret, "state"):
            client, key = str(self.config.client_id), self.config.key()
            form = {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": back,
                "client_id": client,
                "code_verifier": _derived(secret, "verifier"),
            }
            with suppress(httpx2.HTTPError, ValueError, KeyError, TypeError):
                login = None if key is None else (client, key)
                encoded = _json(httpx2.post(self.places()["token_endpoint"], data=form, auth=login))["id_token"]
                if self.lacks_key(encoded):
                    self.update()
                claims = self.claims(encoded, client)
                if claims is not None and claims.get("nonce") == _derived(secret, "nonce"):
                    return replace(self.token_of(claims), expires=time.time() + SESSION_SECONDS)
        raise HTTPProblem(401, "unauthorized", "the sign-in failed", "sign in again")


def _derived(secret: str, purpose: str = "") -> str:
    """Return a text that tells nothing about the secret. Without a purpose, it is the challenge of PKCE for a verifier."""
    return urlsafe_b64encode(sha256(f"{purpose}{secret}".encode()).digest()).rstrip(b"=").decode()


def _json(answer: httpx2.Response) -> Any:
    answer.raise_for_status()
    return answer.json()
