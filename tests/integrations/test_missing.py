"""Imports of a retriever without its framework, in any environment."""

from __future__ import annotations

import re
import sys

import pytest

import mergewise as mw
from mergewise import integrations
from mergewise.errors import install_command


@pytest.mark.parametrize(
    ("framework", "module", "package"),
    [
        ("LangChain", "langchain", "langchain_core"),
        ("LlamaIndex", "llama_index", "llama_index"),
        ("Haystack", "haystack", "haystack"),
    ],
)
def test_error_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch, framework: str, module: str, package: str
) -> None:
    for loaded in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"mergewise.integrations.{module}", raising=False)
    with pytest.raises(mw.MissingExtra, match=re.escape(install_command(module.replace("_", "-")))):
        getattr(integrations, f"{framework}Retriever")


def test_unknown_name_cannot_be_imported() -> None:
    with pytest.raises(ImportError):
        from mergewise.integrations import MergewiseRetriever  # type: ignore[attr-defined]  # noqa: F401
