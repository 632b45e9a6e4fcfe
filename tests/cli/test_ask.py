"""The command `ask` in a process, with a chat model that is a scripted endpoint on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.chat_server import ChatServer
from tests.command import run_text
from tests.support import patience

from mergewise.cli.answering import folded
from mergewise.models.scripted import Turn
from mergewise.types import Message

pytest.importorskip("openai")

COMMAND = Path(sys.executable).parent / "mergewise"
QUESTION = "How long do cats sleep?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "docs").mkdir()
    (folder / "docs" / "cats.md").write_text("# Cats\n\n## Sleep\n\nCats sleep sixteen hours a day.\n")
    assert run(folder, None, "index", "docs", "--embedder", "none").returncode == 0
    return folder


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(lambda messages: Turn("Sixteen hours [1], I think [7].")) as server:
        yield server


def environment(server: ChatServer | None) -> dict[str, str]:
    return {**os.environ, **({"OPENAI_BASE_URL": server.base_url} if server else {})}


def run(cwd: Path, server: ChatServer | None, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**environment(server), **more}
    return run_text(words, cwd, env)


def test_answer_has_citations_and_cost(home: Path, server: ChatServer) -> None:
    done = run(
        home, server, "ask", QUESTION, "--chat", "openai:m", MERGEWISE_PRICE_IN="1000", MERGEWISE_PRICE_OUT="2000"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Sixteen hours [1], I think.\n\n[1] ")
    assert "Sleep  (docs/cats.md:" in done.stdout
    found = re.search(r"r&b: 1 call; (\d+) input tokens, (\d+) output tokens; cost (\S+); 1 marks", done.stderr)
    assert found is not None, done.stderr
    assert float(found[3]) == pytest.approx((int(found[1]) * 1000 + int(found[2]) * 2000) / 1e6)
    assert not server.asked[0].streamed


def test_another_index_is_the_second_source(home: Path) -> None:
    (home / "more").mkdir(exist_ok=True)
    (home / "more" / "kittens.md").write_text("# Kittens\n\nSmall cats sleep twenty hours.\n")
    assert run(home, None, "index", "more", "--index", "other.index", "--embedder", "none").returncode == 0
    words = ["context", QUESTION, "--strategy", "crag(upper=1, lower=1)"]
    done, alone = run(home, None, *words, MERGEWISE_SECOND_SOURCE="other.index"), run(home, None, *words)
    assert done.returncode == 0, done.stderr
    assert "twenty hours" in done.stdout and "twenty hours" not in alone.stdout
    missing = run(home, None, *words, MERGEWISE_SECOND_SOURCE="nowhere.index")
    assert missing.returncode != 0 and "index not found" in missing.stderr


def test_streaming_shows_the_same_text(home: Path, server: ChatServer) -> None:
    plain = run(home, server, "ask", QUESTION, "--chat", "openai:m", MERGEWISE_STREAM="false")
    streamed = run(home, server, "ask", QUESTION, "--chat", "openai:m", MERGEWISE_STREAM="true")
    assert streamed.returncode == 0, streamed.stderr
    assert streamed.stdout == plain.stdout
    assert [asked.streamed for asked in server.asked] == [False, True]


def test_json_is_complete(home: Path, server: ChatServer) -> None:
    done = run(home, server, "ask", QUESTION, "--chat", "openai:m", "--mode", "r&l", "--json")
    answer = json.loads(done.stdout)
    assert answer.keys() == {
        "question", "answer", "found", "sure", "complete", "mode", "instead_of", "citations", "removed_marks",
        "unsupported", "unverified", "unsupported_extract", "usage", "trace", "context",
    }  # fmt: skip
    assert (answer["mode"], answer["removed_marks"], answer["unsupported"]) == ("r&l", 1, 0.0)
    assert (answer["unverified"], answer["unsupported_extract"]) == ([], None)
    assert answer["usage"].keys() == {
        "calls",
        "input_tokens",
        "output_tokens",
        "estimated",
        "unread",
        "cached_calls",
        "cached_input_tokens",
        "cached_output_tokens",
        "cost",
    }
    assert answer["usage"]["calls"] == 1 and answer["usage"]["cost"] is None
    # two words do not clearly match one sentence, so the mark cites the whole passage
    assert answer["citations"][0]["text"] == (home / "docs/cats.md").read_text().strip()


def test_an_invented_answer_is_marked_as_such(home: Path) -> None:
    with ChatServer(["Cats sleep ninety hours, said Napoleon [1]."]) as server:
        done = run(home, server, "ask", QUESTION, "--chat", "openai:m")
        body = json.loads(run(home, server, "ask", QUESTION, "--chat", "openai:m", "--json").stdout)
    assert "100% of the answer unsupported: “Cats sleep ninety hours, said Napoleon.”" in " ".join(done.stderr.split())
    assert (body["unsupported"], body["unverified"]) == (1.0, ["Cats sleep ninety hours, said Napoleon."])


def test_truncated_answer_is_reported(home: Path, server: ChatServer) -> None:
    done = run(home, server, "ask", QUESTION, "--chat", "openai:m", MERGEWISE_MAX_TOKENS="3")
    assert done.stdout.startswith("Sixteen hours") and "truncated at the token limit" in done.stderr
    assert server.asked[0].max_tokens == 3


def test_a_cached_reply_costs_nothing(home: Path, server: ChatServer, tmp_path: Path) -> None:
    words = ("ask", QUESTION, "--chat", "openai:m", "--json")
    first, second = (
        json.loads(run(home, server, *words, MERGEWISE_CACHE=str(tmp_path / "cache")).stdout) for _ in range(2)
    )
    assert first["answer"] == second["answer"] and server.requests == 1
    assert first["usage"]["input_tokens"] == second["usage"]["cached_input_tokens"] > 0
    assert [one["usage"][name] for one in (first, second) for name in ("calls", "cached_calls")] == [1, 0, 1, 1]


def test_options_come_from_the_file(home: Path, server: ChatServer, tmp_path: Path) -> None:
    (tmp_path / "mergewise.toml").write_text(
        f'index = "{home}/mergewise.index"\n[ask]\nchat = "openai:m"\nmode = "closed-book"\nwindow = 4096\nprice-in = 5.0\n'
    )
    own = tmp_path / "own/mergewise"
    own.mkdir(parents=True)
    (own / "mergewise.toml").write_text(f'trust = ["{tmp_path}"]\n')
    done = run(tmp_path, server, "ask", QUESTION, "--json", XDG_CONFIG_HOME=str(own.parent))
    answer = json.loads(done.stdout)
    assert answer["mode"] == "closed-book" and answer["usage"]["cost"] > 0


def test_several_rounds_ask_the_model_what_is_missing(home: Path) -> None:
    def play(messages: Sequence[Message]) -> Turn:
        return Turn("Where do cats sleep?" if "plan a search" in messages[0].text else "Sixteen hours [1].")

    with ChatServer(play) as server:
        answer = json.loads(run(home, server, "ask", QUESTION, "--chat", "openai:m", "--rounds", "3", "--json").stdout)
    assert [step["reason"] for step in answer["context"]["trace"] if step["action"] == "round"] == [
        "Where do cats sleep?"
    ]
    # the second plan repeats the question, which ends the rounds
    assert answer["usage"]["calls"] == 3


@pytest.mark.parametrize(
    ("words", "settings", "says"),
    [
        ("--mode fil", {}, "needs a chat model"),
        ("--chat openai:m --mode x", {}, "unknown mode: 'x'"),
        ("--chat openai:", {}, "unknown chat model"),
        ("--rounds 0", {}, "invalid rounds: 0"),
        ("--chat openai:m", {"MERGEWISE_WINDOW": "0"}, "invalid window: 0"),
        ("--chat openai:m", {"MERGEWISE_WINDOW": "64"}, "window"),
        ("--chat openai:m", {"MERGEWISE_CACHE": "docs/cats.md"}, "as a cache"),
    ],
)
def test_wrong_usage(home: Path, server: ChatServer, words: str, settings: dict[str, str], says: str) -> None:
    done = run(home, server, "ask", QUESTION, *words.split(), **settings, COLUMNS="200")
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_fails_is_an_error_with_a_hint(home: Path) -> None:
    with ChatServer([Turn(status=401)]) as server:
        done = run(home, server, "ask", QUESTION, "--chat", "openai:m")
    assert done.returncode == 1 and "check OPENAI_API_KEY" in done.stderr
    assert done.stdout == ""


def test_control_c_cancels_at_once(home: Path) -> None:
    with ChatServer([Turn("late", pause=600)]) as server:
        words = [str(COMMAND), "ask", QUESTION, "--chat", "openai:m"]
        with subprocess.Popen(words, cwd=home, env=environment(server), stderr=subprocess.PIPE, text=True) as process:
            while not server.asked:
                time.sleep(0.05)
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=patience(60))
        assert time.monotonic() - started < patience(5)
        assert process.returncode not in (0, 2)
        assert "Traceback" not in error


def test_warning_names_the_preferred_mode_once(home: Path) -> None:
    done = run(home, None, "index", "docs", "--index", "aed.index", "--views", "leaf,triplet", "--embedder", "none")
    assert done.returncode == 0, done.stderr
    words = ("ask", "What do cats eat?", "--strategy", "aed", "--index", "aed.index")
    plain = run(home, None, *words)
    assert plain.stderr.count("aed prefers the mode aed, which needs a causal model") == 1
    assert "using extractive" in plain.stderr and "causal model hf:PATH" in plain.stderr
    as_json = run(home, None, *words, "--json")
    assert json.loads(as_json.stdout)["instead_of"] == "aed" and "prefers the mode aed" in as_json.stderr
    named = run(home, None, *words, "--mode", "extractive", "--json")
    assert json.loads(named.stdout)["instead_of"] is None and "prefers" not in named.stderr


def test_a_terminal_shows_the_beginning_of_a_long_quotation() -> None:
    long, short = "Cats sleep on warm roofs. " * 40, "“Dogs do not.” [2]"
    shown = folded(f"Likely:\n\n{short}\n\nCats: “{long}” [3]\n\n{short}")
    first, *rest = shown.split(" …” [3]")
    assert first.startswith(f"Likely:\n\n{short}\n\nCats: “Cats sleep") and len(first) < 700
    assert rest == [f" (whole: mergewise show 3)\n\n{short}"]
    assert folded(f"“{long[:700]}” [1]") == f"“{long[:700]}” [1]"
