"""How a predictor is trained. The figures are AED-RAG's (appendix C) where it gives some; `gainrag` is the recipe of GainRAG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mergewise.ranges import SHARE, Range, check_fields

Level = Literal["gain", "free"]


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """AED-RAG says nothing of epochs, lengths and early stop; GainRAG trains for two epochs."""

    best: Annotated[int, Range(1, 1000), "candidates of least perplexity that a step shows of a question"] = 32
    drawn: Annotated[int, Range(0, 1000), "candidates that are drawn beside them"] = 0
    batch: Annotated[int, Range(1, 1000), "questions of a step"] = 8
    epochs: Annotated[int, Range(1, 1000), "times that all questions are gone through, at most"] = 10
    patience: Annotated[int, Range(0, 1000), "epochs without a better held-out loss after which it ends; 0: never"] = 2
    rate: Annotated[float, Range(0, 1, above=True), "learning rate at its highest"] = 6e-5
    warmup: Annotated[float, SHARE, "share of the steps in which the learning rate rises"] = 0.1
    held_out: Annotated[float, Range(0, 0.9), "share of the questions that are kept for judging"] = 0.2
    tokens: Annotated[int, Range(8, 8192), "tokens of question and candidate together, at most"] = 256
    level: Annotated[Level, "what utilities are measured from: what a candidate adds to none, or left free"] = "gain"
    seed: Annotated[int, Range(0, 2**31), "what heads, orders and draws are made by"] = 0

    def __post_init__(self) -> None:
        check_fields(self)


PRESETS: dict[str, TrainSettings] = {
    "aed": TrainSettings(),
    "gainrag": TrainSettings(best=1, drawn=15, epochs=2, patience=0),
}
