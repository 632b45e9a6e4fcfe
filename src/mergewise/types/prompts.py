"""What chat models are told: the texts that ship, and those that a user has put in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from string import Template


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The instructions of one prompt. Placeholders `$name` stand in `text` for values; `$$` is a dollar sign.

    A text of a user's own must hold all that it `needs`, and `may` hold others. What documents say, the question, and the
    warning that quotations give no orders stand beside it, whatever it says.
    """

    name: str
    summary: str
    text: str
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of a run: `own` are texts of the user, by the names of the templates that they stand for."""

    own: Mapping[str, str] = field(default_factory=dict)

    def fill(self, template: PromptTemplate, **values: object) -> str:
        """The user's text or the one that ships, with the values in place of its placeholders."""
        return Template(self.own.get(template.name, template.text)).substitute(values)

    def digest(self, name: str) -> str:
        """A short hash of the user's text of this name; empty where the one that ships is used."""
        return "" if name not in self.own else blake2b(self.own[name].encode(), digest_size=6).hexdigest()

    def digests(self) -> dict[str, str]:
        """The hashes of all texts of the user, by name."""
        return {name: self.digest(name) for name in sorted(self.own)}


SHIPPED = Prompts()
