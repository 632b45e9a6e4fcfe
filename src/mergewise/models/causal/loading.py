"""Loading of networks and tokenizers, by a folder, a name on the hub, or a GGUF file.

Specs are `hf:PATH`, `hf:NAME` and `hf:DIR/FILE.gguf`, optionally with a number format: `hf:PATH@bfloat16`. By default a network
computes in float32 on a CPU, and in its saved format on a GPU. In half precision the shape of a batch changes the last bits of
logits, which may change a greedy text. In float32 this practically never happens.

A GGUF file is dequantised while it is read, so it saves disk space, not memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mergewise.errors import MissingExtra, UsageError, first_line
from mergewise.models.hub import silence

DTYPES = ("float32", "bfloat16", "float16", "float64")
_GGUF = ".gguf"


def name_and_dtype(name: str) -> tuple[str, str | None]:
    """Split a spec into the path or name, and the number format after the last @."""
    path, at, dtype = name.rpartition("@")
    return (path, dtype) if at and path and dtype in DTYPES else (name, None)


def torch_module() -> Any:
    silence()
    try:
        import torch
        import transformers  # noqa: F401
    # a broken installation may raise any error
    except Exception as error:
        raise MissingExtra("transformers", "hf", error) from error
    return torch


def load_network(name: str, device: str, dtype: str | None) -> Any:
    """Load a network. Raises UsageError if it is not a causal model, and MissingExtra for GGUF without its package."""
    torch = torch_module()
    wanted = dtype or ("float32" if device == "cpu" else "auto")
    if wanted == "auto" and _is_gguf(name):
        # a dequantised network has no saved format
        wanted = "bfloat16"
    return _load(name, "AutoModelForCausalLM", dtype=getattr(torch, wanted, wanted))


def load_tokenizer(name: str) -> Any:
    torch_module()
    return _load(name, "AutoTokenizer")


def _is_gguf(name: str) -> bool:
    return name.endswith(_GGUF) and Path(name).is_file()


def _load(name: str, kind: str, **options: Any) -> Any:
    import transformers

    where, local = name, Path(name).exists()
    if _is_gguf(name):
        where, options = str(Path(name).parent), {**options, "gguf_file": Path(name).name}
    try:
        with quietly():
            # code of models is refused explicitly, because by default transformers asks on standard input
            return getattr(transformers, kind).from_pretrained(
                where, local_files_only=local, trust_remote_code=False, **options
            )
    # a broken file may raise any error
    except Exception as error:
        # the packages that a GGUF file needs depend on the version
        for package in ("gguf", "accelerate"):
            if f"install {package}" in str(error):
                raise MissingExtra(package, "hf") from error
        raise UsageError(
            f"cannot load {name} as a causal model: {first_line(error)}",
            "give the folder of a downloaded model, a GGUF file, or a name on the hub",
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Turn off the progress bars of transformers."""
    from transformers.utils import logging as log

    drawn = log.is_progress_bar_enabled()
    log.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            log.enable_progress_bar()
