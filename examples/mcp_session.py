"""Three calls of an agent: two questions of one session, which shows nothing twice, and an exact search."""

import asyncio
import sys

from mcp import Client, StdioServerParameters

CALLS = [
    ("context", {"question": "Where was the designer of the Red Mill born?", "budget": 100}),
    ("context", {"question": "When is the Red Mill open?", "budget": 90}),
    ("grep", {"pattern": "drain|sluice"}),
]


async def main(index: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "mergewise", "mcp", "--index", index])
    async with Client(server) as client:
        for tool, arguments in CALLS:
            result = await client.call_tool(tool, arguments)
            print(result.content[0].text)


asyncio.run(main(sys.argv[1]))
