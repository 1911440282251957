"""What the simulated provider is told to do wrong: personalities of accounts, scripts and mixes.

Guarantees that chance comes from the seed, the action and how often it was asked for, never from
arrival order: the same seed plays the same faults however requests interleave. Must never touch the
book or the network; it only says what the server is to do. Called by the server.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeVar, assert_never

from pydantic import Field

from ledger.core.wire import Text, Wire

DELAY_MS_MAX: Final = 600_000
SCRIPTS_MAX: Final = 10_000
DAY_MS: Final = 86_400_000

Delay = Annotated[int, Field(ge=0, le=DELAY_MS_MAX)]
Share = Annotated[int, Field(ge=0, le=1000)]


class Personality(Wire):
    """How an account's provider behaves when nothing is scripted; the defaults are the good one."""

    keys: Literal["honoured", "ignored", "unsupported"] = "honoured"
    key_window_ms: Annotated[int, Field(ge=0)] = DAY_MS
    key_memory: Literal["durable", "lost_on_restart"] = "durable"
    server_errors: Literal["remembered", "forgotten"] = "forgotten"
    refusals: Literal["remembered", "forgotten"] = "forgotten"
    references: Literal["free", "unique"] = "free"
    search: Literal["offered", "unavailable", "none"] = "offered"
    search_lag_ms: Delay = 0
    settlement: Literal["at_once", "pending_first"] = "at_once"


# --- faults ------------------------------------------------------------------------------------


class Delivery(StrEnum):
    """How the answer to a committed request leaves."""

    WHOLE = "whole"
    DROPPED = "dropped"
    HALF = "half"
    GARBAGE = "garbage"
    OVERSIZED = "oversized"
    SERVER_ERROR = "server_error"


class Instead(StrEnum):
    """What comes in place of a commit."""

    DROP = "drop"
    REFUSE = "refuse"
    FAIL = "fail"
    LIMIT = "limit"
    IN_PROGRESS = "in_progress"
    REDIRECT = "redirect"


@dataclass(frozen=True, slots=True)
class Course:
    """What happens to one request, in order: wait, commit or something instead, wait, answer."""

    before_ms: int = 0
    instead: Instead | None = None
    code: str = ""
    retry_after_s: int = 0
    after_ms: int = 0
    delivery: Delivery = Delivery.WHOLE


class Plain(Wire):
    """A fault without parameters."""

    kind: Literal[
        "commit_then_drop",
        "commit_then_half_answer",
        "commit_then_garbage",
        "commit_then_oversized",
        "fail_after_commit",
        "fail_before_commit",
        "drop_before_commit",
        "in_progress",
        "redirect",
    ]


class Slow(Wire):
    """Wait before and after the commit, then answer whoever is still there."""

    kind: Literal["slow"]
    before_ms: Delay = 0
    after_ms: Delay = 0


class CommitLate(Wire):
    """Keep the request without an answer, and commit it `late_ms` after it came, whoever waits."""

    kind: Literal["commit_late"]
    late_ms: Delay


class Refuse(Wire):
    """Answer 402 with a code, and make no effect."""

    kind: Literal["refuse"]
    code: Text = "card_declined"


class Limit(Wire):
    """Answer 429 with Retry-After, and make no effect."""

    kind: Literal["limit"]
    retry_after_s: Annotated[int, Field(ge=0, le=86_400)] = 1


Fault = Annotated[Plain | Slow | CommitLate | Refuse | Limit, Field(discriminator="kind")]

_PLAIN: Final[dict[str, Course]] = {
    "commit_then_drop": Course(delivery=Delivery.DROPPED),
    "commit_then_half_answer": Course(delivery=Delivery.HALF),
    "commit_then_garbage": Course(delivery=Delivery.GARBAGE),
    "commit_then_oversized": Course(delivery=Delivery.OVERSIZED),
    "fail_after_commit": Course(delivery=Delivery.SERVER_ERROR),
    "fail_before_commit": Course(instead=Instead.FAIL),
    "drop_before_commit": Course(instead=Instead.DROP),
    "in_progress": Course(instead=Instead.IN_PROGRESS),
    "redirect": Course(instead=Instead.REDIRECT),
}
NORMAL: Final = Course()


def course_of(fault: Fault | None) -> Course:
    """The course that a fault sets."""
    match fault:
        case None:
            return NORMAL
        case Plain(kind=kind):
            return _PLAIN[kind]
        case Slow(before_ms=before_ms, after_ms=after_ms):
            return Course(before_ms=before_ms, after_ms=after_ms)
        case CommitLate(late_ms=late_ms):
            return Course(before_ms=late_ms, delivery=Delivery.DROPPED)
        case Refuse(code=code):
            return Course(instead=Instead.REFUSE, code=code)
        case Limit(retry_after_s=retry_after_s):
            return Course(instead=Instead.LIMIT, retry_after_s=retry_after_s)
        case _:
            assert_never(fault)


