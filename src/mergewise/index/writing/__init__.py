"""Writing of view rows by a chat model: segments, windows, prompts, answers and costs."""
