"""Answers of several streams: AED-RAG's ensemble (`aed`), its most useful stream alone (`aed-best`), and REPLUG (`replug`).

Beside them the modes that they are measured against, with the same prompts and one stream: `short`, `naive` and `recomp`.
"""

from __future__ import annotations

from mergewise.designs.aed.ensemble.modes import answer, answer_all, answer_by_best, answer_by_replug, replug_all
from mergewise.designs.aed.ensemble.single import answer_from_summary, answer_short, short_all, summary_all
from mergewise.generate.mode import Mode

MODES = {
    "aed": Mode(
        answer,
        "the passages and the model's own background, decoded together",
        needs="causal",
        answer_all=answer_all,
        otherwise="aed-best",
    ),
    "aed-best": Mode(answer_by_best, "the most useful of the streams of `aed`", needs="chat"),
    "naive": Mode(
        answer_short,
        "what the model knows, in a few words",
        needs="chat",
        reads_context=False,
        answer_all=short_all,
    ),
    "recomp": Mode(
        answer_from_summary,
        "a summary of the passages, which may be empty, in a few words",
        needs="chat",
        alone=True,
        answer_all=summary_all,
    ),
    "replug": Mode(
        answer_by_replug,
        "each passage by itself, probabilities added up",
        needs="causal",
        answer_all=replug_all,
    ),
    "short": Mode(
        answer_short,
        "the passages, in a few words; without any what the model knows",
        needs="chat",
        alone=True,
        answer_all=short_all,
    ),
}
