"""An agent of the demonstration: asks for one effect through the SDK, and says what it was told.

    python -m gateway.demo.agent    one JSON line on stdin, one JSON line on stdout for each answer

A process of its own, because it is killed. Must never know more than any agent would: an address, a
key and what it wants. Its first answer comes at once; with `patience_ms` it then waits for the end.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

from actionledger import CallerMistake, Intent, Ledger, Result

REFUSED: Final = "Refused"
"""What is told where the ledger took nothing at all."""


async def asked(given: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Propose the intent, and wait for as long as the patience lasts; what each answer said."""
    intent = Intent.model_validate(given["intent"])
    async with Ledger(given["url"], given["api_key"]) as ledger:
        try:
            result = await ledger.propose(intent, wait_ms=0)
        except CallerMistake as refused:
            yield _refusal(refused)
            return
        yield _answer(result)
        if given["patience_ms"]:
            yield _answer(await ledger.wait(result.key, timeout_ms=given["patience_ms"]))


async def tell(given: dict[str, Any]) -> None:
    """One line of each answer for whoever started us, as it comes."""
    async for answer in asked(given):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _refusal(refused: CallerMistake) -> dict[str, Any]:
    """That nothing was taken at all, and why."""
    return {
        "result": REFUSED,
        "code": refused.code,
        "text": refused.text_for_model,
        "problems": [{"path": one.path, "message": one.message} for one in refused.problems],
    }


def _answer(result: Result) -> dict[str, Any]:
    return {
        "result": type(result).__name__,
        "key": result.key,
        "replayed": result.replayed,
        "text": result.text_for_model,
        "differences": [
            {"path": one.path, "message": one.message} for one in getattr(result, "differences", ())
        ],
    }


if __name__ == "__main__":
    asyncio.run(tell(json.loads(sys.stdin.readline())))
