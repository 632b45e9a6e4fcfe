"""Scorer `hf:PATH`: the negative log-likelihood of sources given anchors, by a causal model through transformers.

L_NLL(s | a) of MergeRAG, section 3.3. An anchor is run once; its KV cache and its last logits serve all sources that it is
asked about, now and later. Pairs run in batches: caches of different lengths are padded on the left, sources on the right.
A model whose cache is not one key and one value a token (a sliding window, a state space) gets whole pairs instead.

Anchor and source are tokenised apart, with a blank line between them. Each is cut to half of the model's window: the anchor
keeps its end, which stands next to the source, the source its beginning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from mergewise.errors import MissingExtra, ModelError, UsageError

if TYPE_CHECKING:
    from mergewise.protocols import FloatArray

BATCH_PAIRS = 32
SEPARATOR = "\n\n"
WINDOW = 2048  # of a model that does not say its own
REMEMBERED_ANCHORS = 128
REMEMBERED_PAIRS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class _Anchor:
    """What is kept of an anchor that was run: a (keys, values) a layer, each (1, heads, tokens, size), and the last logits."""

    layers: list[tuple[Any, Any]]
    logits: Any
    tokens: int


class CausalScorer:
    """An `NLLScorer`. Takes the first GPU where there is one. `tokens_run` counts the tokens that went through the model.

    With `share_caches=False` every pair is run on its own and whole: slow, obvious, what the shared form must equal.
    """

    def __init__(
        self,
        path: str,
        *,
        model: Any = None,
        tokenizer: Any = None,
        device: str | None = None,
        batch_pairs: int = BATCH_PAIRS,
        share_caches: bool = True,
    ) -> None:
        self.spec = f"hf:{path}"
        self.tokens_run = 0
        self._torch = _torch()
        self._device = device or ("cuda" if self._torch.cuda.is_available() else "cpu")
        self._tokenizer = tokenizer or _load(path, "AutoTokenizer")
        self._model = (model or _load(path, "AutoModelForCausalLM", dtype="auto")).to(self._device).eval()
        config = self._model.config
        self._half = (getattr(config, "max_position_embeddings", None) or WINDOW) // 2
        self._batch_pairs = batch_pairs
        self._share_caches = share_caches
        self._anchors: OrderedDict[str, _Anchor] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._lock = Lock()

    def nll(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        """Nats a token, shape (len(sources), len(anchors)); 0 for a source without tokens. Each pair is worked out once."""
        wanted = [(source, anchor) for source in sources for anchor in anchors]
        with self._lock, self._torch.inference_mode():
            found = {pair: self._known[pair] for pair in wanted if pair in self._known}
            missing = [pair for pair in dict.fromkeys(wanted) if pair not in found]
            for first in range(0, len(missing), self._batch_pairs):
                batch = missing[first : first + self._batch_pairs]
                found.update(zip(batch, self._scores(batch), strict=True))
            self._remember(found)
        return np.array([found[pair] for pair in wanted], np.float32).reshape(len(sources), len(anchors))

    def _remember(self, found: dict[tuple[str, str], float]) -> None:
        self._known.update(found)
        while len(self._known) > REMEMBERED_PAIRS:
            self._known.popitem(last=False)

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        sources = [self._ids(source)[: self._half] for source, _ in pairs]
        spoken = [i for i, ids in enumerate(sources) if ids]
        scores = [0.0] * len(pairs)
        if spoken:
            own = [pairs[i][1] for i in spoken]
            for i, score in zip(spoken, self._run([sources[i] for i in spoken], own), strict=True):
                scores[i] = score
        return scores

    def _run(self, sources: Sequence[list[int]], anchors: Sequence[str]) -> list[float]:
        prefixes = {anchor: self._prefix(anchor) for anchor in anchors}
        try:
            if self._share_caches:
                caches = {anchor: self._cached(anchor, prefix) for anchor, prefix in prefixes.items()}
                shared = [cache for anchor in anchors if (cache := caches[anchor]) is not None]
                if len(shared) == len(anchors):
                    return self._with_caches(sources, shared)
            return [self._whole(ids, prefixes[anchor]) for ids, anchor in zip(sources, anchors, strict=True)]
        except (RuntimeError, IndexError) as error:
            raise ModelError(f"{self.spec} failed: {error}", "a smaller model, or --scorer lm, may do") from error

    def _whole(self, source: list[int], prefix: list[int]) -> float:
        """The definition: anchor and source as one sequence."""
        logits = self._model(input_ids=self._tensor([prefix + source])).logits[0, len(prefix) - 1 : -1]
        self.tokens_run += len(prefix) + len(source)
        return float(self._losses(logits, source).mean())

    def _with_caches(self, sources: Sequence[list[int]], anchors: Sequence[_Anchor]) -> list[float]:
        """The sources behind their anchors' caches, in one padded batch.

        The first token's probability comes from the anchor's last logits, so that the last token need not be run.
        """
        torch = self._torch
        longest = max(len(ids) for ids in sources) - 1
        before = max(anchor.tokens for anchor in anchors)
        logits = None
        if longest:
            inputs = self._tensor([ids[:-1] + [0] * (longest - len(ids) + 1) for ids in sources])
            left = [[0] * (before - a.tokens) + [1] * a.tokens for a in anchors]
            right = [[1] * (len(ids) - 1) + [0] * (longest - len(ids) + 1) for ids in sources]
            positions = self._tensor([list(range(a.tokens, a.tokens + longest)) for a in anchors])
            logits = self._model(
                input_ids=inputs,
                attention_mask=self._tensor([x + y for x, y in zip(left, right, strict=True)]),
                position_ids=positions.clamp(max=2 * self._half - 1),
                past_key_values=self._padded(anchors, before),
                use_cache=True,
            ).logits
            self.tokens_run += sum(len(ids) - 1 for ids in sources)
        scores = []
        for number, (ids, anchor) in enumerate(zip(sources, anchors, strict=True)):
            rows = anchor.logits if logits is None else torch.cat([anchor.logits, logits[number, : len(ids) - 1]])
            scores.append(self._losses(rows, ids).mean())
        return [float(x) for x in torch.stack(scores).cpu()]

    def _padded(self, anchors: Sequence[_Anchor], length: int) -> Any:
        from transformers import DynamicCache

        pad = self._torch.nn.functional.pad
        cache = DynamicCache()
        for layer in range(len(anchors[0].layers)):
            keys, values = (
                self._torch.cat([pad(a.layers[layer][part], (0, 0, length - a.tokens, 0)) for a in anchors])
                for part in (0, 1)
            )
            cache.update(keys, values, layer)
        return cache

    def _cached(self, anchor: str, prefix: list[int]) -> _Anchor | None:
        """The anchor's cache, from its only run; None where the model keeps another kind of state."""
        if anchor not in self._anchors:
            answer = self._model(input_ids=self._tensor([prefix]), use_cache=True)
            self.tokens_run += len(prefix)
            layers = list(_layers(answer.past_key_values, len(prefix)))
            if not layers:
                self._share_caches = False
                return None
            self._anchors[anchor] = _Anchor(layers, answer.logits[0, -1:].clone(), len(prefix))
            while len(self._anchors) > max(REMEMBERED_ANCHORS, self._batch_pairs):
                self._anchors.popitem(last=False)
        self._anchors.move_to_end(anchor)
        return self._anchors[anchor]

    def _losses(self, logits: Any, ids: list[int]) -> Any:
        return self._torch.nn.functional.cross_entropy(logits.float(), self._tensor(ids), reduction="none")

    def _prefix(self, anchor: str) -> list[int]:
        ids = self._ids(anchor)
        begin = [self._tokenizer.bos_token_id] if self._tokenizer.bos_token_id is not None else []
        gap = self._ids(SEPARATOR) or begin or [0]
        room = self._half - len(begin) - len(gap)
        return [*begin, *ids[max(0, len(ids) - room) :], *gap]

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _tensor(self, values: Any) -> Any:
        return self._torch.tensor(values, device=self._device)


def _layers(cache: Any, tokens: int) -> Iterator[tuple[Any, Any]]:
    """Keys and values a layer; nothing unless every layer has one of each for every token."""
    layers = list(getattr(cache, "layers", ()))
    kinds = {type(layer).__name__ for layer in layers}
    if kinds == {"DynamicLayer"} and all(layer.keys.shape[-2] == tokens for layer in layers):
        yield from ((layer.keys, layer.values) for layer in layers)


def _torch() -> Any:
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtra("transformers", "hf") from error
    return torch


def _load(path: str, kind: str, **options: Any) -> Any:
    import transformers

    try:
        return getattr(transformers, kind).from_pretrained(path, local_files_only=True, **options)
    except (OSError, ValueError, KeyError) as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"{path} is no causal model that transformers can load: {line}", "give the folder of a downloaded model"
        ) from error
