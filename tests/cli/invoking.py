"""A command in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from mergewise.cli.main import app


def invoke(*words: str, **settings: str) -> str:
    """Run a command and return its output. Keyword arguments are settings, passed as environment variables."""
    environment = {f"MERGEWISE_{name.upper()}": value for name, value in settings.items()}
    done = CliRunner().invoke(app, words, env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output
