from __future__ import annotations

import pytest

from mergewise.errors import UsageError
from mergewise.models import EMBEDDERS, load_embedder
from mergewise.models.minilm import MiniLM


def test_by_name() -> None:
    assert load_embedder("none") is None
    embedder = load_embedder("minilm")
    assert isinstance(embedder, MiniLM) and embedder.spec == "minilm"


@pytest.mark.parametrize("spec", ["", "bert", "minilm:", "minilm:x", "none:", "st", "st:", "openai", "openai:", ":x"])
def test_an_unknown_spec_names_the_forms(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_embedder(spec)
    assert all(form in caught.value.hint for form in EMBEDDERS)
