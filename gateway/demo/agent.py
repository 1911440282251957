"""An agent of the demonstration: asks for one effect through the SDK, and says what it was told.

    python -m gateway.demo.agent    one JSON line on stdin, one JSON line on stdout for each answer

A process of its own, because it is killed. Must never know more than any agent would: an address, a
key and what it wants. Its first answer comes at once; with `patience_ms` it then waits for the end.
"""

import asyncio
import json
import sys
from typing import Any

from actionledger import CallerMistake, Intent, Ledger, Result


async def ask(given: dict[str, Any]) -> None:
    """Propose the intent, and wait for as long as the patience lasts."""
    intent = Intent.model_validate(given["intent"])
    async with Ledger(given["url"], given["api_key"]) as ledger:
        try:
            result = await ledger.propose(intent, wait_ms=0)
        except CallerMistake as refused:
            tell_refusal(refused)
            return
        tell(result)
        if given["patience_ms"]:
            tell(await ledger.wait(result.key, timeout_ms=given["patience_ms"]))


def tell_refusal(refused: CallerMistake) -> None:
    """That nothing was taken at all, and why."""
    told = {
        "result": "Refused",
        "code": refused.code,
        "text": refused.text_for_model,
        "problems": [{"path": one.path, "message": one.message} for one in refused.problems],
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def tell(result: Result) -> None:
    """One line for whoever started us."""
    told = {
        "result": type(result).__name__,
        "key": result.key,
        "replayed": result.replayed,
        "text": result.text_for_model,
        "differences": [
            {"path": one.path, "message": one.message} for one in getattr(result, "differences", ())
        ],
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(ask(json.loads(sys.stdin.readline())))
