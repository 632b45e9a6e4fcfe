"""The native API under `/api/v1`, with health and metrics."""

from __future__ import annotations

from fastapi import APIRouter

from mergewise.server.native import admin, collections, conversations, documents, health, jobs, questions

_ROOMS = (questions, documents, conversations, collections, jobs, admin, health)
ROUTERS: tuple[APIRouter, ...] = tuple(room.router for room in _ROOMS)
