"""Parameters, and weave's weights, tuned on questions of one's own, with a part of them held out that is looked at once."""

from __future__ import annotations

from mergewise.evaluate.tuning.tune import HeldOut, TuningReport, tune
from mergewise.evaluate.tuning.weights import WeightsReport, fit_weights

__all__ = ["HeldOut", "TuningReport", "WeightsReport", "fit_weights", "tune"]
