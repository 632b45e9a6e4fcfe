"""Mask the API keys that this process sends, since an endpoint may repeat a key in an error, a header or an answer.

Adapters register their keys. `masked` is applied to answers, to every error of `mergewise.errors`, to log lines and to standard
error. It must run before a text is cut, since a part of a key is not recognised. A key is recognised as plain text,
percent-encoded (URLs), in Base64 (basic authentication) and JSON-escaped, ignoring case.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

MASK = "***"
SHORTEST = 6
"""Minimum characters of a masked key. Shorter ones (`none`, `EMPTY`) are placeholders for endpoints without keys."""
_NO_KEYS = frozenset("ollama lm-studio llama.cpp not-needed not-used no-key sk-no-key-required".split())
_NAMES_KEY = re.compile(r"key|token|secret|sig|pass|auth", re.IGNORECASE)


class _Keys(NamedTuple):
    """All forms of all keys in lower case, longest first, and a pattern that matches them."""

    forms: tuple[str, ...] = ()
    pattern: re.Pattern[str] = re.compile(r"(?!)")


_keys = _Keys()


def remember_key(key: str) -> None:
    """Mask `key` from now on."""
    global _keys
    if len(key) < SHORTEST or key.casefold() in _NO_KEYS:
        return
    base64 = b64encode(key.encode("utf-8", "replace")).decode().rstrip("=")
    encoded = quote(key, safe="", errors="replace"), quote_plus(key, errors="replace"), json.dumps(key)[1:-1]
    forms = {form.lower() for form in (key, base64, *encoded)}.union(_keys.forms)
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    _keys = _Keys(tuple(ordered), re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE))


def remember_keys_of(address: str) -> None:
    """Mask the password and the keys in an address, too."""
    try:
        parts = urlsplit(address)
        named = [value for name, value in parse_qsl(parts.query) if _NAMES_KEY.search(name)]
        for key in (unquote(parts.password or ""), *named):
            remember_key(key)
    except ValueError:
        # an invalid address: its user reports it
        return


def masked(text: str) -> str:
    """Replace every key in the text by `MASK`."""
    return _keys.pattern.sub(MASK, text)


class MaskedPieces:
    """A text that arrives in pieces, with masked keys. A piece that may be the start of a key is held back until more arrives."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str, *, last: bool = False) -> str:
        text = masked(self._held + piece)
        forms = _keys.forms
        # the end of the text that may be the start of a key
        end = text[-len(forms[0]) :].lower() if forms and not last else ""
        held = next((len(end) - at for at in range(len(end)) if any(form.startswith(end[at:]) for form in forms)), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]
