"""The users of a trusted front end, which sends their names in a header (`IdentityConfig`).

A request is the front end's if it has one of its tokens or, without tokens in the configuration, comes from one of its addresses.
Then the header is required, and the token is replaced with one that only reads the documents of this user. The header from
anybody else is refused: it shows a front end that the configuration does not name, whose users would all have the rights of its
token.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.types import Scope

from mergewise.server.configuration import IdentityConfig
from mergewise.server.problems import HTTPProblem
from mergewise.server.records import Token

_LONGEST_USER = 320


def token_of_user(token: Token, config: IdentityConfig, headers: Headers, scope: Scope) -> Token:
    """Return the token of the user that the request names, or the given token for a request of no front end.

    Raises HTTPProblem 403 for a missing or invalid header, and for a header that does not come from the front end.
    """
    named = headers.getlist(config.header)
    from_peer = config.is_peer((scope.get("client") or [""])[0])
    from_front_end = token.id in config.tokens if config.tokens else from_peer
    if from_front_end and config.peers and not from_peer:
        raise _refusal("this token is not valid from this address", "send the request from the front end")
    if not from_front_end:
        if named:
            raise _refusal(f"the header {config.header} is not trusted from here", "ask an admin to add the front end")
        return token
    user = named[0].strip() if len(named) == 1 else ""
    if not user or len(user) > _LONGEST_USER or not user.isprintable():
        raise _refusal(f"missing or invalid header {config.header}", "let the front end send the user's name")
    own = config.filter_of(user)
    both = own if token.filter is None else {"type": "and", "filters": [token.filter, own]}
    id = f"{token.id}-{sha256(user.encode()).hexdigest()[:16]}"
    return replace(token, id=id, scopes=token.scopes & {"read"}, filter=both)


def _refusal(detail: str, hint: str) -> HTTPProblem:
    return HTTPProblem(403, "wrong-identity", detail, hint)
