"""Errors as RFC 9457 tells them, `application/problem+json`; below /v1 and /v2 in the envelope of OpenAI.

A problem says what `mergewise.errors` says. Errors of the store, which name paths, say their kind alone. The type of a problem is
`urn:mergewise:problem:CODE`.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

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
from mergewise.server.state import Conflict

log = logging.getLogger("mergewise.server")

OPENAI_PATHS = ("/v1/", "/v2/")
_LONGEST = 500
_MOST_ERRORS = 20


class HTTPProblem(MergewiseError):
    """A request that the server itself refuses.

    `code` names the reason for programs; `fields` are {pointer, detail} of what is wrong in the request.
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
            # whole seconds for all clients, and milliseconds for those of OpenAI
            self.headers["Retry-After"] = str(math.ceil(retry_after))
            self.headers["retry-after-ms"] = str(math.ceil(1000 * retry_after))


def unknown(what: str, hint: str = "") -> HTTPProblem:
    """404: there is no such thing, or the token may not know of it."""
    return HTTPProblem(404, "not-found", f"there is no such {what}", hint)


def invalid(pointer: str, detail: str, hint: str = "") -> HTTPProblem:
    """422: a field of the request cannot be. `pointer` is a JSON pointer into the body, or the name of a parameter."""
    return HTTPProblem(422, "invalid", detail, hint, fields=[{"pointer": pointer, "detail": detail}])


# The status and code of an error, by its class or the first one above it that is here. What the store says may name paths: its
# own sentence stands here instead.
_KINDS: dict[type[BaseException], tuple[int, str, str]] = {
    Conflict: (409, "conflict", ""),
    DeadlineExceeded: (504, "deadline", ""),
    Cancelled: (503, "cancelled", ""),
    UsageError: (422, "invalid", ""),
    ReadError: (422, "unreadable", ""),
    MissingExtra: (501, "missing-extra", ""),
    ModelError: (502, "model-failed", ""),
    IndexBusy: (503, "index-busy", "the index is being written"),
    EmbedderMismatch: (500, "index-unusable", "the index was built with another embedder than the one configured"),
    StoreError: (500, "index-unusable", "the index of the collection cannot be read"),
}
_ADMIN_HINT = "an admin finds the reason in the log of the server"


def problem_of(error: BaseException) -> HTTPProblem:
    """Any error as a problem. What nobody foresaw is a 500 that says nothing of it."""
    if isinstance(error, HTTPProblem):
        return error
    if isinstance(error, RequestValidationError):
        return _validation_problem(error)
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase
        code = phrase.lower().replace(" ", "-")
        return HTTPProblem(error.status_code, code, str(error.detail or phrase), headers=error.headers)
    if isinstance(error, TimeoutError):
        return HTTPProblem(504, "deadline", "the answer took too long", "ask for less, or try again")
    if isinstance(error, MergewiseError):
        kind = next((kind for kind in type(error).__mro__ if kind in _KINDS), None)
        if kind is not None:
            return _mergewise_problem(error, *_KINDS[kind])
    return HTTPProblem(500, "internal", "something went wrong within the server", _ADMIN_HINT)


def _mergewise_problem(error: MergewiseError, status: int, code: str, instead: str) -> HTTPProblem:
    retry_after = 1.0 if error.retryable or status == 503 else None
    if instead:
        return HTTPProblem(
            status, code, instead, "try again" if error.retryable else _ADMIN_HINT, retry_after=retry_after
        )
    return HTTPProblem(status, code, error.message[:_LONGEST], error.hint[:_LONGEST], retry_after=retry_after)


def _validation_problem(error: RequestValidationError) -> HTTPProblem:
    """422 with a JSON pointer for each field of the body, and the name of a parameter for others."""
    if any(one["type"] == "json_invalid" for one in error.errors()):
        return HTTPProblem(400, "malformed", "the body is no JSON")
    body = [{"pointer": _pointer(one, error.body), "detail": str(one["msg"])[:_LONGEST]} for one in error.errors()]
    first = body[0] if body else {"pointer": "", "detail": "the request cannot be"}
    return HTTPProblem(422, "invalid", f"{first['pointer']}: {first['detail']}", fields=body[:_MOST_ERRORS])


def _pointer(error: Mapping[str, Any], body: Any) -> str:
    """Where a field is wrong. What pydantic names of its own, such as the kinds that a value could have, stands in no body."""
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


def problem_json(problem: HTTPProblem, request_id: str) -> dict[str, Any]:
    """The body by RFC 9457."""
    body: dict[str, Any] = {
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


def openai_error(problem: HTTPProblem, request_id: str) -> dict[str, Any]:
    """The body as clients of OpenAI read it."""
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(problem.status, "invalid_request_error" if problem.status < 500 else "server_error")
    said = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
    param = problem.fields[0]["pointer"].strip("/").replace("/", ".") if problem.fields else None
    return {"error": {"message": said, "type": kind, "param": param, "code": problem.code, "request_id": request_id}}


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


def documented_problems(openai: bool = False) -> dict[int | str, dict[str, Any]]:
    """The answers of routes that have a problem, for the OpenAPI document."""
    kind, schema = ("application/json", _OPENAI_ERROR) if openai else ("application/problem+json", _PROBLEM)
    answer = {"description": "What is wrong, and what to do", "content": {kind: {"schema": schema}}}
    return {"default": answer, 422: answer}


def problem_response(problem: HTTPProblem, path: str, request_id: str) -> Response:
    """The answer to a request for `path` that has this problem."""
    openai = path.startswith(OPENAI_PATHS)
    body = openai_error(problem, request_id) if openai else problem_json(problem, request_id)
    kind = "application/json" if openai else "application/problem+json"
    return Response(json.dumps(body, ensure_ascii=False), problem.status, dict(problem.headers), kind)


async def _respond(request: Request, error: Exception) -> Response:
    problem, request_id = problem_of(error), str(request.scope.get("mergewise.request_id", ""))
    if problem.status >= 500:
        log_failure(error, problem, request_id)
    return problem_response(problem, request.scope["path"], request_id)


def log_failure(error: BaseException, problem: HTTPProblem, request_id: str) -> None:
    """A failure of ours, with its traceback where nobody foresaw it; it goes to the log alone."""
    foreseen = isinstance(error, MergewiseError)
    log.error("%s failed: %s: %s", request_id, problem.code, error if foreseen else type(error).__name__,
              exc_info=None if foreseen else error)  # fmt: skip


def install(app: FastAPI) -> None:
    """All errors of the application become problems."""
    for kind in (MergewiseError, HTTPException, RequestValidationError, TimeoutError, Exception):
        app.add_exception_handler(kind, _respond)
