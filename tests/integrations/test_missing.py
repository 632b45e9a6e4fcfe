"""Without a framework its module says what to install: in any environment."""

from __future__ import annotations

import sys

import pytest

import mergewise as mw
from mergewise import integrations


@pytest.mark.parametrize(
    ("framework", "module", "package"),
    [
        ("LangChain", "langchain", "langchain_core"),
        ("LlamaIndex", "llama_index", "llama_index"),
        ("Haystack", "haystack", "haystack"),
    ],
)
def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, framework: str, module: str, package: str) -> None:
    for loaded in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"mergewise.integrations.{module}", raising=False)
    with pytest.raises(mw.MissingExtra, match=rf"mergewise\[{module.replace('_', '-')}\]"):
        getattr(integrations, f"{framework}Retriever")


def test_the_retrievers_are_one_level_deep_and_nothing_else_is() -> None:
    with pytest.raises(ImportError):
        from mergewise.integrations import MergewiseRetriever  # type: ignore[attr-defined]  # noqa: F401
