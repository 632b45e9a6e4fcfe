"""What a chat model writes about documents, for the rows of any view: segments, windows, prompts, answers, costs."""
