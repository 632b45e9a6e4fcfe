"""Run `mergewise` as a separate process, but without the second that its imports take.

One process imports the package and forks for each command. The child gets the arguments, the directory, the environment and the
three streams of the command, and ends with its exit code. Before it forks, the process starts no thread and opens nothing.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

PRELOADED = """
import mergewise.asking, mergewise.cli.main, mergewise.designs.modes, mergewise.designs.strategies, mergewise.engine
import mergewise.evaluate.run, mergewise.index.pipeline, mergewise.models.onnx, mergewise.page, mergewise.readers
import mergewise.cli.trace, numpy, pyarrow, rich.console, rich.table, rich.tree, tokenizers, typer.main
import deprecation, email.parser, http.client, lance_namespace, numpy.ma, packaging.version, pyarrow.dataset, pyarrow.fs
import pydantic.json_schema, pydantic.dataclasses, pydantic.type_adapter, Stemmer
"""
FORKING = """
import array, json, os, socket, sys

def read(connection):
    data, passed, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while data and not data.endswith(b"\\n"):
        data += connection.recv(1 << 20)
    return data, passed

def become(request, passed):
    for target, source in enumerate(passed):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = ["mergewise", *request["words"]]
    sys.stdin, sys.stdout, sys.stderr = (open(fd, mode, encoding="utf-8") for fd, mode in ((0, "r"), (1, "w"), (2, "w")))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    from mergewise.cli.main import main
    try:
        main()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

connection = socket.socket(fileno=int(sys.argv[1]))
while True:
    data, passed = read(connection)
    if not data:
        break
    child = os.fork()
    if not child:
        become(json.loads(data), passed)
    for fd in passed:
        os.close(fd)
    connection.sendall(b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@cache
def forking_process(source: str) -> socket.socket:
    """Connect to a process that has imported the package from this path."""
    ours, theirs = socket.socketpair()
    words = [sys.executable, "-c", PRELOADED + FORKING, str(theirs.fileno())]
    process = subprocess.Popen(words, pass_fds=[theirs.fileno()], env={**os.environ, "PYTHONPATH": source})
    theirs.close()
    ours.settimeout(180)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def run(
    words: Sequence[object], cwd: Path | str | None = None, env: Mapping[str, str] | None = None, input: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Return the same as `subprocess.run([mergewise, *words], capture_output=True)`."""
    connection = forking_process(os.environ.get("PYTHONPATH", ""))
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(input)
        given.seek(0)
        request = {
            "words": [str(word) for word in words],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(env or os.environ),
        }
        socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [f.fileno() for f in (given, out, err)])
        code = int(connection.recv(64))
        return subprocess.CompletedProcess(list(map(str, words)), code, _written(out), _written(err))


def run_text(
    words: Sequence[object], cwd: Path | str | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Call `run`, with text streams."""
    done = run(words, cwd, env)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def run_in(cwd: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Call `run_text` in a directory, with additional environment variables."""
    return run_text(words, cwd, {**os.environ, **more})


def _written(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read()
