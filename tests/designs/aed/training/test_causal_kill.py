"""SIGKILL at random moments of a training. A resumed training loses at most a step and gives the same bytes."""

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
train_utility(LabelStore(Path(labels)), {KINDS}, base, {SETTINGS}, Path(out), lambda *progress: print(progress[0], flush=True))
"""


def steps_of(labels: LabelStore, base: str, out: Path) -> list[int]:
    steps: list[int] = []
    train_utility(labels, KINDS, base, SETTINGS, out, lambda step, *_: steps.append(step))
    return steps


def steps_until(kill: int, wait: float, labels: LabelStore, base: str, out: Path) -> list[int]:
    """Start a trainer, and kill it `wait` seconds after its `kill`th step. Return the steps that it reported."""
    command = [sys.executable, "-c", TRAINER, str(labels.folder), base, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        steps: list[int] = []
        for line in trainer.stdout:
            steps.append(int(line))
            if len(steps) == kill:
                time.sleep(wait)
                trainer.send_signal(signal.SIGKILL)
    assert trainer.returncode == -signal.SIGKILL
    return steps


@pytest.mark.slow
def test_killed_training_gives_the_same_result(many_labels: LabelStore, base: str, tmp_path: Path) -> None:
    assert steps_of(many_labels, base, tmp_path / "whole") == list(range(1, STEPS + 1))
    draw, known = random.Random(0), 0
    broken = tmp_path / "broken"
    for number in range(KILLS):
        longest = max(1, (STEPS - known) // (KILLS - number + 1))  # leaves steps for each kill
        steps = steps_until(draw.randint(1, longest), draw.uniform(0, 0.05), many_labels, base, broken)
        assert steps and steps[0] in (known + 1, known + 2)  # a step may be saved but not reported
        known = steps[-1]
    rest = steps_of(many_labels, base, broken)
    assert rest[-1] == STEPS and rest[0] in (known + 1, known + 2)
    whole, resumed = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in
                      (tmp_path / "whole", broken))  # fmt: skip
    assert whole == resumed
