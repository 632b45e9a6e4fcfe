"""From a spec to a network and its tokenizer: a folder, a name of the hub, or a GGUF file.

`hf:PATH`, `hf:NAME` and `hf:DIR/FILE.gguf`, each also with a number format: `hf:PATH@bfloat16`. Without one a network computes in
float32 on a processor, and on a GPU in the format in which it was saved. In half precision the shape of a batch changes the last
bits of logits, and so may change a greedy text; in float32 it practically never does.

A GGUF file is turned back into plain numbers of that format while it is read: it saves disk, not memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mergewise.errors import MissingExtra, UsageError

DTYPES = ("float32", "bfloat16", "float16", "float64")
_GGUF = ".gguf"


def name_and_dtype(name: str) -> tuple[str, str | None]:
    """The path or name of a spec, and the number format behind its last @."""
    path, at, dtype = name.rpartition("@")
    return (path, dtype) if at and path and dtype in DTYPES else (name, None)


def torch_module() -> Any:
    try:
        import torch
        import transformers  # noqa: F401
    # a broken installation brings errors of any kind
    except Exception as error:
        raise MissingExtra("transformers", "hf", error) from error
    return torch


def load_network(name: str, device: str, dtype: str | None) -> Any:
    """The network for this device. UsageError for what is no causal model, MissingExtra for GGUF without its package."""
    torch = torch_module()
    wanted = dtype or ("float32" if device == "cpu" else "auto")
    if wanted == "auto" and _is_gguf(name):
        # what it is turned back into has no format of its own
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
            # own code of a model is refused: without a word on it, transformers asks on standard input
            return getattr(transformers, kind).from_pretrained(
                where, local_files_only=local, trust_remote_code=False, **options
            )
    # a broken file brings errors of any kind
    except Exception as error:
        # what a GGUF file takes besides, which depends on the version
        for package in ("gguf", "accelerate"):
            if f"install {package}" in str(error):
                raise MissingExtra(package, "hf") from error
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"{name} is no causal model that transformers can load: {line}",
            "give the folder of a downloaded model, a GGUF file, or a name of the hub",
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Without the bars that transformers draws, also where nobody looks."""
    from transformers.utils import logging as log

    drawn = log.is_progress_bar_enabled()
    log.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            log.enable_progress_bar()
