"""Parameters, and weave's weights, tuned on questions of one's own, with a part of them held out that is looked at once."""

from __future__ import annotations

from mergewise.evaluate.tuning.tune import HeldOut, TuningReport, tune

__all__ = ["HeldOut", "TuningReport", "tune"]
