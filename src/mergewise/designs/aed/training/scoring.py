"""Utilities of candidates by the network in training: S_phi(q, u), Eq. 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mergewise.designs.aed.training.bases import Base
from mergewise.designs.aed.training.labels import LabelledQuestion

PAIRS = 16  # batch size; pairs are sorted by length to reduce padding


def utilities(base: Base, question: str, texts: Sequence[str], tokens: int) -> Any:
    """Compute the utility of each text, with gradients if enabled. Returns a tensor of shape (len(texts),)."""
    import torch

    encoded = base.tokenizer([question] * len(texts), list(texts), truncation="longest_first", max_length=tokens)
    order = sorted(range(len(texts)), key=lambda i: len(encoded["input_ids"][i]))
    names = [name for name in base.tokenizer.model_input_names if name in encoded]
    fills = {"input_ids": base.tokenizer.pad_token_id or 0}
    parts = []
    for first in range(0, len(order), PAIRS):
        rows = order[first : first + PAIRS]
        longest = max(len(encoded["input_ids"][i]) for i in rows)
        given = {
            name: [encoded[name][i] + [fills.get(name, 0)] * (longest - len(encoded[name][i])) for i in rows]
            for name in names
        }
        parts.append(
            base.network(**{name: torch.tensor(v, device=base.network.device) for name, v in given.items()}).logits
        )
    places = torch.empty(len(order), dtype=torch.long, device=base.network.device)
    places[order] = torch.arange(len(order), device=base.network.device)
    return torch.cat(parts)[places, 0]


def count_cut(base: Base, questions: Sequence[LabelledQuestion], tokens: int) -> int:
    """Count the candidates that, with their questions, exceed the network's input length."""
    pairs = [(one.example.text, each.candidate.predictor_text) for one in questions for each in one.candidates]
    encoded = base.tokenizer(*map(list, zip(*pairs, strict=True)), verbose=False)["input_ids"] if pairs else []
    return sum(len(ids) > tokens for ids in encoded)


def question_utilities(base: Base, questions: Sequence[LabelledQuestion], tokens: int) -> list[list[float]]:
    """Compute the utilities of all candidates of each question, without dropout."""
    import torch

    base.network.eval()
    with torch.inference_mode():
        return [
            utilities(
                base, one.example.text, [labelled.candidate.predictor_text for labelled in one.candidates], tokens
            ).tolist()
            for one in questions
        ]
