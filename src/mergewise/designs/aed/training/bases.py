"""Base models of a predictor, loaded as a sequence classifier with one label, and its tokenizer.

`cross-encoder:PATH` is a Hugging Face folder: a cross-encoder with one label, or an encoder, which gets a new head.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

from mergewise.errors import MissingExtra, UsageError, first_line
from mergewise.models.causal.loading import quietly, torch_module

EXTRA = "train"
_CROSS_ENCODER = "cross-encoder:"


class Base(NamedTuple):
    """A transformers network and its tokenizer."""

    network: Any
    tokenizer: Any


def check_packages() -> None:
    """Check that the packages for training are installed, before the labels are made.

    Raises:
        MissingExtra: if a package is missing.
    """
    for package in ("torch", "transformers", "onnx"):
        if find_spec(package) is None:
            raise MissingExtra(package, EXTRA)


def load_base(spec: str, seed: int) -> Base:
    """Load a base model. A new head is initialised by `seed`.

    Raises:
        UsageError: if the model cannot be trained.
        MissingExtra: if torch is not installed.
    """
    check_base(spec)
    torch_module().manual_seed(seed)
    import transformers

    name = spec.removeprefix(_CROSS_ENCODER)
    hint = "pass the folder of a cross-encoder saved by transformers (config.json, model.safetensors, tokenizer.json)"
    try:
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        if any("SequenceClassification" in kind for kind in config.architectures or ()) and config.num_labels != 1:
            raise UsageError(
                f"{name} has {config.num_labels} labels (expected 1)", "use a cross-encoder with one label"
            )
        config.num_labels = 1
        with quietly():
            network = transformers.AutoModelForSequenceClassification.from_pretrained(
                name, config=config, trust_remote_code=False
            )
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"cannot load the base {name}: {first_line(error)}", hint) from None
    return Base(network, tokenizer)


def check_base(spec: str) -> None:
    """Check the form of a spec.

    Raises:
        UsageError: if the form is unknown.
    """
    if not spec.startswith(_CROSS_ENCODER) or spec == _CROSS_ENCODER:
        raise UsageError(f"unknown base: {spec!r}", "name a base: --base cross-encoder:PATH")
