"""Routes for sessions of the page, tokens, models and settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from types import SimpleNamespace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.extend import SHIPPED_EMBEDDERS, check_filter, in_thread, release, run, short_repr
from mergewise.server.collections import NO_CHAT
from mergewise.server.guard import SECRET_HEADER, cookie_name
from mergewise.server.models import AddedModel, ModelConfig, ModelGroup, ModelTable
from mergewise.server.native.pages import Cursor, Limit, page_behind
from mergewise.server.native.requests import EndpointForm, Name, SessionForm, TokenForm
from mergewise.server.native.responses import NEW_TOKEN, SESSION, TOKEN, TRIAL, page_of
from mergewise.server.problems import HTTPProblem, existing, invalid, unknown
from mergewise.server.records import Token
from mergewise.server.routing import ADMIN, OPEN, READ, InService, ScopedRoute, WholeService
from mergewise.server.scoped import Service
from mergewise.types import JsonDict

router = APIRouter(prefix="/api/v1", tags=["administration"], route_class=ScopedRoute)

SESSION_SECONDS = 30 * 86_400.0
TRY_SECONDS = 20.0
SIGN_IN_SECONDS = 600
"""Time that a user may spend at the issuer."""
_BEGUN = "mergewise_sign_in"


@router.post("/session", response_model=SESSION, **OPEN)
def open_session(form: SessionForm, request: Request, response: Response, service: WholeService) -> JsonDict:
    """Exchange a token for the page's cookie, which scripts cannot read, and a secret for the header `X-Mergewise`.

    The cookie is valid only with the secret.
    """
    token = service.state.tokens.authenticate(form.token)
    if token is None:
        raise HTTPProblem(401, "unauthorized", "invalid token", "ask an admin for a token")
    return {"secret": _open_session(token, request, response, service)}


def _open_session(token: Token, request: Request, response: Response, service: Service) -> str:
    """Set the page's cookie, and return its secret."""
    cookie, secret = service.state.tokens.open_session(token, SESSION_SECONDS)
    is_secure, name = service.config.url.startswith("https:"), cookie_name(request.headers)
    response.set_cookie(name, cookie, int(SESSION_SECONDS), httponly=True, samesite="strict", secure=is_secure)
    return secret


