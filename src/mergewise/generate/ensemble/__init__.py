"""Answers of several streams: AED-RAG's ensemble (`aed`), its most useful stream alone (`aed-best`), and REPLUG (`replug`)."""

from __future__ import annotations

from mergewise.generate.ensemble.modes import answer, answer_all, answer_by_best, answer_by_replug, replug_all

__all__ = ["answer", "answer_all", "answer_by_best", "answer_by_replug", "replug_all"]
