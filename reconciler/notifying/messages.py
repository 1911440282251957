"""What people are told: in words for a mail, in JSON for a webhook.

Guarantees that amounts, times and groups stand there as they were recorded, and that what an agent
chose is quoted, on one line, with everything invisible spelled out and nothing that could become a
link. There is a link to look at it and nothing that decides: no button, no token, nothing to
answer. Pure; called by the notifier.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from ledger.core.excerpt import excerpt
from ledger.core.money import format_money
from ledger.log.attention_record import AttentionKind
from reconciler.notifying.limits import SHOWN_MAX
from reconciler.notifying.wanted import Wanted

TYPE: Final = "approval.waiting"
TRIAL: Final = "notify.trial"
"""The type of a message that nobody is wanted for: an operator tries a destination out."""

_TARGET_CHARS_MAX: Final = 120

# What programs that show mail turn into a link: two slashes, or a dot before what may be the name
# of a top-level domain.
_LINKING: Final = re.compile(r"//|\.(?=[A-Za-z]{2})")


@dataclass(frozen=True, slots=True)
class Message:
    """What goes to one destination, under an id that stays the same at every try. `sent_at` is when
    it is tried, in milliseconds. Without `wanted` it is a trial.
    """

    id: str
    wanted: tuple[Wanted, ...]
    sent_at: int

    @property
    def shown(self) -> tuple[Wanted, ...]:
        """The actions that it names, oldest first."""
        return self.wanted[:SHOWN_MAX]

    @property
    def more(self) -> int:
        """How many it does not name."""
        return len(self.wanted) - len(self.shown)


@dataclass(frozen=True, slots=True)
class Pages:
    """Where people look and decide: `origin` is scheme and host of the console."""

    origin: str

    def one(self, action: str) -> str:
        """The page on which one action is decided."""
        return f"{self.origin}/console/approve/{quote(action, safe=':~')}"

    def case(self, action: str) -> str:
        """The page on which the case of an action is settled."""
        return f"{self.origin}/console/review/{quote(action, safe=':~')}"

    def of(self, wanted: Wanted) -> str:
        """The page on which people do what they are wanted for."""
        page = self.case if wanted.kind == AttentionKind.NEEDS_REVIEW else self.one
        return page(wanted.action)

    @property
    def all(self) -> str:
        """The page of everything that waits."""
        return f"{self.origin}/console/waiting"


def subject(message: Message) -> str:
    """The subject of a mail. Nothing in it was chosen by an agent."""
    if not message.wanted:
        return "A trial: nothing waits"
    if len(message.wanted) == 1:
        return f"An action waits for your decision: {message.wanted[0].operation}"
    return f"{len(message.wanted)} actions wait for a decision"


def text(message: Message, pages: Pages) -> str:
    """The body of a mail, in plain words."""
    return "\n".join(_lines(message, pages)) + "\n"


def _lines(message: Message, pages: Pages) -> Iterator[str]:
    if not message.wanted:
        yield "This is a trial. Whoever reads it will be told when an action waits for them."
        yield f"What waits: {pages.all}"
        return
    several = len(message.wanted) > 1
    yield "These actions wait for a person:" if several else "An action waits for a person:"
    for one in message.shown:
        yield ""
        yield from _about(one)
        yield f"  look at it  {pages.of(one)}"
    if message.more:
        yield ""
        yield f"and {message.more} more."
    yield ""
    yield f"Everything that waits: {pages.all}"
    yield ""
    yield "Nothing is decided by answering, or by opening a link."


def _about(one: Wanted) -> Iterator[str]:
    yield f"  operation   {one.operation}, for the tenant {one.tenant}"
    if one.money is not None:
        yield f"  amount      {format_money(one.money)}"
    if one.target is not None:
        yield f"  target      {_quoted(one.target)}, as the agent wrote it"
    yield f"  key         {_quoted(one.action)}"
    yield f"  asked       {_asked(one)}"
    if one.expires_at is not None:
        yield f"  until       {_time(one.expires_at)}"


def _asked(one: Wanted) -> str:
    whom = f"of {', '.join(one.groups)}" if one.groups else "who may decide for the tenant"
    if one.kind == "approval_escalated":
        return f"people {whom}, because nobody decided in time"
    if one.kind == AttentionKind.NEEDS_REVIEW:
        return f"a person {whom}, to settle its case: {one.row}"
    many = "1 person" if one.quorum in {None, 1} else f"{one.quorum} people"
    return f"{many} {whom}, by the row {one.row}"


def _quoted(chosen: str) -> str:
    """A text that an agent chose, on one line, where nothing in it can pass for ours, and of which
    no program makes a link: the only ones in a mail lead to the pages.
    """
    quoted = json.dumps(excerpt(chosen, chars_max=_TARGET_CHARS_MAX), ensure_ascii=True)
    return _LINKING.sub(lambda found: f"[{found[0]}]", quoted)


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def payload(message: Message, pages: Pages) -> bytes:
    """The body of a webhook: Standard Webhooks' type, timestamp and data."""
    body = {
        "type": TYPE if message.wanted else TRIAL,
        "timestamp": datetime.fromtimestamp(message.sent_at / 1_000, UTC).isoformat(),
        "data": {
            "waiting": _waiting(message.shown, pages),
            "more": message.more,
            "page": pages.all,
        },
    }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=True).encode()


def _waiting(shown: Sequence[Wanted], pages: Pages) -> list[Mapping[str, object]]:
    return [
        {
            "notice": one.notice,
            "kind": one.kind,
            "action": one.action,
            "operation": one.operation,
            "tenant": one.tenant,
            "amount": None
            if one.money is None
            else {"minor": one.money.minor, "currency": one.money.currency},
            "target": None if one.target is None else excerpt(one.target),
            "row": one.row,
            "groups": list(one.groups),
            "quorum": one.quorum,
            "expires_at": one.expires_at,
            "link": pages.of(one),
        }
        for one in shown
    ]
