"""Settings: values that come from the environment or `mergewise.toml`, but not from the command line.

A command declares them as fields of a dataclass, `Annotated[type, Setting("what it means")]`. The variable
`MERGEWISE_NAME` overrides the configuration file, and the file overrides the default.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from mergewise.extend import GPUS, PRICE, RETRYING, SECONDS, TOKENS, Range, value_of
from mergewise.types import Json, frozen


@frozen
class Setting:
    """The help of a setting, and the range of a number."""

    help: str
    range: Range | None = None


WindowSetting = Annotated[int | None, Setting("Context window of the chat model in tokens (default 32768)", TOKENS)]
TokenizerSetting = Annotated[Path | None, Setting("Token counter: o200k, wordpiece, or a tokenizer.json")]
CacheSetting = Annotated[Path | None, Setting("Directory for replies of the chat model and copies of a bucket's files")]
PriceInSetting = Annotated[float, Setting("Price of a million input tokens", PRICE)]
PriceOutSetting = Annotated[float, Setting("Price of a million output tokens", PRICE)]
FileSecondsSetting = Annotated[float, Setting("Time limit of reading a file in seconds", SECONDS)]
OCRPagesSetting = Annotated[int, Setting("Maximum scanned pages per file for text recognition", Range(1, 10_000))]
GPUsSetting = Annotated[float, Setting("GPUs of a worker on a Ray cluster, such as 1 or 0.25", GPUS)]
SandboxSetting = Annotated[bool, Setting("Read large files and formats such as PDF in a separate process")]
ClusterSetting = Annotated[str | None, Setting("Ray cluster that searches the index: local, auto or HOST:PORT")]
PartialSetting = Annotated[bool, Setting("With cluster: answer without the shards that no node can search")]
SearchSetting = Annotated[str | None, Setting("Fusion of full text and vectors, such as 'weight=0.5, depth=200'")]
EmbedderSetting = Annotated[
    str | None, Setting("Embedder that the index may load: st:NAME_OR_PATH or openai:MODEL; its own by default")
]
PromptsSetting = Annotated[Path | None, Setting("Folder of your own prompts (see `mergewise prompts`)")]
ScorerSetting = Annotated[str, Setting("Scorer of chunk pairs (MergeRAG): lm, hf:PATH or openai:MODEL")]
CausalSetting = Annotated[str, Setting("Causal model of AED-RAG and Self-RAG: hf:PATH, or none (the hf: chat model)")]
SecondSourceSetting = Annotated[Path | None, Setting("Index that crag also searches, instead of this one again")]
StreamSetting = Annotated[bool | None, Setting("Stream the answer of a chat model; on a terminal by default")]
WeightsSetting = Annotated[Path | None, Setting("File of weave's weights from `mergewise tune --fit`")]


@frozen
class Patience:
    """Settings of all endpoints."""

    timeout: Annotated[
        float | None, Setting("Timeout of an endpoint in seconds (default 120, rerankers 60)", SECONDS)
    ] = None
    retries: Annotated[int | None, Setting("Retries of a failed request to an endpoint (default 4)", RETRYING)] = None

    def set_patience(self) -> None:
        """Set them by the environment of this process."""
        for name in ("timeout", "retries"):
            if (value := getattr(self, name)) is not None:
                os.environ[variable(name)] = str(value)


def setting_of(hint: Any) -> Setting | None:
    """Return the setting in an annotated type, if any."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((note for note in notes if isinstance(note, Setting)), None)


def variable(name: str) -> str:
    """Return the environment variable of a setting or an option."""
    return f"MERGEWISE_{name.upper().replace('-', '_')}"


def from_environment(variable: str) -> str:
    """Return the value of an environment variable, or an empty string."""
    return os.environ.get(variable, "") if variable else ""


def setting_value(name: str, hint: Any, default: Any, configured: Json) -> Any:
    """Return the value of a setting from the environment, else the configuration, else the default.

    Raises:
        UsageError: if the value has a wrong type or is out of its range.
    """
    given = from_environment(variable(name)) or configured.get(name)
    if given is None:
        return default
    setting = setting_of(hint)
    return value_of(name.replace("_", "-"), given, Annotated[get_args(hint)[0], setting and setting.range])
