"""A causal model that transformers loads from a local folder, `hf:PATH`: next-token log-probabilities, by KV caches.

Rows of different lengths are padded on the left, and each has its positions counted from its first token; continuations are
padded on the right. Probabilities are worked out in float32, whatever the model computes in. Keys and values of what a row
has been read for are kept, and many continuations can share them. A model that keeps another kind of state (a sliding window,
a state space) reads prompt and continuation as a whole instead; `start` and `extend` work with it if its cache understands
padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from mergewise.errors import MissingExtra, ModelError, UsageError

if TYPE_CHECKING:
    from mergewise.protocols import FloatArray

WINDOW = 2048  # of a model that does not say how large its window is

P = ParamSpec("P")
Result = TypeVar("Result")
Method = Callable[Concatenate["HFCausalModel", P], Result]


def _inference(method: Method[P, Result]) -> Method[P, Result]:
    """Runs the method without gradients; an error of the model becomes a ModelError."""

    @wraps(method)
    def run(self: HFCausalModel, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            with self.torch.inference_mode():
                return method(self, *args, **kwargs)
        except (RuntimeError, IndexError) as error:
            raise ModelError(f"{self.spec} failed: {error}", "a smaller model may do") from error

    return run


@dataclass(frozen=True, slots=True, eq=False)
class HFState:
    """A `CausalState`. `ids` are the rows' tokens, `cache` is the model's, padded on the left as `mask` says.

    `logits` are those of the last token of each row: (rows, vocabulary).
    """

    ids: list[list[int]]
    cache: Any
    mask: Any
    logits: Any

    @property
    def log_probs(self) -> FloatArray:
        log_probs: FloatArray = self.logits.float().log_softmax(-1).cpu().numpy()
        return log_probs


class HFCausalModel:
    """A `CausalModel`. Takes the first GPU where there is one. `tokens_run` counts the tokens that went through the model.

    With `share_caches=False` every continuation is read together with its prompt, one by one: the slow and obvious form that
    the shared one must equal.
    """

    def __init__(
        self,
        path: str,
        *,
        model: Any = None,
        tokenizer: Any = None,
        device: str | None = None,
        share_caches: bool = True,
    ) -> None:
        self.torch = _torch()
        self.spec = f"hf:{path}"
        self.tokens_run = 0
        self.device = device or ("cuda" if self.torch.cuda.is_available() else "cpu")
        self._tokenizer = tokenizer or _load(path, "AutoTokenizer")
        self.network = (model or _load(path, "AutoModelForCausalLM", dtype="auto")).to(self.device).eval()
        self.window = int(getattr(self.network.config, "max_position_embeddings", None) or WINDOW)
        self._share_caches = share_caches

    @property
    def begin(self) -> list[int]:
        bos = self._tokenizer.bos_token_id
        return [] if bos is None else [int(bos)]

    @property
    def ends(self) -> frozenset[int]:
        """The ends that the model is configured with, and that of the tokenizer."""
        named = getattr(getattr(self.network, "generation_config", None), "eos_token_id", None)
        ids = named if isinstance(named, list) else [named]
        return frozenset(int(i) for i in [*ids, self._tokenizer.eos_token_id] if i is not None)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    @_inference
    def start(self, rows: Sequence[Sequence[int]]) -> HFState:
        longest = max(len(row) for row in rows)
        mask = self._tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
        ids = self._tensor([[0] * (longest - len(row)) + list(row) for row in rows])
        # the padding before a row's first token is masked: its positions only have to be valid
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        answer = self.network(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True)
        self.tokens_run += sum(len(row) for row in rows)
        # a copy, so that the logits of all the other tokens can go
        return HFState([list(row) for row in rows], answer.past_key_values, mask, answer.logits[:, -1].clone())

    @_inference
    def extend(self, state: HFState, tokens: Sequence[int]) -> HFState:
        mask = self.torch.cat([state.mask, state.mask.new_ones(len(tokens), 1)], 1)
        answer = self.network(
            input_ids=self._tensor([[token] for token in tokens]),
            attention_mask=mask,
            position_ids=self._tensor([[len(row)] for row in state.ids]),
            past_key_values=state.cache,
            use_cache=True,
        )
        self.tokens_run += len(tokens)
        rows = [[*row, token] for row, token in zip(state.ids, tokens, strict=True)]
        return HFState(rows, answer.past_key_values, mask, answer.logits[:, -1])

    @_inference
    def score(self, states: Sequence[HFState], continuations: Sequence[Sequence[int]]) -> list[FloatArray]:
        asked = [i for i, ids in enumerate(continuations) if ids]
        if not asked:
            return [np.zeros(0, np.float32) for _ in continuations]
        prompts, tokens = [states[i] for i in asked], [list(continuations[i]) for i in asked]
        layers = [list(_layers(state)) for state in prompts] if self._share_caches else [[]]
        if all(layers):
            scores = self._behind_caches(prompts, layers, tokens)
        else:
            scores = [self._whole(state.ids[0], ids) for state, ids in zip(prompts, tokens, strict=True)]
        everything: FloatArray = self.torch.cat(scores).cpu().numpy()
        ends = accumulate(len(ids) for ids in continuations)
        return [everything[end - len(ids) : end] for ids, end in zip(continuations, ends, strict=True)]

    def _whole(self, prompt: list[int], ids: list[int]) -> Any:
        """The definition: prompt and continuation as one sequence."""
        logits = self.network(input_ids=self._tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        self.tokens_run += len(prompt) + len(ids)
        return self._of(logits, ids)

    def _behind_caches(
        self, states: Sequence[HFState], layers: Sequence[Sequence[tuple[Any, Any]]], ids: Sequence[list[int]]
    ) -> list[Any]:
        """The continuations behind the caches of their prompts, in one padded batch.

        The prompt's last logits give the first token's probability, so the last token need not be run.
        """
        lengths = [len(state.ids[0]) for state in states]
        longest, prompt = max(map(len, ids)) - 1, max(lengths)
        logits = None
        if longest:
            left = [[0] * (prompt - length) + [1] * length for length in lengths]
            right = [[1] * (len(row) - 1) + [0] * (longest - len(row) + 1) for row in ids]
            positions = self._tensor([list(range(length, length + longest)) for length in lengths])
            logits = self.network(
                input_ids=self._tensor([row[:-1] + [0] * (longest - len(row) + 1) for row in ids]),
                attention_mask=self._tensor([before + after for before, after in zip(left, right, strict=True)]),
                position_ids=positions.clamp(max=self.window - 1),  # those of the padding on the right may be beyond it
                past_key_values=self._joined(layers, prompt),
                use_cache=True,
            ).logits
            self.tokens_run += sum(len(row) - 1 for row in ids)
        rows = [state.logits for state in states]
        if logits is not None:
            parts = [logits[number, : len(row) - 1] for number, row in enumerate(ids)]
            rows = [self.torch.cat([first, rest]) for first, rest in zip(rows, parts, strict=True)]
        return [self._of(row, tokens) for row, tokens in zip(rows, ids, strict=True)]

    def _joined(self, layers: Sequence[Sequence[tuple[Any, Any]]], length: int) -> Any:
        """One cache of many, each padded on the left to the same length."""
        from transformers import DynamicCache

        pad, cache = self.torch.nn.functional.pad, DynamicCache()
        for number in range(len(layers[0])):
            keys, values = (
                self.torch.cat(
                    [pad(row[number][part], (0, 0, length - row[number][part].shape[-2], 0)) for row in layers]
                )
                for part in (0, 1)
            )
            cache.update(keys, values, number)
        return cache

    def _of(self, logits: Any, ids: list[int]) -> Any:
        """Log-probabilities of these tokens, one a row of logits."""
        return -self.torch.nn.functional.cross_entropy(logits.float(), self._tensor(ids), reduction="none")

    def _tensor(self, values: Any) -> Any:
        return self.torch.tensor(values, device=self.device)


def _layers(state: HFState) -> Iterator[tuple[Any, Any]]:
    """Keys and values of each layer, for a state of one row; nothing unless every layer has them for every token."""
    layers = list(getattr(state.cache, "layers", ()))
    kinds = {type(layer).__name__ for layer in layers}
    if kinds == {"DynamicLayer"} and all(layer.keys.shape[-2] == len(state.ids[0]) for layer in layers):
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
