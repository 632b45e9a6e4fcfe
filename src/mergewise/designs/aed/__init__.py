"""AED-RAG: separate streams for passages, triplets and the model's own background, decoded together.

`triplets` is its view, `strategy` selects the inputs of each stream, and `ensemble` decodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.designs.design import Design, later
from mergewise.lazy import lazy_names

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


_MODES = ("aed", "aed-best", "naive", "recomp", "replug", "short")
DESIGN = Design(
    later(f"{__name__}.triplets", "VIEW", "triplet"),
    later(f"{__name__}.strategy", "STRATEGIES", "aed"),
    later(f"{__name__}.ensemble", "MODES", *_MODES),
    later(f"{__name__}.triplets.extract", "PROMPTS", "triplets"),
)

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
