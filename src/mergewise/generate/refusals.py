"""Whether an answer says that nothing was found, decided by the whole of it.

A model is told to say `NOT_FOUND` and nothing else. It may add an apology to it, or go on and answer all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from mergewise.generate.citations import Statement
from mergewise.generate.claims import Claims
from mergewise.generate.prompts import NOT_FOUND
from mergewise.text.alignment import words

_REFUSAL = words(NOT_FOUND)
_SHORT = words("Nothing relevant was found")


def refuses(statements: Sequence[Statement], claims: Claims) -> bool:
    """Whether a sentence begins with the refusal, in any case, and nothing beside it answers.

    Beside it answers what cites a source that has to do with it, and a sentence of its own that the sources support.
    """
    refused = False
    for statement in statements:
        said = words(statement.text)
        begins = said[: len(_REFUSAL)] == _REFUSAL or said == _SHORT
        refused = refused or begins
        rest = " ".join(said[len(_REFUSAL) :]) if begins else statement.text
        if (statement.numbers and claims.related(rest, statement.numbers)) or (not begins and statement.supported):
            return False
    return refused
