"""Tuning of parameters and of weave's weights on a user's own questions. A cross-fitted comparison judges the winner."""

from __future__ import annotations

from mergewise.evaluate.tuning.tune import HeldOut, TuningReport, tune
from mergewise.evaluate.tuning.weights import WeightsReport, fit_weights

__all__ = ["HeldOut", "TuningReport", "WeightsReport", "fit_weights", "tune"]
