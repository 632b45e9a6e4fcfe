"""The component for Haystack, with the real package."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mergewise as mw

from .conftest import QUESTION, TEXTS, every_where

pytest.importorskip("haystack", reason="the extra `haystack` is not installed: `make integrations` does it")

from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder

from mergewise.integrations import HaystackRetriever


def test_documents_are_the_passages_with_their_spans(index: mw.Index) -> None:
    found = HaystackRetriever(index, budget=120).run(QUESTION)["documents"]
    context = index.context(QUESTION, budget=120)
    assert found and all(isinstance(document, Document) for document in found)
    assert [(d.content, d.score) for d in found] == [(p.text, p.score) for p in context.passages]
    for document in found:
        parts = [index.document(s["doc"]).text[s["start"] : s["end"]] for s in document.meta["spans"]]
        assert " …\n".join(parts) == document.content
        assert document.meta["source"] in TEXTS and document.meta["lang"] == "en"
    assert len({document.id for document in found}) == len(found)


@every_where
def test_a_directory_is_opened_on_first_use(index: mw.Index, tmp_path: Path, where: Any) -> None:
    component = HaystackRetriever(tmp_path / "index", strategy="topk", where=where, parameters={"k": 1})
    (only,) = component.run(QUESTION)["documents"]
    assert only.meta["source"] == "thorn"
    (other,) = component.run(QUESTION, where="year = 1900")["documents"]
    assert other.meta["source"] == "lamp"
    absent = HaystackRetriever(str(tmp_path / "absent"))
    with pytest.raises(mw.UsageError, match="index not found"):
        absent.warm_up()
    assert not (tmp_path / "absent").exists()


def test_a_pipeline_answers_the_same_after_saving_and_loading(index: mw.Index) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", HaystackRetriever(index, budget=90, parameters={"k": 20}))
    template = "{% for d in documents %}{{ d.content }}\n{% endfor %}{{ question }}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.connect("retriever.documents", "prompt.documents")
    asked = {"retriever": {"query": QUESTION}, "prompt": {"question": QUESTION}}
    prompt = pipeline.run(asked)["prompt"]["prompt"]
    assert "Delft" in prompt and prompt.endswith(QUESTION)
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["mergewise.integrations.haystack", "haystack.*"])
    assert again.run(asked)["prompt"]["prompt"] == prompt
    component = again.get_component("retriever")
    assert component.to_dict() == pipeline.get_component("retriever").to_dict()
    assert (component.options["budget"], component.options["parameters"]) == (90, {"k": 20})


def test_run_async_returns_the_same_documents(index: mw.Index) -> None:
    component = HaystackRetriever(index, budget=100)

    async def ask() -> list[dict[str, list[Document]]]:
        return await asyncio.gather(*(component.run_async(QUESTION) for _ in range(10)))

    assert asyncio.run(ask()) == [component.run(QUESTION)] * 10


def test_top_k_limits_documents_and_haystack_documents_can_be_indexed(index: mw.Index) -> None:
    index.add([Document(content="Ida Thorn sold lamps too.", meta={"year": 1907}, id="ida")])
    assert index.document("ida").metadata["year"] == 1907
    component = HaystackRetriever(index, budget=200, top_k=2)
    two, one = component.run(QUESTION)["documents"], component.run(QUESTION, top_k=1)["documents"]
    assert (len(two), len(one)) == (2, 1) and one[0] in two
    assert HaystackRetriever.from_dict(component.to_dict()).top_k == 2


def test_a_pipeline_is_not_reported() -> None:
    """Haystack reads the variable when it is imported, so a program that imports it first decides for itself."""
    code = "from mergewise.integrations import HaystackRetriever; import haystack; print(haystack.telemetry._telemetry.telemetry)"
    quiet = {name: value for name, value in os.environ.items() if name != "HAYSTACK_TELEMETRY_ENABLED"}
    for first, expected in (("", True), ("import os; os.environ['HAYSTACK_TELEMETRY_ENABLED'] = 'True'; ", False)):
        done = subprocess.run(
            [sys.executable, "-c", first + code], env={**quiet, "HOME": os.devnull}, capture_output=True, text=True
        )
        assert (done.stdout.strip() == "None") is expected, (done.stdout, done.stderr)
