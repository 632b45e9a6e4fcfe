"""Without a framework its module says what to install: in any environment."""

from __future__ import annotations

import importlib
import sys

import pytest

import mergewise as mw


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("langchain", "langchain_core", "langchain"),
        ("llama_index", "llama_index", "llama-index"),
        ("haystack", "haystack", "haystack"),
    ],
)
def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str) -> None:
    for loaded in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"mergewise.integrations.{module}", raising=False)
    with pytest.raises(mw.MissingExtra, match=rf"mergewise\[{extra}\]"):
        importlib.import_module(f"mergewise.integrations.{module}")
