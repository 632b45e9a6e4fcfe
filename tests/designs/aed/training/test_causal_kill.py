"""SIGKILL at random moments while a predictor is trained: who goes on loses a step at most, and gets the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mergewise.designs.aed.training.candidates import Kind
from mergewise.designs.aed.training.labels import LabelStore
from mergewise.designs.aed.training.trainer import TrainSettings
from mergewise.designs.aed.training.utility import train_utility

pytest.importorskip("torch", reason="the extra `hf` is not installed")

KILLS = int(os.environ.get("MERGEWISE_KILLS", "1"))
STEPS = 30
KINDS: list[Kind] = ["passages", "generated"]
SETTINGS = TrainSettings(batch=8, epochs=10, rate=1e-2, tokens=48, held_out=0.3, patience=0)
TRAINER = f"""
import sys
from pathlib import Path
from mergewise.designs.aed.training.labels import LabelStore
from mergewise.designs.aed.training.trainer import TrainSettings
from mergewise.designs.aed.training.utility import train_utility

labels, base, out = sys.argv[1:]
train_utility(LabelStore(Path(labels)), {KINDS}, base, {SETTINGS}, Path(out), lambda *told: print(told[0], flush=True))
"""


def steps_of(labels: LabelStore, base: str, out: Path) -> list[int]:
    told: list[int] = []
    train_utility(labels, KINDS, base, SETTINGS, out, lambda step, *_: told.append(step))
    return told


def steps_until(kill: int, wait: float, labels: LabelStore, base: str, out: Path) -> list[int]:
    """The steps that a trainer told of which was killed some seconds after the `kill`th one that it took."""
    command = [sys.executable, "-c", TRAINER, str(labels.folder), base, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        told: list[int] = []
        for line in trainer.stdout:
            told.append(int(line))
            if len(told) == kill:
                time.sleep(wait)
                trainer.send_signal(signal.SIGKILL)
    assert trainer.returncode == -signal.SIGKILL
    return told


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_as_if_nothing_had_been(
    many_labels: LabelStore, base: str, tmp_path: Path
) -> None:
    assert steps_of(many_labels, base, tmp_path / "whole") == list(range(1, STEPS + 1))
    draw, known = random.Random(0), 0
    broken = tmp_path / "broken"
    for number in range(KILLS):
        longest = max(1, (STEPS - known) // (KILLS - number + 1))  # so that each kill finds something to do
        steps = steps_until(draw.randint(1, longest), draw.uniform(0, 0.05), many_labels, base, broken)
        assert steps and steps[0] in (known + 1, known + 2)  # the step that was under way may have been kept unsaid
        known = steps[-1]
    rest = steps_of(many_labels, base, broken)
    assert rest[-1] == STEPS and rest[0] in (known + 1, known + 2)
    whole, resumed = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in
                      (tmp_path / "whole", broken))  # fmt: skip
    assert whole == resumed
