"""Causal model `hf:PATH` by transformers: next-token log-probabilities with KV caches.

- Padding: rows are padded on the left, with positions counted from their first token. Continuations are padded on the right.
- Precision: probabilities are computed in float32 or better, regardless of the model's format.
- Caches: keys and values of a row are kept, and continuations share them. A model with another kind of state (a sliding window, a
  state space) reads prompt and continuation as a whole instead. `start` and `extend` work with it if its cache supports padding.
- Half precision: the shape of a batch changes the last bits of logits, because kernels add in another order. So a row in a batch
  may get another greedy token than alone. In float32 this practically never happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from itertools import accumulate
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

from mergewise.errors import ModelError
from mergewise.lazy import of_process
from mergewise.models.blending import choose_on_device
from mergewise.models.causal.loading import load_network, load_tokenizer, name_and_dtype, torch_module
from mergewise.models.causal.prompts import plain_ids, prompt_ids
from mergewise.models.causal.rows import (
    alike,
    common_beginning,
    join_caches,
    layers_of,
    padding_first,
    repeat_row,
    select_rows,
)
from mergewise.protocols import Blend, FloatArray, NextTokens, TokenRows
from mergewise.types import Message

# window of a model whose configuration does not name one
WINDOW = 2048
# minimum of tokens that reading a common beginning separately must save, because it takes another run of the network
SAVED = 512
# cost in tokens of another run of the network on a CPU, which separates rows of different lengths to avoid padding
PRICE = 64

P = ParamSpec("P")
Result = TypeVar("Result")
Method = Callable[Concatenate["HFCausalModel", P], Result]


def _inference(method: Method[P, Result]) -> Method[P, Result]:
    """Run the method without gradients, one call at a time, and translate errors of the model into ModelError."""

    @wraps(method)
    def run(self: HFCausalModel, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            with self.lock, self.torch.inference_mode():
                return method(self, *args, **kwargs)
        except (RuntimeError, IndexError) as error:
            raise ModelError(f"{self.spec} failed: {error}", "try a smaller model") from error

    return run


@dataclass(frozen=True, slots=True, eq=False)
class HFState:
    """A `CausalState`. `ids` holds the tokens of each row, and `cache` the model's cache, padded on the left as in `mask`.

    `logits` are those of the last token of each row, shape (rows, vocabulary). `followed` caches the logits of continuations that
    `contrast` compared with this state.
    """

    ids: list[list[int]]
    cache: Any
    mask: Any
    logits: Any
    followed: dict[tuple[int, ...], Any] = field(default_factory=dict)

    @property
    def log_probs(self) -> FloatArray:
        log_probs: FloatArray = wide(self.logits).log_softmax(-1).cpu().numpy()
        return log_probs


def wide(logits: Any) -> Any:
    """Convert logits to float32, except float64 ones."""
    return logits if str(logits.dtype) == "torch.float64" else logits.float()


class HFCausalModel:
    """A `CausalModel` by transformers, on the first GPU if there is one. Thread-safe: calls run one at a time.

    `path` is the part of the spec after `hf:` (see `loading`). `tokens_run` counts the tokens that the network read. With
    `share_caches=False` each continuation is read together with its prompt, one by one: the slow reference for tests.
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
        self.torch = torch_module()
        self.spec = f"hf:{path}"
        self.tokens_run = 0
        self.lock = RLock()
        self.device = device or ("cuda" if self.torch.cuda.is_available() else "cpu")
        name, dtype = name_and_dtype(path)
        self._tokenizer = tokenizer or load_tokenizer(name)
        self.network = (model or load_network(name, self.device, dtype)).to(self.device).eval()
        self.window = int(getattr(self.network.config, "max_position_embeddings", None) or WINDOW)
        self._share_caches = share_caches
        self._joins = share_caches and self.device == "cpu"
        # request only the last logits, because the logits of a whole prompt would dominate memory
        parameters = signature(self.network.forward).parameters
        self._last_alone = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        # transformers 5.24 renamed the argument and the field of the output
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a path, so that each worker process loads the model once."""
        return of_process, (HFCausalModel, self.spec.removeprefix("hf:"))

    @property
    def begin(self) -> list[int]:
        bos = self._tokenizer.bos_token_id
        return [] if bos is None else [int(bos)]

    @property
    def ends(self) -> frozenset[int]:
        """The end tokens of the model's configuration and of the tokenizer."""
        named = getattr(getattr(self.network, "generation_config", None), "eos_token_id", None)
        ids = named if isinstance(named, list) else [named]
        return frozenset(int(i) for i in [*ids, self._tokenizer.eos_token_id] if i is not None)

    def encode(self, text: str) -> list[int]:
        return plain_ids(self._tokenizer, text)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        return prompt_ids(self._tokenizer, messages)

    @_inference
    def start(self, rows: TokenRows) -> HFState:
        """Read rows in one run on a GPU, where padding is cheap, or in a run for each group of similar lengths on a CPU."""
        if not self._joins:
            return self._read(rows)
        groups = alike(list(map(len, rows)), PRICE + common_beginning(rows))
        states = [self._read([rows[place] for place in group]) for group in groups]
        if len(states) == 1:
            return states[0]
        if not all(layers_of(state.cache) for state in states):
            # this kind of cache cannot be joined, so do not try again
            self._joins = False
            return self._read(rows)
        ids = [row for state in states for row in state.ids]
        longest = max(map(len, ids))
        cache = join_caches([layers_of(state.cache) for state in states], longest)
        logits = self.torch.cat([state.logits for state in states])
        places = [place for group in groups for place in group]
        return self.select(
            HFState(ids, cache, self._left_mask(ids, longest), logits), sorted(range(len(ids)), key=places.__getitem__)
        )

    def _read(self, rows: TokenRows) -> HFState:
        shared = common_beginning(rows)
        if self._share_caches and shared * (len(rows) - 1) >= SAVED:
            state = self._start_behind(rows, shared)
            if state is not None:
                return state
        return self._start(rows)

    def _start(self, rows: TokenRows) -> HFState:
        longest = max(len(row) for row in rows)
        mask = self._left_mask(rows, longest)
        ids = self._tensor([[0] * (longest - len(row)) + list(row) for row in rows])
        # the positions of masked padding only have to be valid
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        answer = self._run(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, **self._last_alone
        )
        self.tokens_run += sum(len(row) for row in rows)
        _silence_padding(self._cache_of(answer), mask)
        # copy the last logits, so that the others can be freed
        return HFState(
            [list(row) for row in rows], self._cache_of(answer), mask, self._checked_copy(answer.logits[:, -1])
        )

    def _start_behind(self, rows: TokenRows, shared: int) -> HFState | None:
        """Read the common beginning of rows once, then the rests. Return None if the model's cache cannot be split."""
        begun = self._run(input_ids=self._tensor([list(rows[0][:shared])]), use_cache=True, **self._last_alone)
        layers = layers_of(self._cache_of(begun))
        if not layers:
            return None
        rests = [list(row[shared:]) for row in rows]
        longest = max(map(len, rests))
        padding = self._tensor([[longest - len(rest)] for rest in rests])
        columns = self._tensor([list(range(longest))])
        mask = self.torch.cat([padding.new_ones(len(rows), shared), (columns >= padding).long()], 1)
        answer = self._run(
            input_ids=self._tensor([[0] * (longest - len(rest)) + rest for rest in rests]),
            attention_mask=mask,
            position_ids=(shared + columns - padding).clamp(min=0),
            **self._given_cache(repeat_row(layers, len(rows))),
            **self._last_alone,
        )
        self.tokens_run += shared + sum(map(len, rests))
        cache = padding_first(self._cache_of(answer), padding, shared)
        mask = self._left_mask(rows, shared + longest)
        _silence_padding(cache, mask)
        return HFState([list(row) for row in rows], cache, mask, self._checked_copy(answer.logits[:, -1]))

    def _left_mask(self, rows: TokenRows, width: int) -> Any:
        """Return the attention mask of rows padded on the left."""
        return self._tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])

    @_inference
    def extend(self, state: HFState, tokens: Sequence[int]) -> HFState:
        mask = self.torch.cat([state.mask, state.mask.new_ones(len(tokens), 1)], 1)
        answer = self._run(
            input_ids=self._tensor([[token] for token in tokens]),
            attention_mask=mask,
            position_ids=self._tensor([[len(row)] for row in state.ids]),
            **self._given_cache(state.cache),
        )
        self.tokens_run += len(tokens)
        rows = [[*row, token] for row, token in zip(state.ids, tokens, strict=True)]
        return HFState(rows, self._cache_of(answer), mask, self._checked_copy(answer.logits[:, -1]))

    @_inference
    def select(self, state: HFState, rows: Sequence[int]) -> HFState:
        index = self._tensor(list(rows))
        ids = [state.ids[row] for row in rows]
        mask = state.mask[index]
        cut = mask.shape[1] - max(map(len, ids)) if layers_of(state.cache) else 0
        return HFState(ids, select_rows(state.cache, index, cut), mask[:, cut:], state.logits[index])

    @_inference
    def choose(self, state: HFState, blend: Blend) -> NextTokens:
        return choose_on_device(wide(state.logits), blend)

    @_inference
    def score(self, states: Sequence[HFState], continuations: TokenRows) -> list[FloatArray]:
        return self._log_probs(self._continuation_logits(states, continuations), continuations)

    @_inference
    def contrast(
        self, states: Sequence[HFState], continuations: TokenRows, without: Sequence[HFState], alpha: float
    ) -> list[FloatArray]:
        known = self._continuation_logits(states, continuations)
        self._follow(without, continuations)
        adjusted = (
            (1 + alpha) * wide(row) - alpha * wide(state.followed[tuple(ids)])
            for row, state, ids in zip(known, without, continuations, strict=True)
        )
        return self._log_probs(adjusted, continuations)

    def _follow(self, states: Sequence[HFState], continuations: TokenRows) -> None:
        """Compute and cache the logits of continuations for each state."""
        asked = {(id(s), tuple(ids)): s for s, ids in zip(states, continuations, strict=True)}
        missing = [(state, list(ids)) for (_, ids), state in asked.items() if ids not in state.followed]
        found = self._continuation_logits([state for state, _ in missing], [ids for _, ids in missing])
        for (state, ids), row in zip(missing, found, strict=True):
            state.followed[tuple(ids)] = row.clone()

    def _continuation_logits(self, states: Sequence[HFState], continuations: TokenRows) -> list[Any]:
        """Return the logits before each token of a continuation, shape (tokens, vocabulary), for each continuation."""
        asked = [i for i, ids in enumerate(continuations) if ids]
        found = [state.logits[:0] for state in states]
        if not asked:
            return found
        prompts, tokens = [states[i] for i in asked], [list(continuations[i]) for i in asked]
        layers = [_layers(state) for state in prompts] if self._share_caches else [[]]
        if all(layers):
            logits = self._behind_caches(prompts, layers, tokens)
        else:
            logits = [self._whole(state.ids[0], ids) for state, ids in zip(prompts, tokens, strict=True)]
        for i, row in zip(asked, logits, strict=True):
            found[i] = row
        return found

    def _whole(self, prompt: list[int], ids: list[int]) -> Any:
        """Compute logits by definition, with prompt and continuation as one sequence."""
        logits = self._run(input_ids=self._tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        self.tokens_run += len(prompt) + len(ids)
        return logits

    def _behind_caches(
        self, states: Sequence[HFState], layers: Sequence[Sequence[tuple[Any, Any]]], ids: Sequence[list[int]]
    ) -> list[Any]:
        """Compute logits of continuations after the caches of their prompts, in one padded batch.

        The prompt's last logits give the probability of the first token, so the last token is not run.
        """
        lengths = [len(state.ids[0]) for state in states]
        longest, prompt = max(map(len, ids)) - 1, max(lengths)
        rows = [state.logits for state in states]
        if longest:
            left = [[0] * (prompt - length) + [1] * length for length in lengths]
            right = [[1] * (len(row) - 1) + [0] * (longest - len(row) + 1) for row in ids]
            positions = self._tensor([list(range(length, length + longest)) for length in lengths])
            logits = self._run(
                input_ids=self._tensor([row[:-1] + [0] * (longest - len(row) + 1) for row in ids]),
                attention_mask=self._tensor([before + after for before, after in zip(left, right, strict=True)]),
                # positions of the padding on the right may exceed the window
                position_ids=positions.clamp(max=self.window - 1),
                **self._given_cache(join_caches(layers, prompt)),
            ).logits
            self.tokens_run += sum(len(row) - 1 for row in ids)
            parts = [logits[number, : len(row) - 1] for number, row in enumerate(ids)]
            rows = [self.torch.cat([first, rest]) for first, rest in zip(rows, parts, strict=True)]
        return rows

    def _run(self, **given: Any) -> Any:
        return self.network(**given)

    def _given_cache(self, cache: Any) -> dict[str, Any]:
        """Return the arguments that make the network continue from a cache."""
        return {self._cache_name: cache, "use_cache": True}

    def _cache_of(self, answer: Any) -> Any:
        """Return the cache in the output of the network."""
        return getattr(answer, self._cache_name)

    def _checked_copy(self, logits: Any) -> Any:
        """Copy logits. Raises ModelError if one is NaN."""
        if bool(self.torch.isnan(logits).any()):
            raise ModelError(f"NaN logit from {self.spec}", "load it in float32: hf:PATH@float32")
        return logits.clone()

    def _log_probs(self, logits: Iterable[Any], continuations: TokenRows) -> list[FloatArray]:
        """Return the log-probabilities of the tokens of continuations as arrays, in one transfer from the device."""
        if not continuations:
            return []
        loss = self.torch.nn.functional.cross_entropy
        losses = [
            loss(wide(rows), self._tensor(list(ids)).long(), reduction="none")
            for rows, ids in zip(logits, continuations, strict=True)
        ]
        everything: FloatArray = -self.torch.cat(losses).cpu().numpy()
        ends = accumulate(len(ids) for ids in continuations)
        return [everything[end - len(ids) : end] for ids, end in zip(continuations, ends, strict=True)]

    def _tensor(self, values: Any) -> Any:
        return self.torch.tensor(values, device=self.device)


def _layers(state: HFState) -> list[tuple[Any, Any]]:
    """Return keys and values of each layer of a state with one row, or an empty list if it is padded."""
    layers = layers_of(state.cache)
    return layers if all(keys.shape[-2] == len(state.ids[0]) for keys, _ in layers) else []


def _silence_padding(cache: Any, mask: Any) -> None:
    """Set the cache of padding to zero.

    A padding column attends to nothing, for which a kernel may return NaN, and a mask does not remove NaN: 0 times NaN is NaN.
    """
    if bool(mask.all()):
        return
    for keys, values in layers_of(cache):
        blank = (mask == 0)[:, None, :, None]
        keys.masked_fill_(blank, 0)
        values.masked_fill_(blank, 0)
