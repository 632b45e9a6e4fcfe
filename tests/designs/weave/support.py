"""Two small handbooks, and readers of them."""

from __future__ import annotations

from mergewise.designs import VIEWS
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Document
from tests.support import HashEmbedder, memory_store

FILMS = Document(
    id="films",
    title="Films",
    text="""# Silent Rain

Silent Rain is a 1931 drama directed by Ada Moor. It was shot in Lisbon.

# Loud Snow

Loud Snow is a 1940 comedy directed by Ben Cole. The budget was small.

# Ada Moor

Ada Moor (1890 to 1960) was a director. She was born in the town of Faro.

# Ben Cole

Ben Cole (1901 to 1970) was a director. He was born in the town of Bath.

# Snow

Snow falls in winter. Rain falls in spring.
""",
)
MANUAL = Document(
    id="manual",
    title="Pump manual",
    text="""# Alarm list

Alarm 7 means that the pressure relief valve is stuck. Alarm 8 means low oil.

# Pressure relief valve

Turn the knurled ring by hand until it clicks. Never use a wrench.

# Oil

Fill up to the mark. Use grade 30.
""",
)


def reader_of(*documents: Document, embedder: HashEmbedder | None = None) -> HybridReader:
    return HybridReader(memory_store(documents, embedder), embedder, VIEWS)
