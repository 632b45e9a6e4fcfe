"""Texts without the keys that this process sends: an endpoint may write the key back, in an error, a header or an answer.

Adapters say which keys they send. `masked` is applied where such a text comes in (answers), where it is told (every error of
`mergewise.errors`) and where it is printed (the lines of a log, standard error), and always before a text is cut, since the rest
of a key that was cut is no key any more. A key is found as it is, percent-encoded as in an address, in Base64 as in basic
authentication, and as JSON writes it; in capitals and small letters alike.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

MASK = "***"
SHORTEST = 6
"""Characters of a key that is masked. A shorter one (`none`, `EMPTY`) is a word that an endpoint without keys is given."""
_NO_KEYS = frozenset({"ollama", "lm-studio", "llama.cpp", "not-needed", "not-used", "no-key", "sk-no-key-required"})
_NAMES_KEY = re.compile(r"key|token|secret|sig|pass|auth", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Every form of every key in small letters, the longest first, and a pattern that finds one."""

    forms: tuple[str, ...] = ()
    pattern: re.Pattern[str] = re.compile(r"(?!)")


_keys = _Keys()


def remember_key(key: str) -> None:
    """From now on `key` is masked."""
    global _keys
    if len(key) < SHORTEST or key.casefold() in _NO_KEYS:
        return
    base64 = b64encode(key.encode("utf-8", "replace")).decode().rstrip("=")
    encoded = quote(key, safe="", errors="replace"), quote_plus(key, errors="replace"), json.dumps(key)[1:-1]
    forms = {form.lower() for form in (key, base64, *encoded)}.union(_keys.forms)
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    _keys = _Keys(tuple(ordered), re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE))


def remember_keys_of(address: str) -> None:
    """The password and the keys that stand in an address are masked as well."""
    try:
        parts = urlsplit(address)
        named = [value for name, value in parse_qsl(parts.query) if _NAMES_KEY.search(name)]
        for key in (unquote(parts.password or ""), *named):
            remember_key(key)
    except ValueError:
        # no address: who uses it will say so
        return


def masked(text: str) -> str:
    """The text with `MASK` in the place of every key."""
    return _keys.pattern.sub(MASK, text)


class MaskedPieces:
    """`masked` for a text that arrives in pieces: what may be the beginning of a key is held back until more has come."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str, *, last: bool = False) -> str:
        text = masked(self._held + piece)
        shown = len(text) if last else len(text) - _begun(text)
        self._held = text[shown:]
        return text[:shown]


def _begun(text: str) -> int:
    """How many characters at the end of the text a key may begin with."""
    forms = _keys.forms
    end = text[-len(forms[0]) :].lower() if forms else ""
    return next((len(end) - at for at in range(len(end)) if any(form.startswith(end[at:]) for form in forms)), 0)
