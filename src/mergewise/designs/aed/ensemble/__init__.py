"""Answers of several streams: AED-RAG's ensemble (`aed`), its most useful stream alone (`aed-best`), and REPLUG (`replug`).

Beside them the modes that they are measured against, with the same prompts and one stream: `short`, `naive` and `recomp`.
"""

from __future__ import annotations

from typing import Any

from mergewise.designs.aed.ensemble.modes import answer, answer_all, answer_by_best, answer_by_replug, replug_all
from mergewise.designs.aed.ensemble.single import answer_from_summary, answer_short, short_all, summary_all
from mergewise.generate.mode import CAUSAL, CHAT, Mode

MODES: dict[str, Mode[Any]] = {
    "aed": Mode(
        answer,
        "the passages and the model's own background, decoded together",
        CAUSAL,
        answer_all=answer_all,
        otherwise="aed-best",
    ),
    "aed-best": Mode(answer_by_best, "the most useful of the streams of `aed`", CHAT),
    "naive": Mode(
        answer_short,
        "what the model knows, in a few words",
        CHAT,
        reads_context=False,
        answer_all=short_all,
    ),
    "recomp": Mode(
        answer_from_summary,
        "a summary of the passages, which may be empty, in a few words",
        CHAT,
        alone=True,
        answer_all=summary_all,
    ),
    "replug": Mode(
        answer_by_replug,
        "each passage by itself, probabilities added up",
        CAUSAL,
        answer_all=replug_all,
    ),
    "short": Mode(
        answer_short,
        "the passages, in a few words; without any what the model knows",
        CHAT,
        alone=True,
        answer_all=short_all,
    ),
}
