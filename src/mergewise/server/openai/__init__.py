"""The parts of OpenAI's API that its clients need: `/v1`, and Cohere's `/v2/rerank`.

| module | contents |
| --- | --- |
| `markup` | escapes images in untrusted Markdown |
| `conversations` | converts messages to a question with its history; tasks of chat programs |
| `completions` | converts an answer to a message with annotations, complete or in chunks |
| `chat`, `responses`, `scoring`, `stores`, `files` | the routes |
"""
