"""mergewise inside other frameworks, one module and one extra each: `langchain`, `llama_index`, `haystack`."""
