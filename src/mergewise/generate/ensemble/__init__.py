"""Answers of several streams: AED-RAG's ensemble (`aed`), its most useful stream alone (`aed-best`), and REPLUG (`replug`).

Beside them the modes that they are measured against, with the same prompts and one stream: `short`, `naive` and `recomp`.
"""

from __future__ import annotations

from mergewise.generate.ensemble.modes import answer, answer_all, answer_by_best, answer_by_replug, replug_all
from mergewise.generate.ensemble.single import answer_from_summary, answer_short, short_all, summary_all

__all__ = [
    "answer",
    "answer_all",
    "answer_by_best",
    "answer_by_replug",
    "answer_from_summary",
    "answer_short",
    "replug_all",
    "short_all",
    "summary_all",
]
