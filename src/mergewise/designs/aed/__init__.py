"""AED-RAG: separate streams for passages, triplets and the model's own background, decoded together.

`triplets` is its view, `strategy` selects the inputs of each stream, and `ensemble` decodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mergewise.designs.aed import triplets
from mergewise.designs.design import Design, Lazy, Strategy
from mergewise.lazy import lazy_names
from mergewise.types import PromptTemplate

if TYPE_CHECKING:
    from mergewise.designs.aed.training.bases import check_base as check_base
    from mergewise.designs.aed.training.bases import check_packages as check_packages
    from mergewise.designs.aed.training.candidates import KINDS as KINDS
    from mergewise.designs.aed.training.candidates import Example as Example
    from mergewise.designs.aed.training.candidates import LabelSource as LabelSource
    from mergewise.designs.aed.training.candidates import label_facts as label_facts
    from mergewise.designs.aed.training.labels import LabelSettings as LabelSettings
    from mergewise.designs.aed.training.labels import LabelStore as LabelStore
    from mergewise.designs.aed.training.labels import label as label
    from mergewise.designs.aed.training.labels import likeliest_kind as likeliest_kind
    from mergewise.designs.aed.training.trainer import PRESETS as PRESETS
    from mergewise.designs.aed.training.trainer import TrainSettings as TrainSettings
    from mergewise.designs.aed.training.utility import TrainingReport as TrainingReport
    from mergewise.designs.aed.training.utility import train_utility as train_utility
    from mergewise.designs.aed.triplets.records import Triplet as Triplet
    from mergewise.designs.aed.triplets.rules import triplets_by_rules as triplets_by_rules
    from mergewise.generate.mode import Mode


def _strategies() -> dict[str, Strategy]:
    from mergewise.designs.aed.strategy import AED, PRESETS, assemble

    summary = "the most useful passages and triplets, for separate streams (AED-RAG)"
    return {"aed": Strategy(assemble, AED(), summary, mode="aed", presets=PRESETS)}


def _modes() -> dict[str, Mode[Any]]:
    from mergewise.designs.aed.ensemble import MODES

    return MODES


def _prompts() -> dict[str, PromptTemplate]:
    from mergewise.designs.aed.triplets.extract import RULES

    return {one.name: one for one in (RULES,)}


DESIGN = Design({"triplet": triplets.VIEW}, Lazy(_strategies), Lazy(_modes), Lazy(_prompts))

__getattr__ = lazy_names(
    __name__,
    {
        "training.bases": "check_base check_packages",
        "training.candidates": "KINDS Example LabelSource label_facts",
        "training.labels": "LabelSettings LabelStore label likeliest_kind",
        "training.trainer": "PRESETS TrainSettings",
        "training.utility": "TrainingReport train_utility",
        "triplets.records": "Triplet",
        "triplets.rules": "triplets_by_rules",
    },
)
