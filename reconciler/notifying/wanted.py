"""That people are wanted for an action, and whom to tell.

Guarantees that whom follows from the document of people and the operator's file alone, never from
what an agent wrote. Without I/O; called by the desk that keeps what is to be told.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from ledger.core.ids import ActionKey, MalformedId
from ledger.core.money import Money
from ledger.core.people import People
from ledger.log.attention_record import AttentionRaised
from reconciler.notifying.destinations import Destinations


@dataclass(frozen=True, slots=True)
class Wanted:
    """One notice: which action waits, for whom, until when. `target` was chosen by an agent, and so
    was the last part of `action`; times are milliseconds.
    """

    notice: str
    action: str
    version: int
    tenant: str
    kind: str
    row: str
    groups: tuple[str, ...]
    raised_at: int
    quorum: int | None = None
    expires_at: int | None = None
    money: Money | None = None
    target: str | None = None

    @classmethod
    def of(cls, raised: AttentionRaised) -> Self | None:
        """What a record of `attention` says of people, or None where it wants nobody."""
        people = raised.people
        if people is None:
            return None
        try:
            tenant = ActionKey.parse(raised.action).tenant
        except MalformedId:
            return None
        return cls(
            notice=f"{raised.ledger_partition}/{raised.ledger_offset}/{raised.ordinal}",
            action=raised.action,
            version=raised.version,
            tenant=tenant,
            kind=raised.kind.value,
            row=raised.code,
            groups=people.groups,
            raised_at=raised.decided_at,
            quorum=people.quorum,
            expires_at=people.expires_at,
            money=people.money,
            target=people.target,
        )

    @property
    def operation(self) -> str:
        """The operation and its version, from the key."""
        key = ActionKey.parse(self.action)
        return f"{key.operation} v{key.version}"


def concerned(wanted: Wanted, people: People, known: Destinations) -> Iterator[str]:
    """The ids of whoever is told: webhooks that want to hear of it, and people who may decide."""
    for webhook in known.webhooks:
        if webhook.wants(wanted.tenant, wanted.groups):
            yield webhook.id
    for mail in known.mails:
        person = people.person(mail.person)
        if person is None or not person.may_decide_for(wanted.tenant):
            continue
        if person.is_in_one_of(wanted.groups):
            yield mail.id
