"""The command `chat`, through a pipe and on a terminal. Its chat model is a scripted endpoint on loopback."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.chat_server import ChatServer
from tests.command import run, run_text

from mergewise.models.scripted import Turn
from mergewise.types import Message

COMMAND = [sys.executable, "-m", "mergewise"]
CATS, OWLS = "How long do cats sleep?", "What do owls eat?"
SECONDS = 60.0  # generous, since machines are busy
DRAWN = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "docs").mkdir()
    (folder / "docs" / "cats.md").write_text("# Cats\n\n## Sleep\n\nCats sleep sixteen hours a day.\n")
    (folder / "docs" / "owls.md").write_text("# Owls\n\n## Food\n\nOwls eat mice at night.\n")
    assert run_text(["index", "docs", "--embedder", "none"], folder).returncode == 0
    return folder


def piped(home: Path, *lines: str, words: Sequence[str] = (), **more: str) -> subprocess.CompletedProcess[bytes]:
    return run(["chat", *words], home, {**os.environ, **more}, "\n".join(lines).encode())


def environment(server: ChatServer | None, **more: str) -> dict[str, str]:
    found = {} if server is None else {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
    return {**os.environ, "COLUMNS": "120", "TERM": "xterm", **found, **more}


# -- through a pipe


def test_piped_output_has_only_the_answers(home: Path) -> None:
    done = piped(home, CATS, "", OWLS)
    alone = [run_text(["ask", question], home).stdout for question in (CATS, OWLS)]
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == "".join(f"{answer}\n" for answer in alone)


def test_a_follow_up_is_searched_with_earlier_words_until_a_new_conversation(home: Path) -> None:
    done = piped(home, OWLS, "And when?", "/new", "And when?")
    assert done.stderr.decode() == "searched for: And when? owls eat\n"
    assert b"Owls eat mice at night" in done.stdout.split(b"\n\n\n")[0]


def test_json_is_a_line_for_each_question(home: Path) -> None:
    done = piped(home, CATS, "/new", "/sources", OWLS, words=("--json",))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["line"], line.get("question")) for line in lines] == [(1, CATS), (3, "/sources"), (4, OWLS)]
    assert "sixteen hours" in lines[0]["answer"] and lines[0]["citations"] and lines[2]["context"]["passages"]
    assert lines[1]["error"] == "/sources is not available with --json" and done.returncode == 1


def test_commands_show_the_last_answer(home: Path) -> None:
    done = piped(
        home, "/sources", CATS, "/sources", "/show 1", "/show owls", "/context", "/trace", "/help", "/fly", "/show"
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "no answer yet" in err and "unknown command: /fly" in err and "/show: missing number" in err
    assert out.count("[1] Cats › Sleep  (docs/cats.md:5)") == 2
    assert "> 5 │ Cats sleep sixteen hours a day." in out and "5 │ Owls eat mice at night." in out
    assert "\n[1] Cats › Sleep\nCats sleep sixteen hours a day.\n" in out and "\nsearch: " in out
    assert "/show N    show a source" in out
    assert "Traceback" not in err


def test_an_error_ends_an_answer_and_not_the_conversation(home: Path) -> None:
    done = piped(home, '{"question": "What?", "where": "no such condition"}', "/etc/owls is what?", OWLS, "/quit", CATS)
    assert done.stderr.startswith(b"mergewise: ") and b"mice at night" in done.stdout
    assert b"sixteen" not in done.stdout.rsplit(b"mice", 1)[1], "what follows /quit is not read"
    nothing = piped(home)
    assert nothing.returncode == 2 and b"no question on standard input" in nothing.stderr


def test_a_change_by_another_process_is_seen(home: Path, tmp_path: Path) -> None:
    words = [*COMMAND, "chat", "-i", str(tmp_path / "i")]
    (tmp_path / "a.md").write_text("Bats hang upside down.\n")
    assert run_text(["index", "a.md", "-i", "i", "--embedder", "none"], tmp_path).returncode == 0
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=tmp_path, stdin=pipe, stdout=pipe, env=environment(None), text=True) as process:
        assert process.stdin is not None and process.stdout is not None

        def answer(question: str) -> str:
            process.stdin.write(f"{question}\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            lines = [process.stdout.readline()]  # type: ignore[union-attr]
            while not lines[-1].startswith("["):
                lines.append(process.stdout.readline())  # type: ignore[union-attr]
            return "".join(lines)

        assert "Bats hang upside down." in answer("How do bats hang?")
        (tmp_path / "a.md").write_text("Bats hang in the garden.\n")
        assert run_text(["index", "a.md", "-i", "i"], tmp_path).returncode == 0
        assert "Bats hang in the garden." in answer("How do bats hang?")
        process.stdin.close()
        assert process.wait(SECONDS) == 0


# -- on a terminal


class Terminal:
    """A command that runs in a terminal. `screen` is all of its output."""

    def __init__(self, cwd: Path, *words: str, **environment: str) -> None:
        import pty

        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=cwd,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            # Ctrl-C goes to the process whose controlling terminal it is
            preexec_fn=lambda: _own_terminal(theirs),
        )
        os.close(theirs)
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, text: str, times: int = 1) -> None:
        """Wait until the text has appeared `times` times."""
        end = time.monotonic() + SECONDS
        while DRAWN.sub("", self.screen).count(text) < times:
            assert time.monotonic() < end and self.read(), f"{text!r} is not in {self.screen!r}"

    def interrupt(self, prompts: int) -> None:
        """Press Ctrl-C until `prompts` prompts have appeared: readline may delay one until the next key."""
        end = time.monotonic() + SECONDS
        while DRAWN.sub("", self.screen).count("? ") < prompts:
            assert time.monotonic() < end, self.screen[-2000:]
            self.type("\x03")
            # wait between key presses, so that the second one does not interrupt the handling of the first
            pause = time.monotonic() + 3
            while DRAWN.sub("", self.screen).count("? ") < prompts and time.monotonic() < pause:
                self.read()

    def leave(self) -> int:
        """Press Ctrl-D until the command ends: a Ctrl-D before the prompt is lost."""
        end = time.monotonic() + SECONDS
        self.type("\x04")
        while self.read():
            assert time.monotonic() < end, self.screen
            self.type("\x04")
        return self._process.wait(SECONDS)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def read(self) -> bool:
        """Read more output. Return False when the command has closed the terminal."""
        if not select.select([self._ours], [], [], 1.0)[0]:
            return True
        try:
            piece = os.read(self._ours, 65536)
        except OSError:
            return False
        self.screen += piece.decode(errors="replace")
        return bool(piece)


def _own_terminal(terminal: int) -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


posix_only = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"


@posix_only
def test_a_conversation_on_a_terminal(home: Path, state: Path) -> None:
    with Terminal(home, "chat", **environment(None, XDG_STATE_HOME=str(state))) as terminal:
        terminal.until("2 documents in mergewise.index; /help lists commands, Ctrl-D quits")
        terminal.until("no chat model: a follow-up question is searched with")
        terminal.type(f"{CATS}\n")
        terminal.until("(docs/cats.md:5)")
        terminal.until("? ", 2)
        terminal.type("unfinished")
        terminal.until("unfinished")
        terminal.interrupt(3)
        terminal.type("/show 1\n")
        terminal.until("> 5 │ Cats sleep sixteen hours a day.")
        terminal.type("/fly\n")
        terminal.until("unknown command: /fly")
        assert terminal.leave() == 0, terminal.screen
    assert "Traceback" not in terminal.screen and "KeyboardInterrupt" not in terminal.screen


@posix_only
def test_history_is_kept_and_private(home: Path, state: Path) -> None:
    pytest.importorskip("readline")
    for keys in (f"{OWLS}\n", "\x1b[A\n"):
        with Terminal(home, "chat", **environment(None, XDG_STATE_HOME=str(state))) as terminal:
            terminal.until("Ctrl-D quits")
            terminal.until("? ")
            terminal.type(keys)
            terminal.until("Owls eat mice at night.")
            assert terminal.leave() == 0, terminal.screen
    file = state / "mergewise/chat-history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == f"{OWLS}\n{OWLS}" or file.read_text() == OWLS


@posix_only
def test_control_c_cancels_the_answer_but_not_the_conversation(home: Path, state: Path) -> None:
    pytest.importorskip("openai")

    def play(messages: Sequence[Message]) -> Turn:
        return Turn("late", pause=60) if CATS in messages[-1].text else Turn("Owls eat mice [1].")

    with ChatServer(play) as server:
        given = environment(server, XDG_STATE_HOME=str(state))
        with Terminal(home, "chat", "--chat", "openai:m", **given) as terminal:
            terminal.until("Ctrl-D quits")
            terminal.type(f"{CATS}\n")
            end = time.monotonic() + SECONDS
            while not server.asked and time.monotonic() < end:
                terminal.read()
            terminal.interrupt(2)
            terminal.type(f"{OWLS}\n")
            terminal.until("Owls eat mice [1].")
            terminal.until("r&b: 1 call")
            assert terminal.leave() == 0, terminal.screen
    assert "late" not in terminal.screen and "Traceback" not in terminal.screen
    assert "no chat model" not in terminal.screen
    assert all(asked.streamed for asked in server.asked)
    assert not any(CATS in asked.messages[-1].text for asked in server.asked[1:]), (
        "a cancelled question is not part of the history"
    )


def test_a_chat_model_rewrites_a_follow_up(home: Path) -> None:
    pytest.importorskip("openai")

    def play(messages: Sequence[Message]) -> Turn:
        rewrites = "You rewrite the last question" in messages[0].text
        return Turn("What do owls eat at night?") if rewrites else Turn("Owls eat mice [1].")

    with ChatServer(play) as server:
        done = piped(
            home, OWLS, "And at night?", words=("--chat", "openai:m"), **environment(server), MERGEWISE_STREAM="1"
        )
    assert "searched for: What do owls eat at night?" in done.stderr.decode()
    assert done.stdout.decode().count("Owls eat mice [1].") == 2
    assert [asked.streamed for asked in server.asked] == [True, False, True]
