"""Errors as `application/problem+json` (RFC 9457), or in OpenAI's format under /v1 and /v2.

A problem carries the message and the hint of the error from `mergewise.errors`. Store errors contain paths, so they get a fixed
text instead. The type of a problem is `urn:mergewise:problem:CODE`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from mergewise.errors import (
    Cancelled,
    DeadlineExceeded,
    EmbedderMismatch,
    IndexBusy,
    MergewiseError,
    MissingExtra,
    ModelError,
    ReadError,
    StoreError,
    UsageError,
)
from mergewise.server.database import StateUnavailable
from mergewise.server.logs import log
from mergewise.server.spool import is_disk_full
from mergewise.server.tables.rows import Conflict
from mergewise.types import Json, JsonDict

Found = TypeVar("Found")

_LONGEST = 500


class HTTPProblem(MergewiseError):
    """A request that the server itself refuses.

    `code` is the reason for programs. `fields` lists the invalid fields of the request as {pointer, detail}.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        hint: str = "",
        *,
        retry_after: float | None = None,
        fields: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail, hint)
        self.status, self.code = status, code
        self.retry_after, self.fields = retry_after, tuple(fields)
        self.headers = dict(headers or {})
        if retry_after is not None:
            # the standard header has whole seconds; OpenAI's clients also read milliseconds
            self.headers["Retry-After"] = str(math.ceil(retry_after))
            self.headers["retry-after-ms"] = str(math.ceil(1000 * retry_after))


def unknown(what: str, hint: str = "") -> HTTPProblem:
    """Return a 404 problem: missing, or hidden from the token."""
    return HTTPProblem(404, "not-found", f"{what} not found", hint)


def existing(found: Found | None, what: str, hint: str = "") -> Found:
    """Return what was found. Raises HTTPProblem 404 for None: missing, or hidden from the token."""
    if found is None:
        raise unknown(what, hint)
    return found


def invalid(pointer: str, detail: str, hint: str = "", *, status: int = 422, code: str = "invalid") -> HTTPProblem:
    """Return a problem of a field. `pointer` is a JSON pointer into the body, or the name of a parameter."""
    return HTTPProblem(status, code, detail, hint, fields=[{"pointer": pointer, "detail": detail}])


def refusal(detail: str, parameter: str, hint: str = "", code: str = "invalid-request") -> HTTPProblem:
    """Return a 400 problem of a parameter of OpenAI's API."""
    return invalid(f"/{parameter}", detail, hint, status=400, code=code)


_MISMATCH = "embedder mismatch: the index was built with another embedder than the configured one"
# Status, code and fixed text of an error, by its class or its nearest base class listed here. Messages of the store may contain
# paths, so they get a fixed text; an empty text means the error's own message.
_KINDS: dict[type[BaseException], tuple[int, str, str]] = {
    Conflict: (409, "conflict", ""),
    DeadlineExceeded: (504, "deadline", ""),
    Cancelled: (503, "cancelled", ""),
    UsageError: (422, "invalid", ""),
    ReadError: (422, "unreadable", ""),
    MissingExtra: (501, "missing-extra", ""),
    ModelError: (502, "model-failed", ""),
    IndexBusy: (503, "index-busy", "index busy: another process is writing it"),
    EmbedderMismatch: (500, "index-unusable", _MISMATCH),
    StateUnavailable: (503, "state-unavailable", "cannot use the server's state"),
    StoreError: (500, "index-unusable", "cannot read the index of the collection"),
}
_ADMIN_HINT = "ask an admin: the server's log has the reason"
_DISK_HINT = "ask an admin to free disk space, then try again"


def problem_of(error: BaseException) -> HTTPProblem:
    """Convert any error to a problem. An unexpected error becomes a 500 without details."""
    if isinstance(error, HTTPProblem):
        return error
    if is_disk_full(error):
        return HTTPProblem(507, "disk-full", "disk full: the server cannot store more", _DISK_HINT)
    if isinstance(error, RequestValidationError):
        if any(one["type"] == "json_invalid" for one in error.errors()):
            return HTTPProblem(400, "malformed", "invalid JSON in the body")
        # a JSON pointer for each field of the body, and the name of each other parameter
        wrong = [{"pointer": _pointer(one, error.body), "detail": str(one["msg"])[:_LONGEST]} for one in error.errors()]
        first = wrong[0] if wrong else {"pointer": "", "detail": "invalid request"}
        return HTTPProblem(422, "invalid", f"{first['pointer']}: {first['detail']}", fields=wrong[:20])
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase
        code = phrase.lower().replace(" ", "-")
        return HTTPProblem(error.status_code, code, str(error.detail or phrase), headers=error.headers)
    if isinstance(error, TimeoutError):
        return HTTPProblem(504, "deadline", "answer timed out", "ask for less, or try again")
    if isinstance(error, MergewiseError):
        kind = next((kind for kind in type(error).__mro__ if kind in _KINDS), None)
        if kind is not None:
            status, code, instead = _KINDS[kind]
            detail, hint = error.message[:_LONGEST], error.hint[:_LONGEST]
            if instead:
                detail, hint = instead, "try again" if error.retryable else _ADMIN_HINT
            wait = 1.0 if error.retryable or status == 503 else None
            return HTTPProblem(status, code, detail, hint, retry_after=wait)
    return HTTPProblem(500, "internal", "internal server error", _ADMIN_HINT)


