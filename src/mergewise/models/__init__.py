"""Models behind the protocols, with one file per adapter. The loaders import the adapter that a spec names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from mergewise.concurrency import run
from mergewise.errors import UsageError

if TYPE_CHECKING:
    from mergewise.models.causal import HFCausalModel
    from mergewise.protocols import CausalModel, ChatModel, Embedder, NLLScorer, Reranker

Model = TypeVar("Model")


def _lazy(module: str, kind: str, of_name: Callable[[str], Any] = str) -> Callable[..., Any]:
    """Return a loader that imports the adapter on first use, and calls it with `of_name(name)` for a name that is not empty."""

    def load(name: str, **options: object) -> Any:
        return getattr(import_module(f"{__name__}.{module}"), kind)(*([of_name(name)] if name else ()), **options)

    return load


def _nothing(name: str, **options: object) -> None:
    return None


def _shared(load: Callable[[str], Model]) -> Callable[[str], Model]:
    """Return a loader that shares models by name. A model is released with its last user."""
    in_use: WeakValueDictionary[str, Any] = WeakValueDictionary()
    loading = Lock()

    def model_in_use(name: str) -> Model:
        with loading:
            model: Model | None = in_use.get(name)
            if model is None:
                model = in_use[name] = load(name)
            return model

    return model_in_use


# chat model, reranker and scorer share one causal model
_causal: Callable[[str], HFCausalModel] = _shared(_lazy("causal", "HFCausalModel"))


# The forms of a spec, with their loaders. A loader gets the part after the colon.
EMBEDDERS: dict[str, Callable[[str], Embedder | None]] = {
    "e5": _shared(_lazy("onnx", "e5")),
    "minilm": _shared(_lazy("onnx", "minilm")),
    "none": _nothing,
    "onnx:PATH": _shared(_lazy("onnx", "load_folder")),
    "openai:MODEL": _lazy("openai", "OpenAIEmbedder"),
    "st:NAME_OR_PATH": _lazy("sentence_transformers", "SentenceTransformersEmbedder"),
}
# A chat model's loader also gets the user's window in tokens, or None for the model's own window.
CHATS: dict[str, Callable[..., ChatModel | None]] = {
    "extractive": _nothing,
    "hf:PATH": _lazy("causal_chat", "CausalChat", _causal),
    "openai:MODEL": _lazy("openai_chat", "OpenAIChat"),
}
CAUSALS: dict[str, Callable[[str], CausalModel | None]] = {"hf:PATH": _causal, "none": _nothing}
RERANKERS: dict[str, Callable[[str], Reranker | None]] = {
    "calibrated:SLOPE,BIAS:RERANKER": _lazy("calibration", "load_calibrated"),
    "cross-encoder:PATH_OR_NAME": _lazy("cross_encoder", "load_cross_encoder"),
    "hf:PATH": _lazy("causal_reranker", "CausalReranker", _causal),
    "http:URL": _lazy("rerank_http", "HTTPReranker"),
    "none": _nothing,
}
SCORERS: dict[str, Callable[[str], NLLScorer | None]] = {
    "hf:PATH": _lazy("causal_scorer", "CausalScorer", _causal),
    "lm": _nothing,
    "openai:MODEL": _lazy("openai_scorer", "OpenAIScorer"),
}


def knows_embedder(spec: str) -> bool:
    """Check whether an embedder can be loaded by this spec. Embedders given as objects usually cannot."""
    return _form_of(spec, EMBEDDERS) is not None


def load_embedder(spec: str) -> Embedder | None:
    """Load the embedder of a spec, or None for `none`: full-text search only.

    Raises:
        UsageError: for an unknown spec.
        MissingExtra: if an optional dependency is not installed.
    """
    return _load(spec, EMBEDDERS, "embedder")


def load_chat(spec: str, window: int | None = None) -> ChatModel | None:
    """Load the chat model of a spec, or None for `extractive`: answers are quoted sentences."""
    return _load(spec, CHATS, "chat model", window=window)


def load_causal(spec: str) -> CausalModel | None:
    """Load the causal model of a spec, or None for `none`."""
    return _load(spec, CAUSALS, "causal model")


def causal_of(chat: object) -> CausalModel | None:
    """Return the causal model inside a chat model, cached or not, or None if the chat model gives no probabilities."""
    from mergewise.models.cache import CachedChat

    causal: CausalModel | None = getattr(chat.chat if isinstance(chat, CachedChat) else chat, "causal", None)
    return causal


def load_reranker(spec: str) -> Reranker | None:
    """Load the reranker of a spec, or None for `none`: the order of the search."""
    spec = f"http:{spec}" if spec.startswith(("http://", "https://")) else spec
    return _load(spec, RERANKERS, "reranker")


def load_scorer(spec: str) -> NLLScorer | None:
    """Load the scorer of a spec, or None for `lm`: word counts of the index."""
    return _load(spec, SCORERS, "scorer")


def _load(spec: str, forms: Mapping[str, Callable[..., Model]], what: str, **options: object) -> Model:
    form = _form_of(spec, forms)
    if form is None:
        raise UsageError(f"unknown {what}: {spec!r}", "use " + ", ".join(forms))
    return forms[form](spec.partition(":")[2], **options)


def _form_of(spec: str, forms: Iterable[str]) -> str | None:
    """Return the first form that fits the spec, or None."""
    kind, colon, name = spec.partition(":")
    fitting = (form for form in forms if form.partition(":")[:2] == (kind, colon) and bool(name) == bool(colon))
    return next(fitting, None)


def release(model: object) -> None:
    """Close the connections of a model, if it has any."""
    aclose, close = getattr(model, "aclose", None), getattr(model, "close", None)
    if aclose is not None:
        run(aclose())
    elif close is not None:
        close()
