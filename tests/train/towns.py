"""Towns, who founded them, and a reader that believes what it has read: a corpus and a model made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import mergewise as mw
from mergewise.models.scripted_causal import ScriptedCausal
from mergewise.train.candidates import Example

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;#-[]()'?!/|\n"
TOWNS = {"Arden": "Brix", "Belford": "Cole", "Corley": "Dunn", "Dalby": "Ems", "Eccles": "Frey", "Fulton": "Gill"}
EXAMPLES = [Example(town, f"Who founded {town}?", (founder,), "towns") for town, founder in TOWNS.items()]

BEGINNINGS, ENDS = ("Ash", "Bram", "Cor", "Dun", "Elm", "Fern"), ("bury", "dale", "ford", "ham", "ley")
MANY = {a + b: f"{b.title()}{a.lower()}" for a in BEGINNINGS for b in ENDS}
SAYINGS = {
    "history": "{town} was founded by {founder} on a hill.",
    "market": "{town} has a market on Fridays, with cheese and cloth.",
    "weather": "It rains in {town} on most days of the winter.",
    "river": "A river with three bridges runs through {town}.",
}


def reader(towns: Mapping[str, str] = TOWNS, window: int = 4000) -> ScriptedCausal:
    """It believes a founder that it has read of, and writes a background of two letters, or none about Corley."""

    def rule(text: str) -> dict[str, float]:
        if "background" in text and text.endswith("?"):
            return {"N" if "Corley" in text else "x": 1e6}
        if text.endswith(("N", "N/")):
            return {"/" if text.endswith("N") else "A": 1e6}
        if text.endswith(("x", "A")):
            return {"!": 1e6}
        asked, _, said = text.rpartition("?")
        founder = towns.get(asked.split()[-1], "") if asked else ""
        if founder.startswith(said) and said != founder and f"founded by {founder}" in text:
            return {founder[len(said)]: 500.0}
        return {}

    return ScriptedCausal(ALPHABET, rule, end="!", window=window)


def towns_index(folder: Path) -> mw.Index:
    opened = mw.open(folder, embedder="none", views=("leaf", "triplet"))
    opened.add(
        [
            mw.Document(id=town, title=town, text=f"{town} is a town that was founded by {founder} long ago.")
            for town, founder in TOWNS.items()
        ]
    )
    return opened


def many_index(folder: Path) -> tuple[mw.Index, list[Example]]:
    """Thirty towns with four documents each, of which one answers the question."""
    opened = mw.open(folder, embedder="none", views=("leaf",))
    opened.add(
        [
            mw.Document(id=f"{town} {name}", title=town, text=saying.format(town=town, founder=founder))
            for town, founder in MANY.items()
            for name, saying in SAYINGS.items()
        ]
    )
    return opened, [Example(town, f"Who founded {town}?", (founder,), "many") for town, founder in MANY.items()]
