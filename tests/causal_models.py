"""Tiny random causal models with a tokenizer, for tests that have torch and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEXTS = [
    "Larry Alcala studied at the University of the Philippines.",
    "Military instruction at the University of the Philippines began in 1912. It began early.",
    "Rice.",
    "",
    "A recipe for rice with beans, garlic and lime, for four people, and a word on the pot that it is made in.",
]
SIZES: dict[str, Any] = {
    "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.5,
}  # fmt: skip
KINDS = ("gpt2", "llama", "qwen3", "mistral")
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def tokenizer() -> Any:
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=400, special_tokens=["[UNK]"], initial_alphabet=alphabet)
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")


def network(kind: str, words: Any, seed: int = 7) -> Any:
    """Make a random network. `mistral` has a window of 16 tokens."""
    import torch
    import transformers

    torch.manual_seed(seed)
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=len(words), n_layer=2, n_embd=32, n_head=4, n_positions=256, initializer_range=0.5
        )
        return transformers.GPT2LMHeadModel(config)
    if kind == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=len(words), **SIZES))
    if kind == "qwen3":
        return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(vocab_size=len(words), head_dim=8, **SIZES))
    sliding = transformers.MistralConfig(vocab_size=len(words), sliding_window=16, **SIZES)
    return transformers.MistralForCausalLM(sliding)


def chatty() -> Any:
    """Return the tokenizer with a chat template and its special tokens."""
    words = tokenizer()
    words.add_special_tokens({"additional_special_tokens": ["<|start|>"], "eos_token": "<|end|>"})
    words.chat_template = TEMPLATE
    return words


def saved(folder: Path, seed: int = 7, **settings: Any) -> Path:
    """Save a Llama model and its tokenizer as a hub would. `settings` go into its configuration."""
    words = chatty()
    made = network("llama", words, seed)
    made.generation_config.eos_token_id = words.eos_token_id
    for name, value in settings.items():
        setattr(made.config, name, value)
    made.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
