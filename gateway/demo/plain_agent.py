"""The other agent of the demonstration: calls the provider itself, and again when no answer comes.

    python -m gateway.demo.plain_agent    one JSON line on stdin, one JSON line on stdout

This is how a retry is usually written. Nothing in it is exaggerated: one error, one more try.
"""

import json
import sys
from typing import Any, Final

import httpx

TRIES_MAX: Final = 3
TIMEOUT_S: Final = 10.0


def charge(given: dict[str, Any]) -> dict[str, Any]:
    """Ask until there is an answer; how often it took, and what the answer was."""
    with httpx.Client(base_url=given["url"], timeout=TIMEOUT_S, trust_env=False) as provider:
        for attempt in range(1, TRIES_MAX + 1):
            try:
                answer = provider.post(
                    "/v1/effects/charge",
                    headers={"Authorization": f"Bearer {given['api_key']}"},
                    json=given["charge"],
                )
            except httpx.TransportError:
                continue
            return {"tries": attempt, "effect": answer.json()["effect"]["id"]}
    return {"tries": TRIES_MAX, "effect": None}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(charge(json.loads(sys.stdin.readline()))) + "\n")
