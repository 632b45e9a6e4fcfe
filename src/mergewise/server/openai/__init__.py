"""OpenAI's API, as far as its clients need it: `/v1`, and Cohere's `/v2/rerank` beside it.

| module | what |
| --- | --- |
| `markup` | texts of others in Markdown: images that do not load |
| `conversations` | from messages to a question with its history; tasks of a chat program |
| `completions` | from an answer to a message with annotations, whole and in chunks |
| `chat`, `scoring`, `stores`, `files` | the routes |
"""
