"""The refunds that several chapters are about: 120 EUR, which the default policy has a person
confirm.
"""

from typing import Any, Final

from gateway.demo.scene import Scene

AMOUNT: Final = 12_000


def refund(event: str, *, minor: int = AMOUNT, **changed: object) -> dict[str, Any]:
    """What an agent asks for."""
    return {
        "operation": "refund",
        "business_event": event,
        "target": "order:A-1842",
        "params": {"charge": "ch_1", "reason": "requested_by_customer"},
        "money": {"minor": minor, "currency": "EUR"},
        "environment": "production",
        **changed,
    }


def key_of(scene: Scene, event: str) -> str:
    """The key of such a refund."""
    return scene.key("refund", event)
