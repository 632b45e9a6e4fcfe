"""Import of Hugging Face's clients with their telemetry and background requests off."""

from __future__ import annotations

import os


def silence() -> None:
    """Turn off their telemetry, and transformers' requests to convert a model. Call this before their import.

    A value that the user has set is kept.
    """
    for name in ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_SAFETENSORS_CONVERSION"):
        os.environ.setdefault(name, "1")
