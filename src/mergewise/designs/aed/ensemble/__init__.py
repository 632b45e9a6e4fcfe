"""Modes with several streams: AED-RAG's ensemble (`aed`), its most useful stream (`aed-best`), and REPLUG (`replug`).

The baselines `short`, `naive` and `recomp` use the same prompts with a single stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mergewise.designs.aed.ensemble.modes import aed_all, answer_by_best, replug_all
from mergewise.designs.aed.ensemble.single import short_all, summary_all
from mergewise.generate.mode import CAUSAL, CHAT, Mode, Need, Needed, Request
from mergewise.types import Answer


def _mode_of_many(
    answer_all: Callable[[Sequence[Request], Needed], list[Answer]], summary: str, needs: Need[Needed], **options: Any
) -> Mode[Needed]:
    """Return a mode that answers questions in batches. A single question is a batch of one."""
    return Mode(
        lambda request, model: answer_all([request], model)[0], summary, needs, answer_all=answer_all, **options
    )


MODES = {
    "aed": _mode_of_many(
        aed_all, "the passages and the model's own background, decoded together", CAUSAL, otherwise="aed-best"
    ),
    "aed-best": Mode(answer_by_best, "the most useful stream of `aed`", CHAT),
    "naive": _mode_of_many(short_all, "the model's own knowledge, in a few words", CHAT, reads_context=False),
    "recomp": _mode_of_many(
        summary_all, "a summary of the passages (it may be empty), in a few words", CHAT, alone=True
    ),
    "replug": _mode_of_many(replug_all, "each passage separately, with summed probabilities", CAUSAL),
    "short": _mode_of_many(
        short_all, "the passages, in a few words; without passages, the model's own knowledge", CHAT, alone=True
    ),
}
