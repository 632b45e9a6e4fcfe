"""Errors as RFC 9457 tells them, `application/problem+json`; below /v1 and /v2 in the envelope of OpenAI.

A problem says what `mergewise.errors` says, without paths, SQL and tracebacks. Its type is `urn:mergewise:problem:CODE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mergewise.errors import MergewiseError


class HTTPProblem(MergewiseError):
    """A request that the server itself refuses. `code` names the reason for programs, `errors` are {pointer, detail}."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        hint: str = "",
        *,
        retry_after: float | None = None,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail, hint)
        self.status, self.code = status, code
        self.retry_after, self.errors, self.headers = retry_after, tuple(errors), dict(headers or {})


def unknown(what: str, hint: str = "") -> HTTPProblem:
    """404: there is no such thing, or the token may not know of it."""
    return HTTPProblem(404, "not-found", f"there is no such {what}", hint)


def problem_of(error: BaseException) -> HTTPProblem:
    """Any error as a problem. What nobody foresaw is a 500 that says nothing of it."""


def problem_json(problem: HTTPProblem, request_id: str) -> dict[str, Any]:
    """The body by RFC 9457."""
