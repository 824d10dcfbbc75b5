"""Call every tool that takes a path with paths that are made to harm, in a process of its own.

    python mcp_hostile_calls.py JOB

JOB is a JSON file: the vault, a scratch folder, the lists of arguments, and where the answers go.
Before each call a mark is set, so that a record of what the process opened tells for which.
"""

import json
import sys
from pathlib import Path
from typing import Any

from mcp import Client, MCPError
from mcp_in_memory import Served, text_of

# What a tool that takes a path is called with.
TOOLS: dict[str, Any] = {
    "read": lambda path: {"note": path},
    "read a section": lambda path: {"note": path + "#Heading"},
    "related": lambda path: {"note": path},
    "inspect": lambda path: {"note": path},
    "search": lambda path: {"query": "needle", "paths": [path]},
    "search by words": lambda path: {"query": f'needle path:"{path}"'},
    "evaluate": lambda path: {
        "questions": json.dumps({"query": "needle", "relevant": [path]}),
        "compare": False,
    },
}
RESOURCE = "resources/read"


def tool_of(name: str) -> str:
    """The tool that a name of the table is a way to call."""
    return name.split(" ", 1)[0]


def answers_to(job: dict[str, Any]) -> dict[str, Any]:
    """The answer to each call, by what it was: `tool path`."""
    served = Served(Path(job["scratch"]), vault=Path(job["vault"]))
    made: dict[str, Any] = {}

    async def use(client: Client) -> None:
        async def call(name: str, path: str) -> None:
            sys.audit("mark", f"{name} {path}")
            try:
                if name == RESOURCE:
                    (content,) = (await client.read_resource(f"vault://note/{path}")).contents
                    made[f"{name} {path}"] = {"text": getattr(content, "text", "")}
                else:
                    result = await client.call_tool(tool_of(name), TOOLS[name](path))
                    made[f"{name} {path}"] = {
                        "failed": bool(result.is_error),
                        **json.loads(text_of(result))["content"],
                    }
            except MCPError as error:
                told = json.loads(error.error.message)["content"]["error"]
                made[f"{name} {path}"] = {"code": error.error.code, "error": told}
            finally:
                sys.audit("mark", "between")

        for name in (*TOOLS, RESOURCE):  # whatever is imported or opened once
            await call(name, "special/real.md")
            await call(name, "nowhere at all")
        for path in (*job["bad_paths"], *job["ok_paths"]):
            for name in (*TOOLS, RESOURCE):
                await call(name, path)

    served.ask(use, job["mode"])
    served.close()
    return made


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    Path(given["result"]).write_text(json.dumps(answers_to(given)), "utf-8")
