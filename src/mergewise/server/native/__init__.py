"""The native API under `/api/v1`, with health and metrics."""

from __future__ import annotations

from fastapi import APIRouter

from mergewise.server.native import admin, collections, conversations, documents, health, jobs, questions

ROUTERS: tuple[APIRouter, ...] = (
    questions.router,
    documents.router,
    conversations.router,
    collections.router,
    jobs.router,
    admin.router,
    health.router,
)
