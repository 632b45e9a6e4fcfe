"""Files of a Git repository at one commit: `git+https://HOST/PATH@REF` or `git+file:///PATH@REF`, by the program `git`.

A temporary repository gets the commit and its folders, and then the contents of new and changed files only, if the other side can
leave out contents (`uploadpack.allowFilter`). The version of a file is the name of its blob. Links and submodules are left out.
Credentials and proxies are those of the settings of git.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any
from urllib.parse import urlsplit

from mergewise.errors import ReadError
from mergewise.readers import MAX_BYTES
from mergewise.sources import SourceFile, addresses_of
from mergewise.types import Failure

SECONDS = 1800
"""Time for one command of git."""
_READ = ("cat-file", "--batch")


def entries(address: str, known: Mapping[str, str], takes: Callable[[str], bool]) -> Iterator[SourceFile | Failure]:
    """Yield the files of a commit. Their metadata name the `commit` at which the text was read."""
    parts = urlsplit(address.removeprefix("git+"))
    path, _, ref = parts.path.partition("@")
    options = ["protocol.allow=never", f"protocol.{parts.scheme}.allow=always", "http.followRedirects=false"]
    options += ["http.lowSpeedLimit=1000", "http.lowSpeedTime=60", "gc.auto=0"]
    if parts.hostname:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        options.append(f"http.curloptResolve={parts.hostname}:{port}:{','.join(addresses_of(parts.hostname, port))}")
    # variables such as GIT_DIR name other repositories, and GIT_ALLOW_PROTOCOL other protocols
    kept = ("GIT_CONFIG_", "GIT_SSL_")
    environment = {name: value for name, value in os.environ.items() if name.startswith(kept) or name[:4] != "GIT_"}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    with TemporaryDirectory(prefix="mergewise-git-") as folder, TemporaryFile() as wanted, TemporaryFile() as contents:

        def git(*arguments: str, stdin: IO[bytes] | int = subprocess.DEVNULL, stdout: IO[bytes] | int = -1) -> Any:
            command = ["git", "-C", folder, *(part for one in options for part in ("-c", one)), *arguments]
            done = subprocess.run(command, env=environment, timeout=SECONDS, stdin=stdin, stdout=stdout, stderr=-1)
            if done.returncode:
                raise ReadError(done.stderr.decode(errors="replace").strip() or "git failed")
            return done.stdout

        git("init", "--bare", "--quiet")
        git("config", "remote.origin.url", parts._replace(path=path).geturl())
        fetch = ("fetch", "--quiet", "--no-tags", "--filter=blob:none")
        git(*fetch, "--depth=1", "--", "origin", ref or "HEAD")
        commit, seconds = git("log", "-1", "--format=%H %ct", "FETCH_HEAD").decode().split()
        blobs: dict[str, str] = {}
        for line in os.fsdecode(git("ls-tree", "-r", "-z", commit)).split("\0")[:-1]:
            mode, _, blob = line.partition("\t")[0].split()
            # only regular files
            if mode.startswith("100") and takes(name := line.partition("\t")[2]):
                blobs[name] = blob
        changed = [name for name, blob in blobs.items() if known.get(name) != blob]
        wanted.write("".join(f"{blobs[name]}\n" for name in changed).encode())
        if changed:
            for command, file in (((*fetch, "--no-write-fetch-head", "--stdin", "origin"), -1), (_READ, contents)):
                wanted.seek(0)
                git(*command, stdin=wanted, stdout=file)
        contents.seek(0)
        for name, blob in blobs.items():
            content = None
            if known.get(name) != blob:
                # a line with name, type and size, the content, and a line break
                size = int(contents.readline().split()[2])
                # one byte more than a reader takes is enough to be refused
                content = contents.read(min(size, MAX_BYTES + 1))
                contents.seek(size - len(content) + 1, os.SEEK_CUR)
            yield SourceFile(name, blob, content, modified=float(seconds), metadata={"commit": commit})
