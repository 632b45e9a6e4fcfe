"""POST /v1/embeddings, and Cohere's POST /v2/rerank: the models that score, for those who bring their own texts."""

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
from mergewise.server.routing import READ, Caller, ScopedRoute, Server, Service
from mergewise.server.streams import until_disconnect

router = APIRouter(route_class=ScopedRoute)
rerank_router = APIRouter(route_class=ScopedRoute)

MOST_INPUTS = 256
LONGEST_INPUT = 100_000
_ELSEWHERE = frozenset({"openai", "http", "https"})


@router.post("/embeddings", openapi_extra=READ)
async def embed(form: EmbeddingsForm, request: Request, service: Server, token: Caller) -> dict[str, Any]:
    """Vectors of texts, by the embedder of this name."""
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
    """Raises HTTPProblem 400 for what is no text, and for too many of them."""
    texts = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(text, str) for text in texts):
        raise refused("the input is tokens, and texts are embedded here", "input")
    if not 0 < len(texts) <= MOST_INPUTS:
        raise refused(f"the input is {len(texts)} texts: 1 to {MOST_INPUTS} are embedded at once", "input")
    if any(not text.strip() or len(text) > LONGEST_INPUT for text in texts):
        raise refused(f"a text of the input is empty, or longer than {LONGEST_INPUT:,} characters", "input")
    return texts


def _vectors(config: ModelConfig, form: EmbeddingsForm, texts: Sequence[str]) -> FloatArray:
    embedder = _embedder(config)
    if form.dimensions not in (None, embedder.dimension):
        raise refused(f"{form.model} gives vectors of {embedder.dimension} dimensions", "dimensions")
    return embedder.embed_queries(texts) if form.input_type == "query" else embedder.embed_documents(texts)


def _encoded(vector: FloatArray, encoding: str) -> list[float] | str:
    """The numbers, or as base64 their bytes: float32, the lowest byte first."""
    if encoding == "base64":
        return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
    return [float(number) for number in vector]


@rerank_router.post("/rerank", openapi_extra=READ)
async def rerank(form: RerankForm, request: Request, service: Server, token: Caller) -> dict[str, Any]:
    """How well texts answer a query, best first, by the reranker of this name."""
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


async def _admitted(service: Service, config: ModelConfig, work: Callable[[], FloatArray]) -> FloatArray:
    """What the work gives: a model of this process takes a slot, as assembling does, and one elsewhere is waited for."""
    if config.spec.partition(":")[0] in _ELSEWHERE:
        with service.admission.place():
            return await service.admission.wait(work)
    return await service.admission.enter().start(lambda waited: work())


@cache
def _embedder(config: ModelConfig) -> Embedder:
    """The embedder, once a process."""
    found = load_embedder(config.spec)
    if found is None:
        raise UsageError(f"{config.spec} is no embedder", "name one in the configuration")
    return found


@cache
def _reranker(config: ModelConfig) -> Reranker:
    """The reranker, once a process."""
    kind, _, address = config.spec.partition(":")
    if kind in ("http", "https"):
        return mw.HTTPReranker(address if kind == "http" else config.spec, key=config.key())
    found = load_reranker(config.spec)
    if found is None:
        raise UsageError(f"{config.spec} is no reranker", "name one in the configuration")
    return found


def _model_named(name: str, models: Mapping[str, ModelConfig]) -> ModelConfig:
    """Raises HTTPProblem 404 for a name that the configuration does not have."""
    if name in models:
        return models[name]
    raise unknown_model(
        name, f"one of: {', '.join(models)}" if models else "the configuration of the server names none"
    )
