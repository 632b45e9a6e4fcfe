"""Word's formulas (OMML) as linear text: (a)/(b), x^2, a_i, √(x). Accents, borders and alignment are dropped."""

from __future__ import annotations

from typing import Any

from mergewise.readers.xml import attribute, children, first, local


def formula(element: Any) -> str:
    """The text of an OMML element and everything in it."""
    name = local(element)
    if name == "t":
        return element.text or ""
    if name == "f":
        return f"{_part(element, 'num')}/{_part(element, 'den')}"
    if name in ("sSup", "sSub", "sSubSup", "nary", "limLow", "limUpp"):
        return _scripts(element)
    if name == "rad":
        return f"{_text_of(element, 'deg')}√{_part(element, 'e')}"
    if name == "d":
        return _brackets(element)
    if name.endswith("Pr"):
        return ""
    return "".join(map(formula, element))


def _text_of(element: Any, name: str) -> str:
    child = first(element, name)
    return "" if child is None else formula(child)


def _part(element: Any, name: str) -> str:
    """A part of a formula, in brackets unless it is one character, number or name, or has brackets already."""
    text = _text_of(element, name).strip()
    bracketed = text[:1] == "(" and text.find(")") == len(text) - 1
    return text if len(text) <= 1 or text.isalnum() or bracketed else f"({text})"


def _scripts(element: Any) -> str:
    operator = first(element, "naryPr", "chr")
    below = _part(element, "sub") or _part(element, "lim")
    above = _part(element, "sup")
    scripts = (f"_{below}" if below else "") + (f"^{above}" if above else "")
    if local(element) == "nary":
        return f"{'∫' if operator is None else attribute(operator, 'val')}{scripts} {_text_of(element, 'e')}"
    return _part(element, "e") + scripts


def _brackets(element: Any) -> str:
    marks = (("(", first(element, "dPr", "begChr")), (")", first(element, "dPr", "endChr")))
    begin, end = (usual if mark is None else attribute(mark, "val") for usual, mark in marks)
    return begin + ", ".join(map(formula, children(element, "e"))) + end