class WebhookStep(Wire):
    """One thing that happens to the webhooks of a request; a list of steps happens in order.

    `normal` tells the truth once; `late` after `delay_ms`; `twice` with the same event id; `early`
    before the answer; `out_of_order` settles before it is pending; `forged` has a bad signature;
    `wrong_amount` is signed well and tells another amount; `lost` stands in the list of events and
    is never sent. An empty list is no event at all.
    """

    kind: Literal[
        "normal", "late", "twice", "early", "out_of_order", "forged", "wrong_amount", "lost"
    ]
    delay_ms: Delay = 0


WebhookPlan = Annotated[tuple[WebhookStep, ...], Field(strict=False, max_length=8)]
NORMAL_WEBHOOKS: Final = (WebhookStep(kind="normal"),)


# --- choosing ----------------------------------------------------------------------------------


class Match(Wire):
    """Which requests a script is for; what is left out matches everything."""

    action_key: Text | None = None
    operation: Text | None = None
    account: Text | None = None

    def fits(self, asked: "Asked") -> bool:
        """True if every named field is the request's."""
        return (
            self.action_key in {None, asked.action_key}
            and self.operation in {None, asked.operation}
            and self.account in {None, asked.account}
        )


class Script(Wire):
    """A fault and a webhook plan for the next `times` requests that match."""

    match: Match = Match()
    times: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    fault: Fault | None = None
    webhooks: WebhookPlan | None = None


class FaultShare(Wire):
    """A fault that befalls `per_thousand` of the requests."""

    per_thousand: Share
    fault: Fault


class WebhooksShare(Wire):
    """A webhook plan for `per_thousand` of the requests."""

    per_thousand: Share
    webhooks: WebhookPlan


class Mix(Wire):
    """Shares of everything that no script speaks for; what they leave is normal."""

    faults: Annotated[tuple[FaultShare, ...], Field(strict=False, max_length=32)] = ()
    webhooks: Annotated[tuple[WebhooksShare, ...], Field(strict=False, max_length=32)] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a request decides its fault."""

    account: str
    operation: str
    action_key: str | None


class Faults:
    """Scripts still to be played, and the mix for everything else."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._queue: list[_Pending] = []
        self._mix = Mix()
        self._asked: Counter[Asked] = Counter()

    def add(self, scripts: Sequence[Script]) -> None:
        """Queue scripts behind those there are; raises ValueError when there are too many."""
        if len(self._queue) + len(scripts) > SCRIPTS_MAX:
            raise ValueError(f"more than {SCRIPTS_MAX} scripts are waiting; reset first")
        self._queue.extend(_Pending(script, script.times) for script in scripts)

    def mix(self, mix: Mix) -> None:
        """Replace the mix."""
        self._mix = mix

    def clear(self) -> None:
        """Forget scripts, mix and counts."""
        self._queue.clear()
        self._mix = Mix()
        self._asked.clear()

    def next(self, asked: Asked) -> tuple[Course, tuple[WebhookStep, ...]]:
        """What is to happen to this request; the first script that fits is used up by one."""
        nth = self._asked[asked]
        self._asked[asked] += 1
        for pending in self._queue:
            if pending.script.match.fits(asked):
                pending.left -= 1
                if pending.left == 0:
                    self._queue.remove(pending)
                plan = pending.script.webhooks
                return course_of(pending.script.fault), NORMAL_WEBHOOKS if plan is None else plan
        chance = random.Random(f"{self._seed}|{asked}|{nth}")  # noqa: S311 - repeatable on purpose
        fault = _drawn([(share.per_thousand, share.fault) for share in self._mix.faults], chance)
        mixed = _drawn(
            [(share.per_thousand, share.webhooks) for share in self._mix.webhooks], chance
        )
        return course_of(fault), NORMAL_WEBHOOKS if mixed is None else mixed


@dataclass(slots=True)
class _Pending:
    script: Script
    left: int


_Choice = TypeVar("_Choice")


def _drawn(shares: Sequence[tuple[int, _Choice]], chance: random.Random) -> _Choice | None:
    """The choice whose share of a thousand was hit; None for what the shares leave."""
    point = chance.randrange(1000)
    for per_thousand, choice in shares:
        if point < per_thousand:
            return choice
        point -= per_thousand
    return None
