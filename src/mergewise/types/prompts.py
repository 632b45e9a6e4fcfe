"""Prompts of chat models: shipped texts, and texts of the user that replace them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from hashlib import blake2b
from string import Template

from mergewise.types.records import frozen


@frozen
class PromptTemplate:
    """The instructions of a prompt. Documents, question and the warning about quotations are added by code.

    Attributes:
        name: Name of the prompt and of its file.
        summary: Purpose in one line.
        text: Instructions with placeholders `$name`; `$$` is a dollar sign.
        needs: Placeholders that a user's text must contain.
        may: Placeholders that it may contain.
    """

    name: str
    summary: str
    text: str
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


@frozen
class Prompts:
    """Prompts of a run. `own` holds the user's texts by the name of the template they replace."""

    own: Mapping[str, str] = field(default_factory=dict)

    def fill(self, template: PromptTemplate, **values: object) -> str:
        """Return the user's or the shipped text with its placeholders replaced by values."""
        return Template(self.own.get(template.name, template.text)).substitute(values)

    def digest(self, name: str) -> str:
        """Return a short hash of the user's text, or an empty text for the shipped one."""
        return "" if name not in self.own else blake2b(self.own[name].encode(), digest_size=6).hexdigest()

    def digests(self) -> dict[str, str]:
        """Return the hashes of all texts of the user by name."""
        return {name: self.digest(name) for name in sorted(self.own)}


SHIPPED = Prompts()
