"""An answer of several streams, with and without colours."""

from __future__ import annotations

import pytest

from mergewise.cli import output
from mergewise.cli.trace import say_streams
from mergewise.designs.aed.streams import StreamToken, StreamWeights
from mergewise.types import Answer, Context


def answer() -> Answer:
    tokens = [("Del", "passages", 0.9), ("ft", "passages", 0.7), (" then", "memory", 0.2)]
    streams = StreamWeights(
        {"passages": 0.75, "memory": 0.25, "triplets": 0.0},
        {"passages": 1.5, "memory": 0.4},
        tuple(StreamToken(text, stream, agreement, {}) for text, stream, agreement in tokens),
    )
    return Answer("q", "Delft then", (), Context("q", "aed", 9, "", 0, ()), streams=streams)


def test_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.console.cache_clear()
    say_streams(answer())
    output.console.cache_clear()
    out = capsys.readouterr().out
    assert "\x1b[32mDelft\x1b[0m\x1b[36m then" in out.replace("\x1b[32mDel\x1b[0m\x1b[32mft", "\x1b[32mDelft")


def test_words_without_colours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    say_streams(answer())
    assert capsys.readouterr().out.splitlines()[1:] == [
        "stream passages: weight 0.750, utility 1.500",
        "stream memory: weight 0.250, utility 0.400",
        "stream triplets: weight 0.000, skipped",
        "  passages: 'Delft', agreement 0.80",
        "  memory: ' then', agreement 0.20",
        "agreement of the streams: mean 0.60, minimum 0.20",
    ]
    say_streams(Answer("q", "a", (), answer().context))
    assert capsys.readouterr().out == ""
