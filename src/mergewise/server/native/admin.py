"""Routes for sessions of the page, tokens, models and settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

from fastapi import APIRouter, Request, Response

import mergewise as mw
from mergewise.extend import SHIPPED_EMBEDDERS, check_filter
from mergewise.server.collections import NO_CHAT
from mergewise.server.configuration import ModelConfig
from mergewise.server.guard import SECRET_HEADER, cookie_name
from mergewise.server.native.pages import Cursor, Limit, page_behind
from mergewise.server.native.requests import SessionForm, TokenForm
from mergewise.server.native.responses import NEW_TOKEN, SESSION, TOKEN, page_of
from mergewise.server.problems import HTTPProblem, unknown
from mergewise.server.records import JsonDict
from mergewise.server.routing import ADMIN, OPEN, READ, InService, ScopedRoute, WholeService

router = APIRouter(prefix="/api/v1", tags=["administration"], route_class=ScopedRoute)

SESSION_SECONDS = 30 * 86_400.0


@router.post("/session", response_model=SESSION, **OPEN)
def open_session(form: SessionForm, request: Request, response: Response, service: WholeService) -> JsonDict:
    """Exchange a token for the page's cookie, which scripts cannot read, and a secret for the header `X-Mergewise`.

    The cookie is valid only with the secret.
    """
    token = service.state.tokens.authenticate(form.token)
    if token is None:
        raise HTTPProblem(401, "unauthorized", "invalid token", "ask an admin for a token")
    cookie, secret = service.state.tokens.open_session(token, SESSION_SECONDS)
    response.set_cookie(
        cookie_name(request.headers),
        cookie,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=service.config.url.startswith("https:"),
    )
    return {"secret": secret}


@router.delete("/session", status_code=204, **READ)
def close_session(request: Request, service: WholeService) -> Response:
    """End the page's session."""
    name = cookie_name(request.headers)
    if cookie := request.cookies.get(name):
        service.state.tokens.close_session(cookie, request.headers.get(SECRET_HEADER, ""))
    response = Response(status_code=204)
    response.delete_cookie(name)
    return response


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
def remove_token(id: str, service: WholeService) -> Response:
    """Remove a token and its sessions."""
    if not service.state.tokens.remove(id):
        raise unknown("token")
    return Response(status_code=204)


@router.get("/models", **READ)
def list_models(service: InService) -> dict[str, list[JsonDict]]:
    """List the configured models by name, the strategies and the modes. Admins also see the specs of the models."""
    config = service.config
    is_admin = service.token.may("admin") and not service.token.is_restricted
    shipped = [{"name": name} for name in sorted(SHIPPED_EMBEDDERS)]
    return {
        "chats": [*_model_entries(config.chats, is_admin), {"name": NO_CHAT}],
        "embedders": [*_model_entries(config.embedders, is_admin), *shipped],
        "rerankers": _model_entries(config.rerankers, is_admin),
        "strategies": [{"name": name, "summary": strategy.summary} for name, strategy in mw.STRATEGIES.items()],
        "modes": [{"name": name, "summary": mode.summary, "needs": mode.needs.name} for name, mode in mw.MODES.items()],
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
            "has_key": model.key_env is not None or model.key_file is not None,
        }
        for name, model in models.items()
    ]


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
