"""What agents import: propose a side effect, wait for its outcome.

from actionledger import Intent, Ledger, Money

async with Ledger("http://127.0.0.1:8788", api_key) as ledger:
    result = await ledger.propose(
        Intent(
            operation="charge",
            business_event="renewal-2026-08-28-01",
            target="order:A-1842",
            money=Money(minor=4_990, currency="USD"),
            environment="production",
        )
    )
print(result.text_for_model)
"""

from actionledger.client import Ledger
from actionledger.derived import derived_event
from actionledger.errors import (
    ActionRaised,
    CallerMistake,
    LedgerTrouble,
    LedgerUnavailable,
    NotAllowed,
    OutcomeNotRecorded,
    Trouble,
    Unauthorized,
    UnexpectedAnswer,
    UnknownAction,
    UnstableKey,
)
from actionledger.exchange import Retries
from actionledger.performing import (
    Call,
    Effect,
    EffectNotSent,
    EffectRefused,
    EffectUnknown,
)
from actionledger.portal import Portal
from actionledger.results import (
    FINAL,
    ApprovalExpired,
    AwaitingApproval,
    Blocked,
    Cancelled,
    Conflict,
    Denied,
    Difference,
    Expired,
    Failed,
    NeedsReview,
    Pending,
    Result,
    Succeeded,
    Superseded,
    Unknown,
)
from actionledger.runs import Budget, RunUsage
from actionledger.sagas import Plan, PlannedAction, PlannedStep, SagaResult, SagaStep
from actionledger.wire import Intent, Money

__all__ = [
    "FINAL",
    "ActionRaised",
    "ApprovalExpired",
    "AwaitingApproval",
    "Blocked",
    "Budget",
    "Call",
    "CallerMistake",
    "Cancelled",
    "Conflict",
    "Denied",
    "Difference",
    "Effect",
    "EffectNotSent",
    "EffectRefused",
    "EffectUnknown",
    "Expired",
    "Failed",
    "Intent",
    "Ledger",
    "LedgerTrouble",
    "LedgerUnavailable",
    "Money",
    "NeedsReview",
    "NotAllowed",
    "OutcomeNotRecorded",
    "Pending",
    "Plan",
    "PlannedAction",
    "PlannedStep",
    "Portal",
    "Result",
    "Retries",
    "RunUsage",
    "SagaResult",
    "SagaStep",
    "Succeeded",
    "Superseded",
    "Trouble",
    "Unauthorized",
    "UnexpectedAnswer",
    "Unknown",
    "UnknownAction",
    "UnstableKey",
    "derived_event",
]
