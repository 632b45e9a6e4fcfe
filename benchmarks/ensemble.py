"""Cost of three streams: decoding with three prompts in one batch, against one prompt with the same number of tokens.

python -m benchmarks.ensemble [--shape small|qwen3-8b] [--device cpu|cuda] [--tokens 768] [--new 32] [--questions 1,4,16]
                              [--repeats 3]

The model has random weights, which do not change the speed (bfloat16 on a GPU, float32 on a CPU). The prompts are random tokens:
each question has one prompt of `--tokens`, or three prompts with `--tokens` in total. Both go through the same decoder, which
writes `--new` tokens and never meets an end token. The time per token is that of a decoding step, without reading the prompts.
The best of the repeats counts. The output is JSON lines, a row for each number of concurrent questions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from mergewise.models.causal import HFCausalModel
from mergewise.models.decoding import StreamPrompts, decode

SHAPES: dict[str, dict[str, Any]] = {
    "small": {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 8,
              "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 8192},
    "qwen3-8b": {"hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36, "num_attention_heads": 32,
                 "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936},
}  # fmt: skip
# Shares of the streams: passages, triplets, background.
UNEVEN = (0.5, 0.3, 0.2)


class NoWords:
    """A tokenizer that decodes to empty text."""

    bos_token_id = eos_token_id = None

    def decode(self, ids: Sequence[int], **options: bool) -> str:
        return " ".join(map(str, ids))


def build(shape: str, device: str) -> HFCausalModel:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(max_position_embeddings=8192, **SHAPES[shape])
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if device == "cuda" else torch.float32)
    try:
        with torch.device(device):
            network = Qwen3ForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    network.generation_config.eos_token_id = None
    return HFCausalModel(shape, model=network, tokenizer=NoWords(), device=device)


def prompts(vocabulary: int, questions: int, tokens: int, shares: Sequence[float]) -> list[StreamPrompts]:
    draw = np.random.default_rng(0)
    lengths = [max(1, round(share * tokens)) for share in shares]
    weights = tuple(1 / len(shares) for _ in shares)
    return [
        StreamPrompts(tuple(draw.integers(0, vocabulary, length).tolist() for length in lengths), weights)
        for _ in range(questions)
    ]


def seconds(model: HFCausalModel, asked: Sequence[StreamPrompts], new: int) -> float:
    began = perf_counter()
    found = decode(model, asked, max_tokens=new, rows=10_000)
    taken = perf_counter() - began
    assert all(len(one.tokens) == new for one in found)
    return taken


def measure(model: HFCausalModel, asked: Sequence[StreamPrompts], new: int, repeats: int) -> tuple[float, float]:
    """Return the seconds until the first tokens, and the seconds of each later step."""
    # Warm up compilation and allocation.
    seconds(model, asked, 2)
    first = min(seconds(model, asked, 1) for _ in range(repeats))
    whole = min(seconds(model, asked, new) for _ in range(repeats))
    return first, (whole - first) / (new - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--tokens", type=int, default=768)
    parser.add_argument("--new", type=int, default=32)
    parser.add_argument("--questions", default="1,4,16")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    model = build(given.shape, given.device)
    vocabulary = SHAPES[given.shape]["vocab_size"]
    for questions in map(int, given.questions.split(",")):
        row: dict[str, Any] = {"shape": given.shape, "device": given.device, "questions": questions}
        for name, shares in {"one": (1.0,), "three": UNEVEN}.items():
            asked = prompts(vocabulary, questions, given.tokens, shares)
            first, step = measure(model, asked, given.new, given.repeats)
            row[name] = {
                "tokens_read": sum(len(prompt) for prompt in asked[0].prompts),
                "first_ms": round(1000 * first, 2),
                "step_ms": round(1000 * step, 3),
                "tokens_a_second": round(questions / step, 1),
            }
        row["ratio"] = round(row["three"]["step_ms"] / row["one"]["step_ms"], 3)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
