"""POST /v1/embeddings, and Cohere's POST /v2/rerank: the models that score, for those who bring their own texts."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Request

from mergewise import count_tokens
from mergewise.protocols import Embedder, FloatArray
from mergewise.server.openai.conversations import refused
from mergewise.server.openai.forms import EmbeddingsForm, RerankForm
from mergewise.server.problems import HTTPProblem
from mergewise.server.routing import READ, Caller, ScopedRoute, Server
from mergewise.server.streams import until_disconnect

router = APIRouter(route_class=ScopedRoute)
rerank_router = APIRouter(route_class=ScopedRoute)

MOST_INPUTS = 256
LONGEST_INPUT = 100_000


@router.post("/embeddings", openapi_extra=READ)
async def embed(form: EmbeddingsForm, request: Request, service: Server, token: Caller) -> dict[str, Any]:
    """Vectors of texts, by the embedder of this name."""
    texts = _texts(form.input)
    vectors = await until_disconnect(request, service.admission.run(partial(_vectors, service, form, texts)))
    data = [
        {"object": "embedding", "index": at, "embedding": _encoded(vector, form.encoding_format)}
        for at, vector in enumerate(vectors)
    ]
    tokens = sum(count_tokens(texts))
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


def _vectors(service: Any, form: EmbeddingsForm, texts: Sequence[str]) -> FloatArray:
    embedder: Embedder | None = service.models.embedder(form.model)
    if embedder is None:
        raise _unknown_model(form.model, service.models.embedder_names)
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
    texts = form.texts
    scores = await until_disconnect(request, service.admission.run(partial(_scores, service, form, texts)))
    ranked = sorted(range(len(texts)), key=lambda at: (-scores[at], at))[: form.top_n]
    shown = [{"document": {"text": texts[at]}} if form.return_documents else {} for at in ranked]
    results = [
        {"index": at, "relevance_score": float(scores[at]), **more} for at, more in zip(ranked, shown, strict=True)
    ]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return {"id": "rerank-" + secrets.token_hex(12), "results": results, "meta": meta}


def _scores(service: Any, form: RerankForm, texts: Sequence[str]) -> FloatArray:
    reranker = service.models.reranker(form.model)
    if reranker is None:
        raise _unknown_model(form.model, service.models.reranker_names)
    return reranker.score(form.query, texts)  # type: ignore[no-any-return]


def _unknown_model(name: str, names: Sequence[str]) -> HTTPProblem:
    detail = f"there is no model {name[:100]!r} for this"
    hint = f"one of: {', '.join(names)}" if names else "the configuration of the server names none"
    return HTTPProblem(404, "model_not_found", detail, hint, errors=[{"pointer": "/model", "detail": detail}])
