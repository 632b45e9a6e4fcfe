"""The page of the configuration: environment variables and the tables of `serve.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mergewise.server.configuration import (
    CollectionConfig,
    GrantConfig,
    IssuerConfig,
    ModelConfig,
    ProfileConfig,
    ServeLimits,
    ServerConfig,
)
from scripts.reference.commands import commands, settings
from scripts.reference.markup import documented, settings_table, table, wrapped

ROOT = Path(__file__).parents[2]
# Variables that no option stands for. A variable that the code reads and that is neither here nor an option is an error.
OTHER_VARIABLES = {
    "RAY_AUTH_MODE": "`token`: Ray asks for its token (`mergewise cluster`)",
    "AWS_ALLOW_HTTP": "`true` to reach the object store of an `s3://` index without TLS; also the other `AWS_...` variables",
    "MERGEWISE_PRIVATE_SOURCES": "Private networks of sites and Git repositories to index, such as `10.1.0.0/16 127.0.0.0/8`",
    "MERGEWISE_BATCH_TEXTS": "Texts per request of `openai:MODEL` embedders (128) and `http:URL` rerankers (64)",
    "OPENAI_API_KEY": "Key of the endpoint of `openai:MODEL`",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "Collector of traces by OpenTelemetry, whose other variables count, too",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "The same, only for traces",
    "OTEL_TRACES_EXPORTER": "`otlp` or `console`: traces are sent, or printed",
    "OTEL_SDK_DISABLED": "`true`: no traces",
    "OTEL_SERVICE_NAME": "Name of the service in traces; `mergewise` by default",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "`true`: traces hold questions, prompts and answers",
    "OPENAI_BASE_URL": "Endpoint of every `openai:MODEL`; OpenAI's by default",
    "NOTIFY_SOCKET": "Socket that tells systemd when `mergewise serve` is ready",
    "PROMETHEUS_MULTIPROC_DIR": "Folder for the metrics of all workers; set by `mergewise serve`",
    "FORCE_COLOR": "Colours and progress bars even if standard output is not a terminal",
    "RERANK_API_KEY": "Key of the endpoint of `--reranker http:URL`",
    "XDG_CONFIG_HOME": "Folder of the user's `mergewise/mergewise.toml`; `~/.config` on Linux",
    "XDG_STATE_HOME": "Folder where `mergewise show` finds the last answer; `~/.local/state` on Linux",
}
TABLES = {
    "[server]": ServerConfig,
    "[limits]": ServeLimits,
    "[chats.NAME], [embedders.NAME], [rerankers.NAME]": ModelConfig,
    "[collections.NAME]": CollectionConfig,
    "[profiles.NAME]": ProfileConfig,
    "[issuer]": IssuerConfig,
    "[[issuer.grants]]": GrantConfig,
}


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Configuration\n"
    yield "## Environment variables\n"
    yield table(("variable", "meaning"), ((f"`{name}`", text) for name, text in sorted(variable_meanings().items())))
    yield "## Server configuration\n"
    yield wrapped(
        "`mergewise serve --config serve.toml` reads these tables. A field of `[server]` can also be set by the variable "
        "`MERGEWISE_SERVE_` and its name in capitals. Relative paths start at the folder of the file. An unknown key is an error."
    )
    for title, kind in TABLES.items():
        yield f"### {title}\n"
        yield documented(kind)
        yield settings_table(kind)


def variable_meanings() -> dict[str, str]:
    """Return the meaning of every variable that the code reads.

    Raises:
        LookupError: if the meaning of a variable is unknown.
    """
    meanings = dict(OTHER_VARIABLES)
    for command in commands().values():
        for option in command.params:
            if option.envvar:
                meanings.setdefault(option.envvar, f"`{option.opts[0]}`")
    for name in commands():
        for setting, variable, _ in settings(name):
            meanings.setdefault(variable.strip("`"), f"The setting {setting}")
    if unknown := variables() - meanings.keys():
        raise LookupError(f"no meaning in scripts/reference/configuration.py for {', '.join(sorted(unknown))}")
    return meanings


def variables() -> set[str]:
    """Return the names of all environment variables that the source reads."""
    read = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\(|envvar=)["'](\w+)["']""")
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    return {name for text in texts for name in read.findall(text)}
