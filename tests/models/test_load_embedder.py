from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest

from mergewise.errors import MissingExtra, UsageError, install_command
from mergewise.models import EMBEDDERS, load_chat, load_embedder
from mergewise.models.onnx import OnnxPartEmbedder


def test_by_name() -> None:
    assert load_embedder("none") is None
    embedder = load_embedder("minilm")
    assert isinstance(embedder, OnnxPartEmbedder) and embedder.spec == "minilm"


@pytest.mark.parametrize("spec", ["", "bert", "minilm:", "minilm:x", "none:", "st", "st:", "openai", "openai:", ":x"])
def test_the_error_for_an_unknown_spec_lists_the_forms(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_embedder(spec)
    assert all(form in caught.value.hint for form in EMBEDDERS)


@pytest.mark.parametrize(
    ("load", "spec", "extra"),
    [(load_embedder, "openai:m", "openai"), (load_chat, "openai:m", "openai"), (load_embedder, "st:any", "st")],
)
def test_the_error_for_a_missing_extra_names_the_install_command(
    load: Callable[[str], object], spec: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("openai", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=re.escape(install_command(extra))):
        load(spec)
