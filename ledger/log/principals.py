"""The components by the names under which they log in at the broker.

Apart from what they may do (`ledger.log.authority`), because settings are read before any client of
Kafka is loaded.
"""

from enum import StrEnum


class Principal(StrEnum):
    """Every component by the name that its installation's prefix stands before."""

    PROCESSOR = "processor"
    EXECUTOR = "executor"
    INQUIRER = "inquirer"
    RECONCILER = "reconciler"
    PROJECTOR = "projector"
    GATEWAY_INTENTS = "gateway-intents"
    GATEWAY_APPROVALS = "gateway-approvals"
    GATEWAY_WEBHOOKS = "gateway-webhooks"
    OPERATOR = "operator"
    AUDITOR = "auditor"


def usual_names(prefix: str) -> dict[Principal, str]:
    """Under which name each component logs in unless it is said otherwise."""
    return {principal: prefix + principal for principal in Principal}
