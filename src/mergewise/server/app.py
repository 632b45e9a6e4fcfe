"""The whole server as one ASGI application: guard, native API, OpenAI's surface, MCP and the page."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp

from mergewise.server.configuration import ServerConfig
from mergewise.server.state import State


def create_app(config: ServerConfig, state: State) -> ASGIApp:
    """The application of one worker. Its lifespan opens what it needs, and closes it."""


def uvicorn_options(config: ServerConfig) -> dict[str, Any]:
    """The options of `uvicorn.Config` that the limits of heads, connections and proxies need."""
