"""Models of the configuration, and models at endpoints that admins name on the page.

Each of these is a file in `models` in the server's data. It has the key, so only its owner may read it. No route returns a key,
and backups leave the folder out. All processes notice a change at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.extend import load_reranker, regular_bytes, remember_key, write_whole
from mergewise.types import frozen

if TYPE_CHECKING:
    from mergewise.protocols import ChatModel, Embedder, Reranker

ModelGroup = Literal["chats", "embedders", "rerankers"]
GROUPS: tuple[ModelGroup, ...] = get_args(ModelGroup)


@frozen
class ModelConfig:
    """A chat model, an embedder or a reranker, which clients name by its key in the configuration.

    The API key comes from the environment variable `key_env`, or from the first line of the file `key_file`.
    """

    spec: str
    base_url: str | None = None
    window: int | None = None
    key_env: str | None = None
    key_file: Path | None = None

    def key(self) -> str | None:
        """Return the API key, or None if none is configured. Later logs mask the key. Raises UsageError if it is missing."""
        if self.key_env is None and self.key_file is None:
            return None
        environment = os.environ
        key = environment.get(self.key_env or "", "")
        if not key and self.key_file is not None:
            try:
                content = regular_bytes(self.key_file, 10_000, follow=True).decode("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                hint = "write the key on the first line of the file"
                raise UsageError(f"cannot read {self.key_file}: {error}", hint) from None
            key = content.partition("\n")[0].strip()
        if not key:
            place = f"{self.key_env} is not set" if self.key_file is None else f"{self.key_file} is empty"
            raise UsageError(f"missing API key of {self.spec}: {place}", "set it in the server's environment")
        remember_key(key)
        return key

    def chat(self, **options: Any) -> str | ChatModel:
        """Return the chat model as `mergewise.open` accepts it. `options` are those of `OpenAIChat`.

        Raises UsageError, MissingExtra and ModelError.
        """
        found: str | ChatModel = self._at_endpoint("OpenAIChat", window=self.window, **options)
        return found

    def embedder(self, **options: Any) -> str | Embedder:
        """Return the embedder, as `chat` does."""
        found: str | Embedder = self._at_endpoint("OpenAIEmbedder", **options)
        return found

    def _at_endpoint(self, kind: str, **options: Any) -> Any:
        form, _, model = self.spec.partition(":")
        if form != "openai":
            return self.spec
        return getattr(mw, kind)(model, base_url=self.base_url, api_key=self.key(), **options)

    def reranker(self, **options: Any) -> Reranker | None:
        """Load the reranker. `options` are those of `HTTPReranker`."""
        kind, _, address = self.spec.partition(":")
        if kind not in ("http", "https"):
            return load_reranker(self.spec)
        return mw.HTTPReranker(address if kind == "http" else self.spec, key=self.key(), **options)


@frozen
class AddedModel(ModelConfig):
    """A model of the page, with its key."""

    secret: str | None = field(default=None, repr=False)

    def key(self) -> str | None:
        remember_key(self.secret or "")
        return self.secret


@frozen
class ModelTable(Mapping[str, ModelConfig]):
    """The models of a group by name: those of the configuration, and those of the page."""

    configured: Mapping[str, ModelConfig]
    data: Path
    group: ModelGroup

    def __getitem__(self, name: str) -> ModelConfig:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> Mapping[str, ModelConfig]:
        return {**self.added(), **self.configured}

    def added(self) -> dict[str, AddedModel]:
        """Return the models of the page."""
        files = {file.name.split(".")[1]: file for file in sorted(self._file("*").parent.glob(self._file("*").name))}
        return {name: AddedModel(**json.loads(file.read_bytes())) for name, file in files.items()}

    def change(self, name: str, model: AddedModel | None) -> None:
        """Add a model or replace it. None removes it."""
        file = self._file(name)
        if model is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(file, json.dumps(asdict(model)).encode(), 0o600)

    def _file(self, name: str) -> Path:
        return self.data / "models" / f"{self.group}.{name}.json"
