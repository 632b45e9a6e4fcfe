"""Tuning of parameters and of weave's weights on a user's own questions. The winner is compared with the default by cross-fitting, once."""

from __future__ import annotations

from mergewise.evaluate.tuning.tune import HeldOut, TuningReport, tune
from mergewise.evaluate.tuning.weights import WeightsReport, fit_weights

__all__ = ["HeldOut", "TuningReport", "WeightsReport", "fit_weights", "tune"]
