"""The routes POST /v1/embeddings and Cohere's POST /v2/rerank, which run the server's models on the client's texts."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.extend import EMBEDDER as SHIPPED
from mergewise.extend import in_thread, load_embedder
from mergewise.protocols import Embedder, FloatArray
from mergewise.server.admission import Slot
from mergewise.server.models import ModelConfig
from mergewise.server.openai.conversations import unknown_model
from mergewise.server.openai.requests import EmbeddingsForm, RerankForm
from mergewise.server.problems import refusal
from mergewise.server.routing import READ, InService, ScopedRoute
from mergewise.server.scoped import ScopedService
from mergewise.server.streams import until_disconnect
from mergewise.types import JsonDict

router = APIRouter(route_class=ScopedRoute)
rerank_router = APIRouter(route_class=ScopedRoute)

MOST_INPUTS = 2_048
LONGEST_INPUT = 100_000
_ELSEWHERE = frozenset({"openai", "http", "https"})


@router.post("/embeddings", response_model=JsonDict, **READ)
async def embed(form: EmbeddingsForm, request: Request, service: InService) -> Response:
    """Embed texts with the embedder of this name."""
    config = _model_named(form.model, {SHIPPED: ModelConfig(SHIPPED), **service.config.embedders})
    texts = _texts(form.input)
    vectors = await until_disconnect(request, _in_turns(service, config, form, texts))
    # FastAPI would convert each number in the event loop
    return Response(await in_thread(_body, form, texts, vectors), media_type="application/json")


def _body(form: EmbeddingsForm, texts: Sequence[str], vectors: FloatArray) -> str:
    """Return the vectors as JSON: lists of numbers, or base64 of little-endian float32."""
    shown: Sequence[object] = vectors.tolist()
    if form.encoding_format == "base64":
        shown = [base64.b64encode(row.tobytes()).decode() for row in vectors.astype("<f4")]
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(shown)]
    tokens = sum(mw.count_tokens(texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json.dumps({"object": "list", "data": data, "model": form.model, "usage": usage})


def embedder_forms(service: ScopedService) -> list[JsonDict]:
    """List the embedders of the configuration, and the built-in one if a collection that the token may read uses it."""
    is_used = any(one.embedder in (None, SHIPPED) for one in service.collections())
    names = dict.fromkeys([*service.config.embedders, *([SHIPPED] if is_used else [])])
    return [{"id": name, "object": "model", "created": 0, "owned_by": "mergewise"} for name in names]


def _texts(given: str | Sequence[Any]) -> list[str]:
    """Return the input as a list of texts. Raises HTTPProblem 400 for tokens, and for too many or too long texts."""
    texts = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(text, str) for text in texts):
        hint = "send texts (LangChain: check_embedding_ctx_length=False)"
        raise refusal("unsupported input: tokens (expected texts)", "input", hint)
    if not 0 < len(texts) <= MOST_INPUTS:
        raise refusal(f"invalid number of texts: {len(texts)} (expected 1 to {MOST_INPUTS:,})", "input")
    if any(not text.strip() or len(text) > LONGEST_INPUT for text in texts):
        raise refusal(f"invalid text: empty, or longer than {LONGEST_INPUT:,} characters", "input")
    return texts


async def _in_turns(
    service: ScopedService, config: ModelConfig, form: EmbeddingsForm, texts: Sequence[str]
) -> FloatArray:
    """Embed some texts at a time. Once admitted, the request waits for its next turn behind the questions in the queue."""
    together = len(texts) if config.spec.partition(":")[0] in _ELSEWHERE else 32

    def embedded(some: Sequence[str]) -> FloatArray:
        model: Embedder = _model(config, "embedder")
        if form.dimensions not in (None, model.dimension):
            raise refusal(f"invalid dimensions: {form.dimensions} ({form.model} has {model.dimension})", "dimensions")
        return model.embed_queries(some) if form.input_type == "query" else model.embed_documents(some)

    parts = [
        await _admitted(service, config, partial(embedded, texts[at : at + together]), again=at > 0)
        for at in range(0, len(texts), together)
    ]
    return np.concatenate(parts)


@rerank_router.post("/rerank", **READ)
async def rerank(form: RerankForm, request: Request, service: InService) -> JsonDict:
    """Rank texts for a query with the reranker of this name, best first."""
    texts = form.documents
    config = _model_named(form.model, service.config.rerankers)
    scores = await until_disconnect(
        request, _admitted(service, config, lambda: _model(config, "reranker").score(form.query, texts))
    )
    ranked = sorted(range(len(texts)), key=lambda at: (-scores[at], at))[: form.top_n]
    results = [{"index": at, "relevance_score": float(scores[at])} for at in ranked]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return {"id": f"rerank-{secrets.token_hex(12)}", "results": results, "meta": meta}


async def _admitted(
    service: ScopedService, config: ModelConfig, work: Callable[[], FloatArray], *, again: bool = False
) -> FloatArray:
    """Run the work: with a slot for a model of this process, or waiting for a model on another server.

    With `again`, a full queue does not refuse the work.
    """
    admission = service.admission
    if config.spec.partition(":")[0] in _ELSEWHERE:
        with admission.place():
            return await admission.wait(work)
    return await (Slot(admission, False) if again else admission.enter()).start(lambda waited: work())


@cache
def _model(config: ModelConfig, kind: str) -> Any:
    """Load an embedder or a reranker once per process."""
    found = config.embedder() if kind == "embedder" else config.reranker()
    found = load_embedder(found) if isinstance(found, str) else found
    if found is None:
        raise UsageError(f"invalid {kind}: {config.spec}", "name another one in the configuration")
    return found


def _model_named(name: str, models: Mapping[str, ModelConfig]) -> ModelConfig:
    """Return the configuration of a model. Raises HTTPProblem 404 for an unknown name."""
    if name in models:
        return models[name]
    raise unknown_model(name, f"one of: {', '.join(models)}" if models else "add a model to the server's configuration")
