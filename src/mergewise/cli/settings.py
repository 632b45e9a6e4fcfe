"""Settings: what the environment and `mergewise.toml` set, and no command line option does.

A command has them as fields of a dataclass, `Annotated[type, Setting("what it means")]`. The variable
`MERGEWISE_NAME` goes before the configuration file, and the file before the default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from mergewise.indexing import EmbeddingOptions
from mergewise.query import options_of
from mergewise.ranges import PRICE, RETRYING, SECONDS, TOKENS, Range, number, text, value_of


@dataclass(frozen=True, slots=True)
class Setting:
    """What a setting means, and its range if it is a number."""

    help: str
    range: Range | None = None


_GPUS = next(option for option in options_of(EmbeddingOptions) if option.name == "gpus_per_worker")
WindowSetting = Annotated[int | None, Setting("Context window of the chat model, in tokens; 32768 without it", TOKENS)]
TokenizerSetting = Annotated[Path | None, Setting("A tokenizer.json that counts tokens, instead of the built-in one")]
TimeoutSetting = Annotated[
    float | None, Setting("Seconds that an endpoint may be silent: 120, of rerankers 60", SECONDS)
]
RetriesSetting = Annotated[int | None, Setting("Times a failed request to an endpoint is repeated: 4", RETRYING)]
CacheSetting = Annotated[Path | None, Setting("Directory that keeps the chat model's replies")]
PriceInSetting = Annotated[float, Setting("Price of a million input tokens, to show the cost", PRICE)]
PriceOutSetting = Annotated[float, Setting("Price of a million output tokens, to show the cost", PRICE)]
FileSecondsSetting = Annotated[float, Setting("Seconds that reading one file may take in the sandbox", SECONDS)]
OCRPagesSetting = Annotated[int, Setting("Scanned pages of a file that are recognized", Range(1, 10_000))]
GPUsSetting = Annotated[float, Setting(_GPUS.help, _GPUS.range)]
WeightsSetting = Annotated[Path | None, Setting("Weights of weave's features, as `mergewise tune --fit` writes them")]


def setting_of(hint: Any) -> Setting | None:
    """The setting that stands beside a type, if it is one."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((note for note in notes if isinstance(note, Setting)), None)


def variable(name: str) -> str:
    """The environment variable of a setting or an option."""
    return f"MERGEWISE_{name.upper()}"


def from_environment(variable: str) -> str:
    """The text of an environment variable; empty without one."""
    return os.environ.get(variable, "") if variable else ""


def setting_value(name: str, hint: Any, default: Any, configured: Mapping[str, Any]) -> Any:
    """The value of a setting: of the environment, else as configured, else the default.

    Raises:
        UsageError: if the value has a wrong type or is out of its range.
    """
    given = from_environment(variable(name)) or configured.get(name)
    if given is None:
        return default
    kinds = {get_args(hint)[0], *get_args(get_args(hint)[0])}
    what = f"{name.replace('_', '-')} is"
    if Path in kinds:
        return Path(text(what, given))
    if bool in kinds:
        return value_of(what, given, bool)
    setting = setting_of(hint)
    for kind in (int, float):
        if kind in kinds:
            return number(what, given, kind, None if setting is None else setting.range)
    return text(what, given)


def set_patience(timeout: float | None, retries: int | None) -> None:
    """Tell every adapter of this process how long it waits for its endpoint, and how often it asks again."""
    if timeout is not None:
        os.environ[variable("timeout")] = str(timeout)
    if retries is not None:
        os.environ[variable("retries")] = str(retries)
