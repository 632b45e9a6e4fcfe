"""Time AED-RAG from documents to answers through its commands, with small models trained on the spot.

python -m benchmarks.aed_chain [--set 2wiki] [--learn 40] [--ask 20] [--steps 200] --dir DIR

The documents of a question set are written as Markdown and its questions as JSON lines: `--learn` questions of the first half for
training, `--ask` questions of the second half for answering. The reader is a four-layer Qwen3, trained on the documents for
`--steps` steps. The predictor is a two-layer BERT. Both use a vocabulary of 4,096 word pieces from these documents.
The models know next to nothing, so their answers are not a result. The benchmark shows that the steps work together, and how long
each one takes. Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.corpus import bench_folder
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.run import chosen_questions

PIECES, WINDOW = 4096, 4096
# Training of the reader: tokens per row, rows per step.
READ, TOGETHER = 192, 8
READER: dict[str, int] = {
    "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": WINDOW,
}  # fmt: skip
PREDICTOR: dict[str, int] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": 512, "num_labels": 1,
}  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
UTILITY = "cross-encoder:trained"
MERGEWISE = ("-c", "import sys; from mergewise.cli.main import main; sys.argv[0] = 'mergewise'; main()")


def write_inputs(task: QuestionSet, learn: int, ask: int, folder: Path) -> Sequence[Question]:
    """Write `docs/*.md`, `learn.jsonl` and `ask.jsonl`. Return the questions of `ask.jsonl`."""
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    for number, document in enumerate(task.documents):
        begins = "" if document.text.lstrip().startswith("# ") else f"# {document.title}\n\n"
        (folder / "docs" / f"{number:05}.md").write_text(begins + document.text + "\n", encoding="utf-8")
    asked = chosen_questions(task, "test", ask)
    for name, questions in {"learn": chosen_questions(task, "dev", learn), "ask": asked}.items():
        lines = (json.dumps({"question": q.text, "answer": list(q.answers)}) for q in questions)
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return asked


def make_models(task: QuestionSet, steps: int, folder: Path) -> None:
    """Write the models to the folders `reader` and `predictor`, in the format of transformers."""
    import torch
    import transformers

    torch.manual_seed(0)
    texts = [document.text for document in task.documents]
    words = _tokenizer(texts)
    reader = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(vocab_size=len(words), **READER))
    _train_reader(reader, words, texts, steps)
    reader.generation_config.eos_token_id = words.eos_token_id
    predictor = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=len(words), **PREDICTOR))
    for name, network in {"reader": reader, "predictor": predictor}.items():
        network.save_pretrained(folder / name)
        words.save_pretrained(folder / name)


def _tokenizer(texts: Sequence[str]) -> Any:
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    marks = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "<|start|>", "<|end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES, special_tokens=marks, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", eos_token="<|end|>",
        additional_special_tokens=["<|start|>"], model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
    words.chat_template = TEMPLATE
    return words


def _train_reader(network: Any, words: Any, texts: Sequence[str], steps: int) -> None:
    """Train the reader to continue random stretches of the documents."""
    import torch

    draw = random.Random(0)
    ids: list[int] = []
    for text in draw.sample(texts, len(texts)):
        ids += [*words(text, add_special_tokens=False)["input_ids"], words.eos_token_id]
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for _ in range(steps):
        starts = [draw.randrange(max(1, len(ids) - READ)) for _ in range(TOGETHER)]
        rows = torch.tensor([ids[start : start + READ] for start in starts])
        network(input_ids=rows, labels=rows).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def commands(question: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the arguments of each step, to be run in the folder of the chain."""
    models = ["--chat", "hf:reader", "--reranker", UTILITY]
    yield "index, with triplets", ["index", "docs", "--views", "leaf,triplet", "--index", "my.index"]
    yield (
        "labels",
        ["train", "utility", "learn.jsonl", "--index", "my.index", "--split", "all", "--chat", "hf:reader",
         "--base", "cross-encoder:predictor", "--out", "trained", "--labels-only"],
    )  # fmt: skip
    yield ("training", ["train", "utility", "--base", "cross-encoder:predictor", "--out", "trained"])
    yield "one question, with `aed`", ["ask", question, "--index", "my.index", "--strategy", "aed", *models]
    scored = ["eval", "ask.jsonl", "--index", "my.index", "--answers", *models]
    for name in ("aed-2", "replug"):
        yield f"all questions, `{name}`", [*scored, "--methods", name, "--json", f"{name}.json"]
    yield (
        "all questions, `topk` in the mode `r&b`",
        [*scored, "--strategies", "topk", "--budgets", "640", "--mode", "r&b", "--json", "r&b.json"],
    )


def mergewise(arguments: Sequence[str], folder: Path) -> str:
    """Run a command and return its output. Exit with that output if the command fails."""
    environment = {**os.environ, "MERGEWISE_MAX_TOKENS": "16", "MERGEWISE_UTILITY": UTILITY}
    done = subprocess.run(
        [sys.executable, *MERGEWISE, *arguments], cwd=folder, env=environment, text=True, capture_output=True
    )
    if done.returncode:
        sys.exit(f"mergewise {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def chain(task: QuestionSet, learn: int, ask: int, steps: int, folder: Path) -> None:
    """Print a Markdown table with one row per step. Write the output of the commands to `output.txt` in the folder."""
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"folder not empty: {folder} (expected a new folder)")
    asked = write_inputs(task, learn, ask, folder)
    print("| step | seconds |\n| --- | --- |")
    began = perf_counter()
    make_models(task, steps, folder)
    print(f"| making the models | {perf_counter() - began:.1f} |", flush=True)
    for name, arguments in commands(asked[0].text):
        began = perf_counter()
        done = mergewise(arguments, folder)
        with (folder / "output.txt").open("a", encoding="utf-8") as log:
            log.write(f"{name}\n{done}\n")
        print(f"| {name} | {perf_counter() - began:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="2wiki")
    parser.add_argument("--learn", type=int, default=40)
    parser.add_argument("--ask", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--dir", type=Path, required=True, help="New folder for all files")
    given = parser.parse_args()
    chain(load_question_set(bench_folder() / given.set), given.learn, given.ask, given.steps, given.dir)


if __name__ == "__main__":
    main()
