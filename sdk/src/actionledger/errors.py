"""What can go wrong between an agent and the ledger. An outcome of an action is never here.

    LedgerTrouble           message, hint, text_for_model
    ├── LedgerUnavailable   not reached, or not confirmed in time: the same call again is safe
    │   └── OutcomeNotRecorded  the function ran and the ledger could not be told; reference
    ├── ActionRaised        the function of an action raised what it does not declare; result
    ├── Unauthorized        the API key is missing, unknown or withdrawn
    ├── UnexpectedAnswer    what answered is not a ledger of this version; status
    └── CallerMistake       the request is refused as it is; code, status, problems
        ├── NotAllowed      this key may not ask for this
        └── UnknownAction   no action of this tenant has this key

Catch by class and read the attributes; the words may change. The names state what is the case, as
the results do, which is why they do not end in `Error`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actionledger.results import Result


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong with a request: where (JSON Pointer), which rule, in words."""

    path: str
    code: str
    message: str


class LedgerTrouble(Exception):
    """Anything of this tree. `hint` says what to do about it."""

    _text = "The action ledger could not be used."

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """Another process is told the same: a pool of workers ends at what it cannot read."""
        return _again, (type(self), self.args), self.__dict__

    @property
    def text_for_model(self) -> str:
        """What a model may be told: what is known, what may be done, what must not."""
        return f"{self._text} {self.hint}"


def _again(kind: type[LedgerTrouble], args: tuple[Any, ...]) -> LedgerTrouble:
    """A trouble as it was raised, without asking for its parts anew; its state follows."""
    return kind.__new__(kind, *args)


class LedgerUnavailable(LedgerTrouble):
    """The ledger was not reached or did not confirm in time; what was asked may be recorded.

    The same call again is safe, because the key follows from what was asked for.
    """

    _text = (
        "The action ledger did not answer in time. It is not known whether the request was "
        "recorded, so do not say that it succeeded or failed, and do not try another way."
    )


class OutcomeNotRecorded(LedgerUnavailable):
    """The function of an action ran, and the ledger did not confirm what it said of it.

    `reference` is the provider's name for the effect where the function saw one. The ledger finds
    out by itself; the same call again is safe.
    """

    _text = (
        "The action was begun and what came of it could not be recorded yet. Do not say that it "
        "failed, and do not try it another way; it is being found out."
    )

    def __init__(self, key: str, reference: str | None) -> None:
        seen = "an effect" if reference is not None else "no answer for certain"
        super().__init__(
            f"The function of {key} ran and saw {seen}; the ledger did not confirm it.",
            hint="Make the same call again later: it answers how the action stands.",
        )
        self.key = key
        self.reference = reference


class ActionRaised(LedgerTrouble):
    """The function of an action raised something else than the outcomes it may raise.

    It was begun, so it may have had its effect: the ledger was told so first. `result` is how the
    action stands, the exception itself is the cause.
    """

    def __init__(self, result: "Result", raised: Exception) -> None:
        super().__init__(
            f"The function of {result.key} raised {type(raised).__name__} after it was started.",
            hint="Look at the cause. The action counts as unknown until it is found out.",
        )
        self.result = result

    @property
    def text_for_model(self) -> str:
        """What a model may be told: what the result says."""
        return self.result.text_for_model


class Unauthorized(LedgerTrouble):
    """The API key is missing, unknown or withdrawn. Nothing was recorded."""

    _text = "The action ledger does not accept this program's API key. Nothing was recorded."


class UnexpectedAnswer(LedgerTrouble):
    """Something answered that is not a ledger of this version. `status` is its HTTP status."""

    _text = (
        "The answer of the action ledger was not understood. It is not known whether the request "
        "was recorded, so do not say that it succeeded or failed, and do not try another way."
    )

    def __init__(self, message: str, *, hint: str, status: int) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class CallerMistake(LedgerTrouble):
    """The request is refused as it is, and nothing was started. `code` is stable.

    `problems` names what is wrong; `key` is the action that the refusal speaks of, if there is one.
    """

    _text = "The action ledger refused the request. Nothing was started."

    def __init__(
        self,
        message: str,
        *,
        hint: str,
        code: str,
        status: int,
        problems: tuple[Trouble, ...] = (),
        key: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.status = status
        self.problems = problems
        self.key = key

    @property
    def text_for_model(self) -> str:
        """As of any trouble; but nobody hears that nothing was started where it was before."""
        told = _STARTED_BEFORE.get(self.code)
        if told is None:
            return super().text_for_model
        return f"The action ledger refused the request: {told} {self.hint}"

    def __str__(self) -> str:
        named = "".join(f" [{item.path}: {item.message}]" for item in self.problems)
        return f"{self.message}{named} {self.hint}"


_STARTED_BEFORE = {
    "attempt_open": (
        "the action was started before, and may have had its effect. It is not taken back. Do not "
        "say that it succeeded or failed, and do not try it another way."
    ),
    "already_final": (
        "the action has come to its end before, and may have had its effect. Nothing of it is "
        "taken back. Do not say what came of it before you have asked how it stands."
    ),
    "in_review": (
        "a person settles the action, and it may have had its effect. Do not say that it "
        "succeeded or failed, and do not try it another way."
    ),
    "other_version": (
        "the same was asked for before under another version, and may have had its effect. Do not "
        "ask for it another way."
    ),
}
"""What is refused because of an action that is there, by the code of the refusal."""


class NotAllowed(CallerMistake):
    """This API key, or this principal, may not ask for this."""

    _text = (
        "The action ledger does not allow this to be asked for. Nothing was started. Do not look "
        "for another way to have the same effect."
    )


class UnstableKey(CallerMistake):
    """The business event, item or occurrence holds what changes with every try, or stands where a
    value was missing. `problems` has the piece. Nothing was recorded.
    """

    _text = (
        "The action ledger refused the request: the program gives it a name that changes with "
        "every try, or that lacks a value. Nothing was started. The program has to be corrected; "
        "asking again, or in other words, does not help."
    )


class UnknownAction(CallerMistake):
    """No action of this tenant has this key, or not yet."""

    _text = "The action ledger knows no action under this key."
