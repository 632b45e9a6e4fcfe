"""Misbehaving readers for the sandbox. The file's name selects the misbehaviour."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from mergewise.readers import ReadFile, read_file
from mergewise.types import Document


def read_hostile(path: Path, *, id: str | None = None, within: Path | None = None) -> ReadFile:
    if path.stem == "kills":
        os.kill(os.getpid(), signal.SIGSEGV)
    if path.stem == "leaves":
        os._exit(7)
    if path.stem == "sleeps":
        time.sleep(600)
    while path.stem == "loops":
        pass
    if path.stem == "swallows":
        bytearray(8_000_000_000)
    if path.stem == "prints":
        os.write(1, b'{"id": "forged"}\n')
        sys.stdout.write("noise\n")
        sys.stdout.flush()
    if path.stem == "breaks":
        os.close(1)
        raise SystemExit(0)
    document, digest, _ = read_file(path, id=id)
    if path.stem == "environment":
        return ReadFile(Document("names", "\n".join(sorted(os.environ))), digest)
    return ReadFile(Document(f"{os.getpid()}", document.text), digest)
