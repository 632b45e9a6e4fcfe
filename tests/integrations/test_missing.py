"""Without a framework its module says what to install: in any environment."""

from __future__ import annotations

import sys

import pytest

import mergewise as mw
from mergewise import integrations


@pytest.mark.parametrize(
    ("retriever", "module", "package", "extra"),
    [
        ("LangChainRetriever", "langchain", "langchain_core", "langchain"),
        ("LlamaIndexRetriever", "llama_index", "llama_index", "llama-index"),
        ("HaystackRetriever", "haystack", "haystack", "haystack"),
    ],
)
def test_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, retriever: str, module: str, package: str, extra: str
) -> None:
    for loaded in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"mergewise.integrations.{module}", raising=False)
    with pytest.raises(mw.MissingExtra, match=rf"mergewise\[{extra}\]"):
        getattr(integrations, retriever)


def test_the_retrievers_are_one_level_deep_and_nothing_else_is() -> None:
    with pytest.raises(ImportError):
        from mergewise.integrations import MergewiseRetriever  # type: ignore[attr-defined]  # noqa: F401