def _pointer(error: Json, body: Any) -> str:
    """Return the location of an invalid field. Steps that pydantic adds, such as the members of a union, are left out."""
    where, *steps = error["loc"]
    if where != "body":
        return ".".join(map(str, steps))
    pointer = ""
    for step in steps:
        is_there = (isinstance(body, Mapping) and step in body) or (
            isinstance(body, Sequence) and isinstance(step, int)
        )
        if not is_there and not (error["type"] == "missing" and step == steps[-1]):
            break
        body = body[step] if is_there else None
        pointer += "/" + str(step)[:80].replace("~", "~0").replace("/", "~1")
    return pointer


def problem_json(problem: HTTPProblem, request_id: str) -> JsonDict:
    """Return a problem as the JSON of RFC 9457."""
    body: JsonDict = {
        "type": f"urn:mergewise:problem:{problem.code}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.message,
        "instance": request_id,
        "code": problem.code,
    }
    if problem.hint:
        body["hint"] = problem.hint
    if problem.fields:
        body["errors"] = [dict(one) for one in problem.fields]
    if problem.retry_after is not None:
        body["retry_after"] = problem.retry_after
    return body


def openai_error(problem: HTTPProblem, request_id: str) -> JsonDict:
    """Return a problem as the JSON of OpenAI's API."""
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(problem.status, "invalid_request_error" if problem.status < 500 else "server_error")
    message = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
    param = problem.fields[0]["pointer"].strip("/").replace("/", ".") if problem.fields else None
    error = {"message": message, "type": kind, "param": param, "code": problem.code, "request_id": request_id}
    return {"error": error}


_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "object"}}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code"],
    "properties": {
        **dict.fromkeys(("type", "title", "detail", "instance", "code", "hint"), _TEXT),
        "status": {"type": "integer"},
        "retry_after": {"type": "number"},
        "errors": _TEXTS,
    },
}
_OPENAI_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "object"}}}


def documented_problems(openai: bool = False) -> dict[int | str, JsonDict]:
    """Return the error responses of a route for the OpenAPI document."""
    kind, schema = ("application/json", _OPENAI_ERROR) if openai else ("application/problem+json", _PROBLEM)
    answer = {"description": "An error with a hint", "content": {kind: {"schema": schema}}}
    return {"default": answer, 422: answer}


def problem_response(problem: HTTPProblem, path: str, request_id: str) -> Response:
    """Return the response to a request for `path` that has this problem."""
    openai = path.startswith(("/v1/", "/v2/"))
    body = openai_error(problem, request_id) if openai else problem_json(problem, request_id)
    kind = "application/json" if openai else "application/problem+json"
    return Response(json.dumps(body, ensure_ascii=False), problem.status, dict(problem.headers), kind)


async def _respond(request: Request, error: Exception) -> Response:
    problem, request_id = problem_of(error), str(request.scope.get("mergewise.request_id", ""))
    if problem.status >= 500:
        log_failure(error, problem, request_id)
    return problem_response(problem, request.scope["path"], request_id)


def log_failure(error: BaseException, problem: HTTPProblem, request_id: str) -> None:
    """Log a failure of the server. An unexpected error is logged with its traceback and without its message."""
    is_expected = isinstance(error, MergewiseError) or problem.status == 507
    detail = error if is_expected else type(error).__name__
    log.error("%s failed: %s: %s", request_id, problem.code, detail, exc_info=None if is_expected else error)


def install(app: FastAPI) -> None:
    """Convert all errors of the application to problem responses."""
    for kind in (MergewiseError, HTTPException, RequestValidationError, OSError, Exception):
        app.add_exception_handler(kind, _respond)
