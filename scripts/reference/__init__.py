"""The pages of `docs/reference`, made from the code: run `python -m scripts.reference` after a change of what they list.

Nothing is described here. A command and its options say what they mean in `cli/`, a strategy in the dictionary `STRATEGIES`, a
parameter in the `Annotated` type of its field, a mode in `MODES`, a class or function in its docstring, a route in FastAPI.
"""

from __future__ import annotations

from pathlib import Path

from scripts.reference import commands, configuration, designs, http, python

FOLDER = Path(__file__).parents[2] / "docs/reference"
COMMAND = "python -m scripts.reference"
NOTE = f"<!-- Made from the code by `{COMMAND}`. -->\n"
PAGES = {
    "index.md": """\
# Reference

These pages list every name, option and route. They are made from the code.

- [Command line](cli.md): commands, options and settings
- [Configuration](configuration.md): environment variables and `serve.toml`
- [Strategies, modes, views and models](strategies.md): their names and parameters
- [Python](python.md): functions, classes and records
- [HTTP](http.md): the server's own API and OpenAI's
- [Errors](errors.md): exceptions and exit codes
"""
}


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    made = {
        "cli.md": commands.page(),
        "configuration.md": configuration.page(),
        "strategies.md": designs.page(),
        "python.md": python.page(),
        "http.md": http.page(),
        "errors.md": python.errors_page(),
    }
    return {name: NOTE + "\n" + text.strip() + "\n" for name, text in {**PAGES, **made}.items()}


def write() -> None:
    """Write all pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
