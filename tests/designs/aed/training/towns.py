"""A hand-made corpus of towns and their founders, and a reader that believes its context."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import mergewise as mw
from mergewise.designs.aed.training.candidates import Example
from mergewise.models.scripted_causal import ScriptedCausal

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
    "school": "Children from the villages around go to school in {town}.",
    "station": "The last train leaves {town} a little before midnight.",
    "choir": "The choir of {town} sings under the old oak in May.",
    "mill": "Flour from the mill is sold all over the county.",
}
HINTS = {"school": 20.0, "choir": 10.0, "market": 6.0, "river": 4.0, "train": 3.0, "mill": 2.0}
"""Weights of the sayings that hint at the founder without naming him."""


def reader(towns: Mapping[str, str] = TOWNS, window: int = 4000) -> ScriptedCausal:
    """Return a reader that believes a passage about a founder. Its background is "x!", or "N/A!" for Corley."""

    def rule(text: str) -> dict[str, float]:
        if "background" in text and text.endswith("?"):
            return {"N" if "Corley" in text else "x": 1e6}
        if text.endswith(("N", "N/")):
            return {"/" if text.endswith("N") else "A": 1e6}
        if text.endswith(("x", "A")):
            return {"!": 1e6}
        asked, _, said = text.rpartition("?")
        founder = towns.get(asked.split()[-1], "") if asked else ""
        if not founder.startswith(said) or said == founder:
            return {}
        belief = [weight for hint, weight in HINTS.items() if hint in asked]
        if f"founded by {founder}" in asked:
            belief.append(500.0)
        return {founder[len(said)]: max(belief, default=1.0)}

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
    """Create thirty towns with eight documents each. One of the eight answers the question."""
    opened = mw.open(folder, embedder="none", views=("leaf",))
    opened.add(
        [
            mw.Document(id=f"{town} {name}", title=town, text=saying.format(town=town, founder=founder))
            for town, founder in MANY.items()
            for name, saying in SAYINGS.items()
        ]
    )
    return opened, [Example(town, f"Who founded {town}?", (founder,), "many") for town, founder in MANY.items()]
