"""The routers of OpenAI's surface, each with the path below which it stands."""

from __future__ import annotations

from fastapi import APIRouter

from mergewise.server.openai import chat, files, scoring, stores

ROUTERS: tuple[tuple[str, APIRouter], ...] = (
    ("/v1", chat.router),
    ("/v1", scoring.router),
    ("/v1", stores.router),
    ("/v1", files.router),
    ("/v2", scoring.rerank_router),
)
