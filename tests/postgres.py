"""A Postgres server for tests in a temporary folder, started and stopped by them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_SETTINGS = {"fsync": "off", "listen_addresses": "127.0.0.1", "max_connections": "200"}


@dataclass
class PostgresServer:
    """A server on loopback. `user` are the options of `subprocess` that run it as a user who may."""

    programs: Path
    folder: Path
    port: int
    user: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None

    def create(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self.run(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def run(self, statement: str) -> list[Any]:
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=5) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def start(self) -> None:
        import psycopg

        options = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [self.programs / "postgres", "-D", self.folder, "-p", str(self.port), "-k", self.folder, *options]
        with (self.folder / "log").open("ab") as log:
            started: Any = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, **self.user)
        self.process = started
        for _ in range(300):
            assert started.poll() is None, (self.folder / "log").read_text()
            try:
                self.run("SELECT 1")
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise AssertionError("Postgres did not start")

    def stop(self) -> None:
        """Stop the server at once, as at a crash."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(30)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server. Skip the test without Debian's package `postgresql` or without psycopg."""
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'mergewise[postgres]'")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "")]
    if not installed[-1].is_file():
        pytest.skip("needs Postgres: apt-get install postgresql")
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        # Postgres refuses to run as root
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
    with tempfile.TemporaryDirectory(prefix="mergewise-postgres-") as place, socket.socket() as free:
        if user:
            shutil.chown(place, "postgres", "postgres")
        folder = Path(place) / "data"
        command = [installed[-1], "-D", folder, "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C.UTF-8"]
        subprocess.run([str(word) for word in command], check=True, capture_output=True, cwd=place, **user)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = PostgresServer(installed[-1].parent, folder, port, user)
        try:
            server.start()
            yield server
        finally:
            server.stop()
