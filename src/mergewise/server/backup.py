"""Backup and restore of a server's data as one tar file: state, configuration, indexes and originals, with a sha256 of each file.

    server.sqlite              a consistent copy, also while the server runs
    serve.toml                 if it exists
    collections/NAME/...       the server's own files of each collection
    checksums.json             the sha256 of every file above; the last entry, so that a truncated backup is detected

A backup waits for the running job, and jobs wait for the backup, so nothing changes during a backup. Indexes outside of the data
directory (`path` in the configuration) are not included, nor is the file with the first token.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from mergewise.errors import CorruptIndex, UsageError
from mergewise.extend import is_url, new_file
from mergewise.server.configuration import NAME
from mergewise.server.locks import lock_file, waiting_lock
from mergewise.server.spool import private_folder
from mergewise.server.state import DATABASE_FILE, State

_CHECKSUMS = "checksums.json"
_COLLECTIONS = "collections"


def write_backup(data: Path, file: Path, lock_wait: float = 3600.0) -> list[str]:
    """Write a backup of the server in `data` to `file`, atomically. Return the collections whose indexes are elsewhere.

    Raises UsageError if `data` is not a server's data, and IndexBusy if a job takes longer than `lock_wait` seconds.
    """
    if not (data / DATABASE_FILE).exists():
        raise UsageError(f"not a server's data directory: {data}", "pass the directory given to `mergewise serve`")
    handle, temporary = new_file(file.parent, f".{file.name}.", mode=0o600)
    try:
        with (
            os.fdopen(handle, "wb") as out,
            # no further job begins while this lock is held
            waiting_lock(lock_file(data, "backup"), lock_wait),
            waiting_lock(lock_file(data, "changes"), lock_wait),
            State(data / DATABASE_FILE) as state,
            tempfile.TemporaryDirectory(dir=data) as scratch,
        ):
            state.database.rows("VACUUM INTO ?", [str(Path(scratch) / DATABASE_FILE)])
            with tarfile.open(fileobj=out, mode="w") as archive:
                checksums = {DATABASE_FILE: _add(archive, Path(scratch) / DATABASE_FILE, DATABASE_FILE)}
                # lock files are empty and harmless, so they are included
                own = (path for path in (data / _COLLECTIONS).rglob("*") if path.is_file() and not path.is_symlink())
                for path in [*([data / NAME] if (data / NAME).exists() else []), *sorted(own)]:
                    name = path.relative_to(data).as_posix()
                    checksums[name] = _add(archive, path, name)
                listed = json.dumps(checksums).encode()
                archive.addfile(_member(_CHECKSUMS, len(listed)), io.BytesIO(listed))
            out.flush()
            os.fsync(out.fileno())
            root = Path(os.path.realpath(data))
            elsewhere = [
                one.name
                for one in state.collections.all()
                if is_url(one.path) or not Path(os.path.realpath(one.path)).is_relative_to(root)
            ]
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return elsewhere


def read_backup(data: Path, file: Path) -> None:
    """Restore a backup into `data`, which must be missing or empty.

    Raises UsageError if `data` is not empty, and CorruptIndex if the backup is invalid or incomplete.
    """
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise UsageError(f"directory not empty: {data}", "restore into a new directory, and serve that")
    data.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=data.parent, prefix=f".{data.name}."))
    try:
        _extract(file, scratch)
        if data.exists():
            data.rmdir()
        scratch.rename(data)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _add(archive: tarfile.TarFile, path: Path, name: str) -> str:
    """Add the file to the archive and return its sha256."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        archive.addfile(_member(name, os.fstat(file.fileno()).st_size), file)
    return sha256


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


def _extract(file: Path, into: Path) -> None:
    """Extract the archive. Accept only regular files with the paths and the sha256 of a backup."""
    found: dict[str, str] = {}
    listed: dict[str, str] | None = None
    try:
        with tarfile.open(file, "r:") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                name, parts = member.name, member.name.split("/")
                is_plain = all(part not in ("", ".", "..") and "\\" not in part and "\0" not in part for part in parts)
                is_known = name in (DATABASE_FILE, NAME, _CHECKSUMS) or (len(parts) > 2 and parts[0] == _COLLECTIONS)
                if content is None or not is_plain or not is_known:
                    raise CorruptIndex(f"not a backup: {file} contains {member.name!r}", "restore another file")
                if member.name == _CHECKSUMS:
                    listed = json.loads(content.read(1_000_000_000))
                    continue
                place = into / member.name
                private_folder(place.parent)
                handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(handle, "wb") as out:
                    shutil.copyfileobj(content, out)
                with place.open("rb") as written:
                    found[member.name] = hashlib.file_digest(written, "sha256").hexdigest()
    except (tarfile.TarError, OSError, ValueError) as error:
        raise CorruptIndex(f"cannot read {file}: {error}", "restore another backup") from None
    if listed is None or listed != found:
        raise CorruptIndex(f"incomplete or damaged backup: {file}", "restore another backup")
