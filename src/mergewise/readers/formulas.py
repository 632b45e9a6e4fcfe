"""Linear text of formulas, superscripts and subscripts, so that no number reads as another one.

A reader puts the two marks of `SCRIPTS` around the text of a script. `write_scripts` replaces them once the line is complete:
`10^6`, `H2O`, `3 1/2`, `1st`. A raised number after punctuation is the mark of a note: `known.¹`.
"""

from __future__ import annotations

import re
from typing import Any

from mergewise.readers.xml import attribute, children, first, local

# noncharacters, which no text contains
SCRIPTS = {"sup": ("\ufdd0", "\ufdd1"), "sub": ("\ufdd2", "\ufdd3")}
_SCRIPT = re.compile("([\ufdd0\ufdd2])([^\ufdd0-\ufdd3]*)[\ufdd1\ufdd3]")
_FRACTION = re.compile("(\\d?)\ufdd0(\\d+)\ufdd1\\s*[/⁄]\\s*\ufdd2(\\d+)\ufdd3")
_NOTE = re.compile(r"\d+(?:[,–-]\s?\d+)*")
_SMALL = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# Ordinals and titles, in English and Romance languages.
_ENDINGS = re.compile(r"[aeordº]|[^\W\d_]{2,4}")
_SIGNED = re.compile(r"[-−–+]?\d[\d.,]*")
_INVISIBLE_OPERATORS = dict.fromkeys(range(0x2061, 0x2065))


def write_scripts(text: str, *, in_runs: bool = False) -> str:
    """Replace the marks of scripts. With `in_runs`, adjacent scripts of one kind are one, as in office files."""
    if "\ufdd1" not in text and "\ufdd3" not in text:
        return text
    for start, end in SCRIPTS.values() if in_runs else ():
        text = text.replace(end + start, "")
    text = _FRACTION.sub(lambda match: f"{match[1]}{match[1] and ' '}{match[2]}/{match[3]}", text)
    return _SCRIPT.sub(_script, text)


def _script(match: re.Match[str]) -> str:
    start, end = match.span()
    before, after, script = match.string[start - 1 : start], match.string[end : end + 1], match[2].strip()
    is_attached = before.isalnum() or before in (")", "]", "\ufdd1", "\ufdd3")
    if not script:
        return match[2]
    if match[1] == "\ufdd2":
        glued = script.isdecimal() and before.isalpha() and not after.isdigit()
        return script if glued else f"_{_bracketed(script)}{' ' if after.isalnum() else ''}"
    if is_attached and not _ENDINGS.fullmatch(script) and any(map(str.isalnum, script)):
        return f"^{_bracketed(script)}" if " " not in script else f" {script}"
    return script.translate(_SMALL) if not is_attached and _NOTE.fullmatch(script) else script


# --- formulas ----------------------------------------------------------------------------------------------------

# The parts of MathML's elements, in order, by their names in OMML.
_PARTS = {
    "mfrac": "num den",
    "mroot": "e deg",
    "msup": "e sup",
    "mover": "e sup",
    "msub": "e sub",
    "munder": "e sub",
    "msubsup": "e sub sup",
    "munderover": "e sub sup",
}
_OMML = frozenset("f rad sSup sSub sSubSup nary limLow limUpp".split())


def formula(element: Any) -> str:
    """Return the linear text of an OMML or MathML element: (a)/(b), x^2, a_i, √(x). Drop accents, borders and alignment."""
    name = local(element)
    if name == "t":
        return element.text or ""
    if name.startswith("annotation") or name.endswith("Pr"):
        return ""
    if name in ("d", "mfenced"):
        marks = (("(", first(element, "dPr", "begChr")), (")", first(element, "dPr", "endChr")))
        begin, end = (usual if mark is None else attribute(mark, "val") for usual, mark in marks)
        return begin + ", ".join(map(formula, children(element, "e") if name == "d" else element)) + end
    if name == "msqrt":
        return f"√{_bracketed(_joined(element))}"
    if name not in _PARTS and name not in _OMML:
        return _joined(element) + {"mtd": " ", "mtr": "; "}.get(name, "") * (element.getnext() is not None)
    names = _PARTS[name].split() if name in _PARTS else map(local, element)
    parts = {own: formula(part).strip() for own, part in zip(names, element, strict=False)}
    base, below, above = parts.get("e", ""), parts.get("sub") or parts.get("lim", ""), parts.get("sup", "")
    if name in ("f", "mfrac"):
        return f"{_bracketed(parts.get('num', ''))}/{_bracketed(parts.get('den', ''))}"
    if name in ("rad", "mroot"):
        return f"{parts.get('deg', '')}√{_bracketed(base)}"
    # a bar or an arrow
    above = "" if name == "mover" and not above.isalnum() else above
    scripts = (f"_{_bracketed(below)}" if below else "") + (f"^{_bracketed(above)}" if above else "")
    if name == "nary":
        operator = first(element, "naryPr", "chr")
        return f"{'∫' if operator is None else attribute(operator, 'val')}{scripts} {base}"
    return _bracketed(base) + scripts + " " * ("under" in name)


def _joined(element: Any) -> str:
    """Join the parts of a formula. Two numbers, and a word and its neighbour, stay apart."""
    name = local(element)
    text = before = (element.text or "").strip() if name.startswith("m") else ""
    for child in element:
        part = formula(child).translate(_INVISIBLE_OPERATORS)
        has_word = any(len(word) > 1 and word.isalpha() for word in (before, part))
        is_apart = (
            text[-1:].isalnum() and part[:1].isalnum() and (has_word or (text[-1].isdigit() and part[0].isdigit()))
        )
        text += " " * is_apart + part
        before = part or before
    return f" {text} " if name == "mtext" else text


def _bracketed(text: str) -> str:
    """Add brackets unless the text has them, or is one character, number or name."""
    has_brackets = text[:1] == "(" and text.find(")") == len(text) - 1
    return text if len(text) <= 1 or text.isalnum() or has_brackets or _SIGNED.fullmatch(text) else f"({text})"
