"""The routes POST /v1/embeddings and Cohere's POST /v2/rerank, which run the server's models on the client's texts."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Request

import mergewise as mw
from mergewise.defaults import EMBEDDER as SHIPPED
from mergewise.errors import UsageError
from mergewise.models import load_embedder, load_reranker
from mergewise.protocols import Embedder, FloatArray, Reranker
from mergewise.server.configuration import ModelConfig
from mergewise.server.openai.conversations import refused, unknown_model
from mergewise.server.openai.requests import EmbeddingsForm, RerankForm
from mergewise.server.routing import READ, InService, ScopedRoute
from mergewise.server.scoped import ScopedService
from mergewise.server.streams import until_disconnect

router = APIRouter(route_class=ScopedRoute)
rerank_router = APIRouter(route_class=ScopedRoute)

MOST_INPUTS = 256
LONGEST_INPUT = 100_000
_ELSEWHERE = frozenset({"openai", "http", "https"})


@router.post("/embeddings", openapi_extra=READ)
async def embed(form: EmbeddingsForm, request: Request, service: InService) -> dict[str, Any]:
    """Embed texts with the embedder of this name."""
    texts = _texts(form.input)
    config = _model_named(form.model, {SHIPPED: ModelConfig(SHIPPED), **service.config.embedders})
    vectors = await until_disconnect(request, _admitted(service, config, partial(_vectors, config, form, texts)))
    data = [
        {"object": "embedding", "index": at, "embedding": _encoded(vector, form.encoding_format)}
        for at, vector in enumerate(vectors)
    ]
    tokens = sum(mw.count_tokens(texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": form.model, "usage": usage}


def _texts(given: str | Sequence[Any]) -> list[str]:
    """Return the input as a list of texts. Raises HTTPProblem 400 for tokens, and for too many or too long texts."""
    texts = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(text, str) for text in texts):
        raise refused("unsupported input: tokens (expected texts)", "input")
    if not 0 < len(texts) <= MOST_INPUTS:
        raise refused(f"invalid number of texts: {len(texts)} (expected 1 to {MOST_INPUTS})", "input")
    if any(not text.strip() or len(text) > LONGEST_INPUT for text in texts):
        raise refused(f"invalid text: empty, or longer than {LONGEST_INPUT:,} characters", "input")
    return texts


def _vectors(config: ModelConfig, form: EmbeddingsForm, texts: Sequence[str]) -> FloatArray:
    embedder = _embedder(config)
    if form.dimensions not in (None, embedder.dimension):
        raise refused(f"invalid dimensions: {form.dimensions} ({form.model} has {embedder.dimension})", "dimensions")
    return embedder.embed_queries(texts) if form.input_type == "query" else embedder.embed_documents(texts)


def _encoded(vector: FloatArray, encoding: str) -> list[float] | str:
    """Return the numbers as a list, or as base64 of little-endian float32."""
    if encoding == "base64":
        return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
    return [float(number) for number in vector]


@rerank_router.post("/rerank", openapi_extra=READ)
async def rerank(form: RerankForm, request: Request, service: InService) -> dict[str, Any]:
    """Rank texts for a query with the reranker of this name, best first."""
    texts, config = form.texts, _model_named(form.model, service.config.rerankers)
    scores = await until_disconnect(request, _admitted(service, config, partial(_scores, config, form.query, texts)))
    ranked = sorted(range(len(texts)), key=lambda at: (-scores[at], at))[: form.top_n]
    shown = [{"document": {"text": texts[at]}} if form.return_documents else {} for at in ranked]
    results = [
        {"index": at, "relevance_score": float(scores[at]), **more} for at, more in zip(ranked, shown, strict=True)
    ]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return {"id": "rerank-" + secrets.token_hex(12), "results": results, "meta": meta}


def _scores(config: ModelConfig, query: str, texts: Sequence[str]) -> FloatArray:
    return _reranker(config).score(query, texts)


async def _admitted(service: ScopedService, config: ModelConfig, work: Callable[[], FloatArray]) -> FloatArray:
    """Run the work: with a slot for a model of this process, or waiting for a model on another server."""
    if config.spec.partition(":")[0] in _ELSEWHERE:
        with service.admission.place():
            return await service.admission.wait(work)
    return await service.admission.enter().start(lambda waited: work())


@cache
def _embedder(config: ModelConfig) -> Embedder:
    """Load an embedder once per process."""
    found = load_embedder(config.spec)
    if found is None:
        raise UsageError(f"invalid embedder: {config.spec}", "name an embedder in the configuration")
    return found


@cache
def _reranker(config: ModelConfig) -> Reranker:
    """Load a reranker once per process."""
    kind, _, address = config.spec.partition(":")
    if kind in ("http", "https"):
        return mw.HTTPReranker(address if kind == "http" else config.spec, key=config.key())
    found = load_reranker(config.spec)
    if found is None:
        raise UsageError(f"invalid reranker: {config.spec}", "name a reranker in the configuration")
    return found


def _model_named(name: str, models: Mapping[str, ModelConfig]) -> ModelConfig:
    """Return the configuration of a model. Raises HTTPProblem 404 for an unknown name."""
    if name in models:
        return models[name]
    raise unknown_model(name, f"one of: {', '.join(models)}" if models else "add a model to the server's configuration")
