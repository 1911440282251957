"""How an action stands, as a closed union: what an agent gets from every call.

Each result is frozen and says in `text_for_model` what happened, what may be done next and what
must not. A text holds only names that look like names: whatever a provider or a person wrote stays
in the fields, so that it cannot speak to the model.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import JsonValue

_NAME: Final = re.compile(r"[A-Za-z0-9._:/#~-]{1,200}")
_PAGE: Final = re.compile(r"https?://[A-Za-z0-9._:/%~-]{1,800}")


def _named(value: str | None, otherwise: str) -> str:
    """A value that looks like a name, or other words in its place."""
    return value if value is not None and is_named(value) else otherwise


def is_named(text: str) -> bool:
    """Whether a text looks like a name, so that it may stand in words for a model."""
    return _NAME.fullmatch(text) is not None


def _because(code: str | None) -> str:
    return f" ({code})" if code is not None and _NAME.fullmatch(code) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What every result says: which action, how far its history, and whether it was there before.

    `replayed` is True when the ledger knew the action before this request, also when the client
    itself had to ask twice. `by_caller`: the program that asked carries it out itself, so that it
    goes on when the same is performed again, and not by itself.
    """

    key: str
    version: int = 0
    replayed: bool = False
    by_caller: bool = False

    def _goes_on(self, when: str) -> str:
        """How it goes on after what it waits for."""
        if self.by_caller:
            return f"{when} exactly the same call has to be made again, and it begins then"
        return f"{when} it goes on by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded(_Result):
    """The effect exists, once. `proof` says how it is known: report, webhook, lookup, or person:
    somebody who settled it signed so.
    """

    reference: str | None = None
    result: Mapping[str, JsonValue] | None = None
    proof: str | None = None

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        when = "had already been done before this request" if self.replayed else "was done"
        return (
            f"The action {self.key} {when}, once; the provider calls it "
            f"{_named(self.reference, 'by the name in the result')}. You may report it as done. "
            "Do not ask for it again in any form."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(_Result):
    """There is definitely no effect, and none will follow. `code` is the provider's or ours."""

    code: str | None = None

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        return (
            f"The action {self.key} failed{_because(self.code)}: it had no effect and will have "
            "none. The same request under this key gets this answer for ever. You may say that it "
            "failed and ask the user what to do. Do not repeat it in a loop; what is really "
            "another request belongs to a business event of its own."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(_Result):
    """The effect may or may not exist. At `next_check_at` the ledger asks the provider again."""

    attempts: int | None = None
    next_check_at: int | None = None

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        return (
            f"It is not known whether the action {self.key} took effect: the provider's answer was "
            "lost. The ledger is finding out. You may look again later under the same key, or go "
            "on with other work. Do not say that it succeeded or failed, and do not try it "
            "another way, with another key, tool or amount: it could happen twice."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending(_Result):
    """Recorded, and on its way. `status` is the ledger's word for where it stands."""

    status: str

    @property
    def is_callers_turn(self) -> bool:
        """Whether it begins when the same is performed again, and waits for nothing else."""
        return self.by_caller and self.status == "ready"

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        if self.is_callers_turn:
            return (
                f"The action {self.key} is recorded and nothing of it has happened: it begins when "
                "exactly the same call is made again. Make it, or leave it; do not try it another "
                "way."
            )
        return (
            f"The action {self.key} is recorded and has no outcome yet. You may wait for it or "
            "look again under the same key; asking for exactly the same again is harmless. Do not "
            "try it another way meanwhile."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingApproval(_Result):
    """People have to agree first: `quorum` of them, of one of `groups` where any is named, until
    `expires_at` (milliseconds since 1970-01-01T00:00:00Z); `granted` have. They decide at `page`,
    and it goes on by itself.

    `expires_at` and `quorum` are None while it is still found out what people will be shown.
    """

    page: str | None = None
    expires_at: int | None = None
    quorum: int | None = None
    granted: int = 0
    groups: tuple[str, ...] = ()

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        where = f" at {self.page}" if self.page is not None and _PAGE.fullmatch(self.page) else ""
        return (
            f"The action {self.key} waits until people decide about it{where}; nothing has "
            "happened. You may tell the user so, go on with other work, and look again later "
            f"under the same key: {self._goes_on('when they agree')}. You cannot approve it, and "
            "asking again before that does not help. Do not try it another way, with another key, "
            "tool or smaller amounts."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalExpired(_Result):
    """Nobody decided in time. It is not a denial: `Ledger.ask_again` has people asked once more."""

    page: str | None = None
    expired_at: int | None = None

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        return (
            f"Nobody decided about the action {self.key} in time; nothing has happened and it was "
            "not denied. You may have people asked once more, under the same key, where it is "
            "still wanted. Do not try it another way, with another key, tool or smaller amounts."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked(_Result):
    """It waits, and goes on by itself: for another action (`by`), or for the answers of `gates`,
    which count budgets and let one action at a time on a target.

    `reason` says which: `target` (`by` holds it), `gates`, `revised_open` and `original_open` (what
    it revises or undoes may still have its effect), `saga_order` (the step before it), `planned`
    (it begins only where `by` has to be undone).
    """

    reason: str = "target"
    by: str | None = None
    gates: tuple[str, ...] = ()

    @property
    def is_brief(self) -> bool:
        """Whether what it waits for may be there within seconds."""
        return self.reason in {"gates", "target"}

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        other = _named(self.by, "another action")
        gates = ", ".join(_named(one, "a gate") for one in self.gates) or "the gates it has to pass"
        waits = _WAITS.get(self.reason, _WAITS["target"]).format(other=other, gates=gates)
        return (
            f"The action {self.key} waits: {waits}. Nothing of it has happened, and "
            f"{self._goes_on('after that')}. You may go on with other work and look again later "
            "under the same key. Do not try it another way, with another key, tool, target or "
            "amount."
        )


_WAITS: Final[Mapping[str, str]] = {
    "target": "{other} is under way on the same target and is settled first",
    "gates": "{gates} did not answer yet",
    "revised_open": "{other}, which it revises, may still have its effect and is settled first",
    "original_open": "{other}, which it undoes, may still have its effect and is settled first",
    "saga_order": "{other} comes before it in its saga and is settled first",
    "planned": "it is only for the case that {other} has to be undone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsReview(_Result):
    """A person has to settle it, by what they sign; then it has an outcome as any other, or goes
    on. `reason` says why; the effect may exist. `names` is what it is about where that is not the
    action itself: the ceiling that it would pass (`ceiling_reached`), the action that it looks like
    (`suspected_duplicate`).
    """

    reason: str | None = None
    names: str | None = None

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        held_back = _HELD_BACK.get(self.reason or "")
        if held_back is not None:
            why = held_back.format(_named(self.names, "that is named in the result"))
            after = self._goes_on("where a person lets it")
            return (
                f"The action {self.key} {why}. Nothing of it has happened, and a person decides "
                f"what becomes of it. {_OF_HELD_BACK.format(after)}"
            )
        return (
            f"The action {self.key} needs a person{_because(self.reason)}. It may or may not have "
            "had its effect, and a person settles which. Tell the user that it is being looked "
            "at, and look again later under the same key: the outcome comes by itself. You cannot "
            "settle it. Do not say that it succeeded or failed, and do not try it another way."
        )


_HELD_BACK: Final[Mapping[str, str]] = {
    "ceiling_reached": "would pass the ceiling {} and is held back",
    "suspected_duplicate": (
        "looks like {}, which was asked for before under another key, and is held back: "
        "if the same is meant, the outcome of that one is the answer"
    ),
    "gate_full": "is held back, because too many wait for the same budget or target",
}
_OF_HELD_BACK: Final = (
    "Tell the user so, and look again later under the same key: {}. You cannot let it pass. A new "
    "key is the wrong move, and so are smaller parts of it, another run, target or tool."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied(_Result):
    """Policy or a person said no. Nothing happened. `by` is policy or person; `comment` is what the
    person said about it, for people to read.
    """

    by: str = "person"
    person: str | None = None
    comment: str | None = None

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        who = "The policy" if self.by == "policy" else "A person"
        return (
            f"{who} denied the action {self.key}; nothing has happened and nothing will. "
            "Respect it: do not ask for the same thing in another form."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(_Result):
    """It was taken back before anything began."""

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        return (
            f"The action {self.key} was cancelled before anything began; nothing has happened and "
            "nothing will under this key. Do not ask for it again unless a person wants it after "
            "all; that would be a business event of its own."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(_Result):
    """Its own deadline passed before anything began."""

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        return (
            f"The deadline of the action {self.key} passed before anything began; nothing has "
            "happened and nothing will under this key. You may tell the user that it came too late."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded(_Result):
    """A revised action took its place before it had any effect."""

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        return (
            f"The action {self.key} was replaced by a revised one and had no effect. Look at the "
            "revised one; do not ask for this one again."
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which the new request differs from the one its key stands for."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict(_Result):
    """The key already stands for another request; nothing was started.

    `original_status` is how the original action stands, where it is known at once.
    """

    differences: tuple[Difference, ...] = ()
    original_status: str | None = None
    original_reference: str | None = None

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        paths = [_named(item.path, "a field") for item in self.differences] or ["the request"]
        return (
            f"The key {self.key} already stands for another request; it differs in "
            f"{', '.join(paths)}. Nothing was started. Look at the original action first. A new "
            "key is the wrong move if the same thing is meant: it would happen twice. If a changed "
            "request is really wanted, ask a person."
        )


Result: TypeAlias = (
    Succeeded
    | Failed
    | Unknown
    | Pending
    | AwaitingApproval
    | ApprovalExpired
    | Blocked
    | NeedsReview
    | Denied
    | Cancelled
    | Expired
    | Superseded
    | Conflict
)
"""Every way in which an action can stand."""

FINAL: Final = (Succeeded, Failed, Denied, Cancelled, Expired, Superseded)
"""The results that never change again; use it with `isinstance`."""
