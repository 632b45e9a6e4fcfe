"""A plugin of the program `llm`: contexts as fragments (`llm -f 'mergewise:QUESTION' QUESTION`), and tools (`llm -T Mergewise`).

The variable MERGEWISE_INDEX names the index.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import llm

import mergewise
from mergewise.agents.tools import IndexDocuments, Tools
from mergewise.extend import heading_path, run, token_counter
from mergewise.integrations.passages import id_of


def _index() -> mergewise.Index:
    return mergewise.open(os.environ.get("MERGEWISE_INDEX", "mergewise.index"), create=False)


def fragments(question: str) -> list[Any]:
    """Return the passages of a question's context. The source of each names its documents and offsets."""
    with _index() as index:
        passages = index.context(question).passages
    return [llm.Fragment(f"{heading_path(one.title, one.headings)}\n{one.text}", id_of(one)) for one in passages]


class Mergewise(llm.Toolbox):
    """Tools that search and read the documents of an index."""

    def __init__(self) -> None:
        self._tools = Tools(IndexDocuments(_index()), token_counter(""))

    def context(self, question: str) -> str:
        """Find the passages that answer a question."""
        return run(self._tools.context(question))

    def read(self, place: str) -> str:
        """Read a document, lines of it or a section: NAME, NAME:12-40 or NAME#HEADING."""
        return run(self._tools.read(place))

    def grep(self, pattern: str) -> str:
        """List the lines that match a regular expression."""
        return run(self._tools.grep(pattern))


@llm.hookimpl
def register_fragment_loaders(register: Callable[..., None]) -> None:
    register("mergewise", fragments)


@llm.hookimpl
def register_tools(register: Callable[..., None]) -> None:
    register(Mergewise)
