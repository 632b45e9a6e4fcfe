"""Savings of shared caches: the rows of NLL for one round of asymmetric merging, against all pairs one by one.

python -m benchmarks.nll [--chunks 32] [--tokens 200] [--shape small|qwen3-1.7b] [--device cpu|cuda] [--naive-share 1]

The model has random weights, which do not change the speed, and the chunks are random tokens. "Full matrix" runs every ordered
pair in full, in batches of the same size. `--naive-share 0.25` runs a quarter of its pairs and multiplies the time by four.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from mergewise.designs.mergerag.merging import MergeChunk, asymmetric
from mergewise.models.causal import HFCausalModel
from mergewise.models.causal_scorer import BATCH_PAIRS, CausalScorer

SHAPES: dict[str, dict[str, Any]] = {
    "small": {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 4096},
    "qwen3-1.7b": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
                   "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936, "tie_word_embeddings": True},
}  # fmt: skip


class Numbers:
    """A tokenizer of texts made of numbers. A blank line is token 1."""

    bos_token_id = None
    eos_token_id = None

    def __call__(self, text: str, **options: bool) -> dict[str, list[int]]:
        return {"input_ids": [1] if text == "\n\n" else [int(part) for part in text.split()]}


def build(shape: str, device: str) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(max_position_embeddings=4096, **SHAPES[shape])
    with torch.device(device):
        model = Qwen3ForCausalLM(config)
    return model.to(torch.bfloat16) if device == "cuda" else model


def first_round(scorer: CausalScorer, texts: Sequence[str]) -> int:
    """Score the pairs of the first round of Algorithm 4: every second chunk is a source. Return the number of pairs."""

    def rows(source: MergeChunk[str], anchors: Sequence[MergeChunk[str]]) -> list[float]:
        return list(scorer.nll([source.content], [anchor.content for anchor in anchors])[0])

    chunks = [MergeChunk(i, float(i), 1, text) for i, text in enumerate(texts)]
    return len(list(asymmetric(rows)(chunks, len(chunks) // 2)))


def full_matrix(scorer: CausalScorer, texts: Sequence[str], share: float) -> int:
    """Score every ordered pair (or the first ones) as one sequence, in batches. Return the number of pairs."""
    import torch
    from torch.nn.functional import cross_entropy

    model = scorer.model
    assert isinstance(model, HFCausalModel)
    pairs = [(s, a) for a in texts for s in texts if s is not a]
    chosen = pairs[: max(1, round(share * len(pairs)))]
    with torch.inference_mode():
        for first in range(0, len(chosen), BATCH_PAIRS):
            batch = chosen[first : first + BATCH_PAIRS]
            ids = [(scorer.prefix(anchor), model.encode(source)) for source, anchor in batch]
            inputs = torch.tensor([prefix + source for prefix, source in ids], device=model.device)
            logits = model.network(input_ids=inputs).logits
            scores = [
                cross_entropy(logits[i, len(prefix) - 1 : -1].float(), torch.tensor(source, device=model.device))
                for i, (prefix, source) in enumerate(ids)
            ]
            torch.stack(scores).cpu()
            model.tokens_run += inputs.numel()
    return len(chosen)


def timed(work: Callable[[], int], scorer: CausalScorer) -> tuple[float, int, int]:
    model = scorer.model
    assert isinstance(model, HFCausalModel)
    before, started = model.tokens_run, perf_counter()
    count = work()
    return perf_counter() - started, model.tokens_run - before, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--naive-share", type=float, default=1.0)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = rng.integers(2, SHAPES[options.shape]["vocab_size"], (options.chunks, options.tokens))
    texts = [" ".join(map(str, row)) for row in rows]
    model = build(options.shape, options.device)

    def scorer() -> CausalScorer:
        return CausalScorer(HFCausalModel(options.shape, model=model, tokenizer=Numbers(), device=options.device))

    # Warm up.
    scorer().nll(texts[:2], texts[:BATCH_PAIRS])
    full_matrix(scorer(), texts[:4], 1.0)
    ours, naive = scorer(), scorer()
    pairs = options.chunks * (options.chunks - 1)
    seconds, tokens, _ = timed(lambda: first_round(ours, texts), ours)
    naive_seconds, naive_tokens, done = timed(lambda: full_matrix(naive, texts, options.naive_share), naive)
    naive_seconds, naive_tokens = naive_seconds * pairs / done, round(naive_tokens * pairs / done)
    print(f"{options.chunks} chunks of {options.tokens} tokens, {options.shape} on {options.device}, random weights")
    print(f"{'':28} {'tokens run':>11} {'seconds':>9}")
    print(f"{f'full matrix, {pairs} pairs':28} {naive_tokens:11,} {naive_seconds:9.2f}")
    print(f"{'first round, shared caches':28} {tokens:11,} {seconds:9.2f}")
    print(f"{'ratio':28} {naive_tokens / tokens:11.1f} {naive_seconds / seconds:9.1f}")


if __name__ == "__main__":
    main()
