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

    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    parts = []
    for first in range(0, len(order), PAIRS):
        some = [texts[i] for i in order[first : first + PAIRS]]
        given = base.tokenizer(
            [question] * len(some),
            some,
            truncation="longest_first",
            max_length=tokens,
            padding=True,
            return_tensors="pt",
        )
        parts.append(base.network(**given.to(base.network.device)).logits[:, 0])
    return torch.cat(parts)[torch.tensor(order).argsort()]


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
