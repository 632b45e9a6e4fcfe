"""What all prompts that show documents have in common: how texts are quoted, and how a model's JSON is read."""