@router.get("/sign-in", status_code=302, response_class=Response, **OPEN)
def sign_in(
    request: Request,
    service: WholeService,
    code: Annotated[str, Query(max_length=8000)] = "",
    state: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Lead a user of the page to the issuer, or open a session for a user who comes back with a code and a state.

    The page takes the session's secret from its address.
    """
    issuer, response = request.scope.get("mergewise.issuer"), Response(status_code=302)
    if issuer is None or not issuer.config.client_id:
        raise unknown("issuer", "set issuer.client_id in serve.toml")
    back = f"{service.config.url}{request.url.path}"
    if state:
        token = issuer.end(back, request.cookies.get(_BEGUN, ""), code, state)
        service.state.tokens.keep_user(token)
        response.headers["Location"] = f"/#s={_open_session(token, request, response, service)}"
        response.delete_cookie(_BEGUN)
        return response
    response.headers["Location"], secret = issuer.begin(back)
    # lax, because the issuer leads back from another site
    is_secure = service.config.url.startswith("https:")
    response.set_cookie(_BEGUN, secret, SIGN_IN_SECONDS, httponly=True, samesite="lax", secure=is_secure)
    return response


@router.delete("/session", status_code=204, **READ)
def close_session(request: Request, response: Response, service: WholeService) -> None:
    """End the page's session."""
    name = cookie_name(request.headers)
    if cookie := request.cookies.get(name):
        service.state.tokens.close_session(cookie, request.headers.get(SECRET_HEADER, ""))
    response.delete_cookie(name)


@router.get("/tokens", response_model=page_of(TOKEN), **ADMIN)
def list_tokens(service: WholeService, limit: Limit = 50, cursor: Cursor = None) -> JsonDict:
    """List all tokens, without their secrets."""
    tokens = sorted(service.state.tokens.all(), key=lambda token: token.id)
    return page_behind(tokens, cursor, limit, lambda token: token.id, lambda token: token.as_dict())


@router.post("/tokens", status_code=201, response_model=NEW_TOKEN, **ADMIN)
def make_token(form: TokenForm, service: WholeService) -> JsonDict:
    """Create a token. Only this response contains its secret."""
    if form.filter is not None:
        # the metadata keys of the documents in the token's collections, as far as they can be read
        kinds: dict[str, type] = {}
        for one in service.collections.all():
            if one.is_made and (not form.collections or one.name in form.collections):
                with suppress(mw.MergewiseError):
                    kinds |= one.index.store.reader().metadata_kinds()
        if kinds:
            check_filter(form.filter, kinds)
    token, secret = service.state.tokens.add(**form.model_dump())
    return {**token.as_dict(), "secret": secret}


@router.delete("/tokens/{id}", status_code=204, **ADMIN)
def remove_token(id: str, service: WholeService) -> None:
    """Remove a token and its sessions."""
    if not service.state.tokens.remove(id):
        raise unknown("token")


@router.get("/models", **READ)
def list_models(service: InService) -> JsonDict:
    """List the models by name, the strategies and the modes, with what they lack. Admins also see the specs of the models."""
    config = service.config
    is_admin = service.token.may("admin") and not service.token.is_restricted
    chats = list(config.chats.values())
    causal = any(chat.spec.startswith("hf:") for chat in chats)
    known: Any = SimpleNamespace(chat=chats, causal=causal, reranker=None, embedder=True)

    def entry(name: str, part: Any) -> JsonDict:
        need = part.needs
        lacks = None if need is None or need.of(known) else f"needs {need.what}"
        return {"name": name, "summary": part.summary, "needs": need and need.name, "lacks": lacks}

    return {
        "chats": [*_model_entries(config.chats, is_admin), {"name": NO_CHAT}],
        "embedders": [
            *_model_entries(config.embedders, is_admin),
            *({"name": name} for name in sorted(SHIPPED_EMBEDDERS)),
        ],
        "rerankers": _model_entries(config.rerankers, is_admin),
        "strategies": [entry(*one) for one in mw.STRATEGIES.items()],
        "modes": [entry(*one) for one in mw.MODES.items()],
        "may_change": is_admin and config.database is None,
    }


def _model_entries(models: Mapping[str, ModelConfig], is_admin: bool) -> list[JsonDict]:
    if not is_admin:
        return [{"name": name} for name in models]
    return [
        {
            "name": name,
            "spec": model.spec,
            "base_url": model.base_url,
            "window": model.window,
            "has_key": isinstance(model, AddedModel) or model.key_env is not None or model.key_file is not None,
            "added": isinstance(model, AddedModel),
        }
        for name, model in models.items()
    ]


@router.put("/models/{group}/{name}", status_code=204, **ADMIN)
def set_model(group: ModelGroup, name: Name, form: EndpointForm, service: WholeService) -> None:
    """Add or replace a model at an endpoint, for all processes at once."""
    table = _changeable(service, group, name)
    is_reranker = group == "rerankers"
    if not (form.base_url if is_reranker else form.model):
        raise invalid("/base_url" if is_reranker else "/model", "missing value", "name the model")
    spec = f"{form.base_url}#{form.model}".rstrip("#") if is_reranker else f"openai:{form.model}"
    before = table.added().get(name)
    kept = before.secret if before is not None and before.base_url == form.base_url else None
    # without any, the key of the environment would be sent to an address that it does not belong to
    secret = form.key or kept or ("none" if form.base_url else None)
    table.change(name, AddedModel(spec, form.base_url, form.window, secret=secret))


@router.delete("/models/{group}/{name}", status_code=204, **ADMIN)
def remove_model(group: ModelGroup, name: Name, service: WholeService) -> None:
    """Remove a model that was added here, with its key."""
    _changeable(service, group, name).change(name, None)


@router.post("/models/{group}/{name}/try", response_model=TRIAL, **ADMIN)
async def try_model(group: ModelGroup, name: Name, service: WholeService) -> JsonDict:
    """Send a short text to a model at an endpoint, and say what failed."""
    model = existing(getattr(service.config, group).get(name), "model")
    began = time.monotonic()
    try:
        found = await in_thread(_tried, group, model)
    except mw.MergewiseError as error:
        return {"ok": False, "detail": error.message, "hint": error.hint}
    return {"ok": True, "detail": f"{found} in {time.monotonic() - began:.1f} s", "hint": ""}


def _tried(group: ModelGroup, model: ModelConfig) -> str:
    """Load a model, send it a short text, and return what came."""
    loaded: Any = getattr(model, group[:-1])(retries=0, timeout=TRY_SECONDS)
    if isinstance(loaded, str) or not model.spec.startswith(("openai:", "http")):
        raise UsageError("no model at an endpoint", "ask a question to try it")
    try:
        if group == "chats":
            asked = [mw.Message("user", "Say hello.")]
            return f"It answered {short_repr(run(loaded.complete(asked, max_tokens=300)).text)}"
        if group == "embedders":
            return f"It made vectors of {loaded.dimension} numbers"
        return f"It gave the score {loaded.score('Hello?', ['Hello.'])[0]:.2f}"
    finally:
        release(loaded)


def _changeable(service: Service, group: ModelGroup, name: str) -> ModelTable:
    """Return the models of a group. Raises HTTPProblem 409 for a model of the configuration, or if servers share a database."""
    table: ModelTable = getattr(service.config, group)
    if service.config.database is not None or name in table.configured:
        raise HTTPProblem(409, "conflict", "models of the configuration cannot be changed here", "change serve.toml")
    return table


@router.get("/settings", **ADMIN)
def get_settings(service: WholeService) -> JsonDict:
    """Return the settings that the server started with, without keys and paths."""
    config = service.config
    return {
        "version": mw.__version__,
        "workers": config.workers,
        "public_url": config.public_url,
        "allowed_hosts": sorted(config.hosts),
        "allowed_origins": list(config.allowed_origins),
        "needs_token": config.needs_token,
        "profiles": sorted(config.profiles),
        "limits": asdict(config.limits),
    }
