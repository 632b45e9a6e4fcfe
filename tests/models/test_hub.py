"""Hugging Face's clients are silenced before their import, in each module that loads models with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_SAFETENSORS_CONVERSION")
# libraries that print the variables when they are imported, and cannot load anything
LIBRARY = f"""
import json, os
print(json.dumps([os.environ.get(name) for name in {NAMES!r}]))
raise ImportError
"""
LOADERS = {
    "sentence_transformers": "from mergewise.models.sentence_transformers import load; load('a')",
    "torch": "from mergewise.models.causal.loading import load_tokenizer; load_tokenizer('a')",
}


@pytest.mark.parametrize(("given", "expected"), [({}, ["1", "1"]), (dict.fromkeys(NAMES, "0"), ["0", "0"])])
@pytest.mark.parametrize("library", LOADERS)
def test_telemetry_is_off_before_the_import(
    library: str, given: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / f"{library}.py").write_text(LIBRARY)
    others = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", LOADERS[library]],
        env={**others, **given, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "MissingExtra" in done.stderr and json.loads(done.stdout) == expected
