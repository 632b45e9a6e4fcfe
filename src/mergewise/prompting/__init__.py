"""Shared parts of all prompts that show documents: quoting of texts, and reading of a model's JSON."""
