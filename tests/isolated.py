"""Run commands in a network namespace of their own, and report what they looked up, called and wrote.

python -m tests.isolated '[["mergewise", "--version"], ...]'

A name server on loopback records names and answers nothing, because native libraries do not use Python's resolver. The kernel
counts packets to other addresses. The process needs the rights that `unshare --net --mount` gives.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

import pytest

ROOT = Path(__file__).parents[1]
UNSHARE = ["unshare", "--map-root-user", "--net", "--mount"]
# the state of `mergewise show NUMBER`
OWN_STATE = ("home/.local", "home/.local/state", "home/.local/state/mergewise")
_SET_FLAGS, _UP = 0x8914, 0x41
PORT = "8077"
# onnxruntime looks up its collector some seconds after its import
SECONDS = 6
TRIES = 60


def isolated(*commands: list[str]) -> dict[str, Any]:
    """Run commands in a network namespace. Skip the test where namespaces are not allowed."""
    if sys.platform != "linux" or subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("network namespaces are not allowed here (unshare --map-root-user --net --mount)")
    words = [*UNSHARE, sys.executable, "-m", "tests.isolated", json.dumps(commands)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def assert_silent(report: dict[str, Any], allowed: tuple[str, ...] = ()) -> None:
    """Check that all commands worked, called nobody, and wrote no files but those below `allowed`."""
    for command, code, output in report["done"]:
        assert code == 0, (command, output)
    files = [
        file for file in report["files"] if file not in OWN_STATE and not file.startswith((OWN_STATE[-1], *allowed))
    ]
    assert (report["names"], report["packets"], files) == ([], 0, [])


def main(commands: list[list[str]], folder: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        fcntl.ioctl(plain, _SET_FLAGS, struct.pack("16sh", b"lo", _UP))
    resolver = folder / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n")
    subprocess.run(["mount", "--bind", resolver, Path("/etc/resolv.conf").resolve()], check=True)
    names: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 53))
        Thread(target=_record, args=(server, names), daemon=True).start()
        home, temporary = folder / "home", folder / "tmp"
        home.mkdir()
        temporary.mkdir()
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("CI", "ORT_", "RAY_", "XDG_"))
        }
        environment = kept | {"HOME": str(home), "TMPDIR": str(temporary)}
        done = [_run(command, folder, environment) for command in commands]
    files = sorted(path.relative_to(folder).as_posix() for top in (home, temporary) for path in top.rglob("*"))
    print(json.dumps({"names": names, "packets": _unroutable_packets(), "files": files, "done": done}))


def _record(server: socket.socket, names: list[str]) -> None:
    while True:
        query = server.recv(4096)
        names.append(re.sub(rb"[\x00-\x1f]", b".", query[13 : query.index(b"\0", 13)]).decode())


def _unroutable_packets() -> int:
    """Return the kernel's number of packets that had no route, which are all but those to loopback."""
    names, values = (line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines()[:2])
    return int(values[names.index("OutNoRoutes")])


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> list[object]:
    """Run a command. A server is stopped some seconds after its first answer."""
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        if "serve" in command:
            try:
                _ask_server()
                time.sleep(SECONDS)
            finally:
                process.send_signal(signal.SIGTERM)
        output, _ = process.communicate()
    return [command, process.returncode, output]


def _ask_server() -> None:
    """Ask until the server has started and indexed its folder."""
    form = json.dumps({"question": "Who designed the Red Mill?"}).encode()
    asked = Request(f"http://127.0.0.1:{PORT}/api/v1/collections/town/ask", form, {"Content-Type": "application/json"})
    for _ in range(TRIES):
        time.sleep(1)
        with suppress(OSError), urlopen(asked, timeout=60) as answer:
            if b"Brix" in answer.read():
                return
    raise TimeoutError(f"no answer after {TRIES} tries")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mw-") as name:
        main(json.loads(sys.argv[1]), Path(name))
