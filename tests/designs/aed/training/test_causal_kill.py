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

from mergewise.designs.aed.training.labels import LabelStore

pytest.importorskip("torch", reason="the extra `hf` is not installed")

KILLS = int(os.environ.get("MERGEWISE_KILLS", "1"))
STEPS = 30
TRAINER = """
import sys
from pathlib import Path
from mergewise.designs.aed.training.labels import LabelStore
from mergewise.designs.aed.training.trainer import TrainSettings
from mergewise.designs.aed.training.utility import train_utility

labels, base, out = sys.argv[1:]
settings = TrainSettings(batch=8, epochs=10, rate=1e-2, tokens=48, held_out=0.3, patience=0)
store, kinds = LabelStore(Path(labels)), ["passages", "generated"]
train_utility(store, kinds, base, settings, Path(out), lambda *told: print(told[0], flush=True))
print("done", flush=True)
"""


def steps_until(kill: int | None, wait: float, labels: LabelStore, base: str, out: Path) -> list[int]:
    """The steps that a trainer told of which was killed some seconds after the `kill`th one that it took, or never."""
    command = [sys.executable, "-c", TRAINER, str(labels.folder), base, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        told: list[str] = []
        for line in trainer.stdout:
            told.append(line.strip())
            if len(told) == kill:
                time.sleep(wait)
                trainer.send_signal(signal.SIGKILL)
    assert trainer.returncode == (0 if told[-1] == "done" else -signal.SIGKILL)
    return [int(step) for step in told if step != "done"]


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_as_if_nothing_had_been(
    many_labels: LabelStore, base: str, tmp_path: Path
) -> None:
    assert steps_until(None, 0, many_labels, base, tmp_path / "whole") == list(range(1, STEPS + 1))
    draw, known = random.Random(0), 0
    broken = tmp_path / "broken"
    for number in range(KILLS):
        longest = max(1, (STEPS - known) // (KILLS - number + 1))  # so that each kill finds something to do
        steps = steps_until(draw.randint(1, longest), draw.uniform(0, 0.05), many_labels, base, broken)
        assert steps and steps[0] in (known + 1, known + 2)  # the step that was under way may have been kept unsaid
        known = steps[-1]
    rest = steps_until(None, 0, many_labels, base, broken)
    assert rest[-1] == STEPS and rest[0] in (known + 1, known + 2)
    whole, resumed = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in
                      (tmp_path / "whole", broken))  # fmt: skip
    assert whole == resumed
