"""A start that people agreed to, and every way in which somebody could have changed it: what an
executor must find out before a byte leaves, whoever wrote the ledger record.
"""

from dataclasses import dataclass, field

from ledger.core.facts import AttemptStarted, IntentRecorded, StartApproval
from ledger.core.policy import AUTOMATIC, Policy
from ledger.core.preview import Foreseen, Preview, Undone, preview_hash
from ledger.core.statement import Say
from ledger.log.published import Published
from streams.authorization import Grounds, unallowed
from tests.approving import VALID_MS, people, policy, policy_text, signed_by, statement
from tests.examples import CATALOGUE_TEXT, CHARGE, T0, TICKET, catalogue, recorded, started

GENERATION = "generation-1"
TABLE = policy_text("quorum = 2", 'groups = ["finance"]', 'escalate_to = ["operations"]')
TABLE = TABLE.replace("escalate_to", "escalate_after_ms = 60_000\nescalate_to")
DECLARED = catalogue(
    CATALOGUE_TEXT.replace('name = "ticket"', 'name = "ticket"\ncompensation = "charge"')
)
"""The catalogue of the examples, where a charge undoes a ticket."""


@dataclass
class World:
    """A start that everything speaks for, and what a test changes about it."""

    table: str = TABLE
    who: tuple[str, ...] = ("ann", "bob")
    start_changes: dict[str, object] = field(default_factory=dict)
    approval_changes: dict[str, object] = field(default_factory=dict)
    said_changes: dict[str, object] = field(default_factory=dict)
    intent_changes: dict[str, object] = field(default_factory=dict)
    published: Published = field(default_factory=Published)
    key: str = CHARGE
    generation: str = GENERATION
    undoes: Undone | None = None

    def __post_init__(self) -> None:
        self.published.take_catalogue(DECLARED, 0)
        self.published.policy = policy(self.table)
        self.know(self.published.policy)
        self.published.people = people()

    def know(self, table: Policy) -> None:
        """A table was published."""
        self.published.policies[table.content_hash] = table

    @property
    def intent(self) -> IntentRecorded:
        """What was asked for."""
        undone = None if self.undoes is None else self.undoes.action
        return recorded(self.key).model_copy(update={"compensates": undone} | self.intent_changes)

    @property
    def start(self) -> AttemptStarted:
        """The start as the ledger has it, or as somebody wrote it."""
        intent = recorded(self.key)
        shown = Preview(
            request_hash=intent.request_hash,
            provider=intent.provider,
            account=intent.account,
            money=intent.request.money,
            foreseen=Foreseen(observed={"balance": 10_000}),
            undoes=self.undoes,
        )
        approval = StartApproval(
            nonce="0123456789abcdef",
            policy_hash=policy(TABLE).content_hash,
            row="charges",
            preview_hash=preview_hash(shown),
            quorum=2,
            groups=("finance",),
            expires_at=T0 + VALID_MS,
            preview=shown,
            signed=(),
        )
        signed = tuple(
            signed_by(
                name,
                statement(name, intent, approval, ledger=self.generation, issued_at=T0),
                **self.said_changes,
            )
            for name in self.who
        )
        approval = approval.model_copy(update={"signed": signed, **self.approval_changes})
        original = None if self.undoes is None else self.undoes.reference
        as_decided: dict[str, object] = {"approval": approval, "original_reference": original}
        return started(key=self.key).model_copy(update=as_decided | self.start_changes)

    def refused(self, start: AttemptStarted | None = None) -> str | None:
        """Why it is not acted on."""
        grounds = Grounds(self.published, self.generation)
        code = unallowed(start or self.start, self.intent, grounds)
        return None if code is None else code.value


OTHER_SHOWN = Preview(
    request_hash=recorded(CHARGE).request_hash,
    provider="simulated",
    account="main",
    foreseen=Foreseen(observed={"balance": 1}),
)
FORGED_START: tuple[tuple[str, dict[str, object]], ...] = (
    ("malformed_key", {"action": "no key"}),
    ("provider_key_differs", {"action": "charge:v1:acme:another"}),
    ("provider_key_differs", {"provider_key": "a key of somebody's own"}),
    ("other_action", dict.fromkeys(("action", "provider_key"), "charge:v1:acme:another")),
    ("key_mismatch", {"action": TICKET}),
    ("account_differs", {"account": "other"}),
    ("account_differs", {"provider": "other"}),
    ("original_differs", {"original_reference": "ch_of_somebody_else"}),
    ("times_differ", {"connect_ms": 60_000}),
    ("times_differ", {"response_ms": 60_000}),
    ("times_differ", {"lease_until": T0 + 86_400_000}),
    ("times_differ", {"lease_until": T0}),
    ("times_differ", {"deadline_at": T0 + 86_400_000}),
    ("times_differ", {"key_expires_at": None}),
    ("times_differ", {"key_expires_at": T0 + 400 * 86_400_000}),
)


FORGED_APPROVAL: tuple[tuple[str, dict[str, object]], ...] = (
    ("nonce_dead", {"nonce": "f" * 16}),
    ("policy_unknown", {"policy_hash": "sha256:00"}),
    ("other_policy", {"policy_hash": AUTOMATIC.content_hash}),
    ("other_policy", {"row": "small"}),
    ("preview_differs", {"preview_hash": "sha256:00"}),
    ("preview_differs", {"preview": OTHER_SHOWN}),
    ("preview_differs", {"preview": OTHER_SHOWN.model_copy(update={"request_hash": "sha256:1"})}),
    ("other_preview", {"preview": OTHER_SHOWN, "preview_hash": preview_hash(OTHER_SHOWN)}),
    ("preview_missing", {"preview": None}),
    ("preview_missing", {"is_open": True}),
    ("more_people_asked", {"quorum": 1}),
    ("other_groups_asked", {"groups": ()}),
    ("other_groups_asked", {"groups": ("everybody",)}),
    ("not_in_group", {"groups": ("operations",)}),
    ("approval_outlives_statement", {"expires_at": T0 + VALID_MS + 1}),
    ("quorum_not_met", {"signed": ()}),
    ("quorum_not_met", {"quorum": 3}),
)


SAID: tuple[tuple[str, dict[str, object]], ...] = (
    ("not_an_approval", {"decision": Say.DENY}),
    ("not_an_approval", {"decision": Say.WITHDRAW}),
    ("other_ledger", {"ledger": "generation-2"}),
    ("other_action", {"key": "charge:v1:acme:another"}),
    ("other_tenant", {"tenant": "other"}),
    ("other_environment", {"environment": "test"}),
    ("other_request", {"request_hash": "sha256:00"}),
    ("nonce_dead", {"nonce": "f" * 16}),
    ("other_policy", {"policy_hash": "sha256:00"}),
    ("other_policy", {"row": "small"}),
    ("other_preview", {"preview_hash": "sha256:00"}),
    ("other_preview", {"preview_hash": None}),
    ("approval_outlives_statement", {"expires_at": T0 + VALID_MS - 1}),
    ("other_person", {"approver": "cem"}),
)
