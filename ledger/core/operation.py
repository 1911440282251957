"""An operation as it is declared: what a request for it must look like, who may ask, and what its
provider can be trusted with.

Immutable and free of behaviour beyond checking. Read by `decide`, the doors, executors and the
inquirer; made by `parse_catalogue`.
"""

import unicodedata
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from ledger.core.excerpt import excerpt
from ledger.core.ids import MalformedId, ProviderKeyRule, check_component, check_operation
from ledger.core.limits import (
    ATTEMPTS_MAX,
    CHOICES_MAX,
    DIFFERENCES_MAX,
    DURATION_MS_MAX,
    INTEGER_MAX,
    LOOKUPS_MAX,
    OPERATION_VERSION_MAX,
    PARAMETERS_MAX,
)
from ledger.core.money import Currency, Money
from ledger.core.parameters import Parameter, Problem, ProblemCode, token_problems
from ledger.core.request import RecordedRequest
from ledger.core.wire import Text, Wire

Reliability = Literal["keyed", "reference", "lookup", "none"]
"""What the provider offers against a lost answer: an idempotency key, a unique reference, a lookup,
or nothing.
"""

Performer = Literal["executor", "caller", "either"]
"""Who may carry an operation out: an executor of the product, the caller that asks for it, or
whichever of them the first proposal says.
"""

Level = Literal["none", "low", "medium", "high"]

Kind = Literal["read", "message", "money", "delete", "permission", "deploy", "other"]
"""What sort of effect an operation has; a policy that asks for it takes the strictest row where an
operation does not say.
"""

UndoneTarget = Literal["same", "any"]
"""What may undo an operation acts on: the target of what it undoes, or whatever it names."""

PreviewSource = Literal["request", "provider"]
"""Where a dry run comes from: drawn from the request alone, or completed by what the provider
foresees.
"""

Duration = Annotated[int, Field(ge=0, le=DURATION_MS_MAX)]
PositiveDuration = Annotated[int, Field(ge=1, le=DURATION_MS_MAX)]

LOOKUPS_DEFAULT: Final = (30_000, 120_000, 600_000, 3_600_000, 21_600_000)
"""30 s, 2 min, 10 min, 1 h, 6 h after the outcome became unknown."""

KEY_MARGIN_MS_DEFAULT: Final = 600_000

PRINCIPALS_REMEMBERED: Final = 1_024

PEOPLE_MS_DEFAULT: Final = 259_200_000
"""Three days: a weekend with a day before it."""


def _identifier(check: Callable[[str, str], str]) -> AfterValidator:
    """A validator whose refusal reads on from the path: `is refused: it is empty; …`."""

    def validate(text: str) -> str:
        try:
            return check(text, "it")
        except MalformedId as malformed:
            raise ValueError(f"is refused: {malformed}") from None

    return AfterValidator(validate)


def _target_prefix(text: str, field: str) -> str:
    if not text.endswith(":"):
        raise MalformedId(field, "does not end with a colon", "write it as in order:")
    check_component(text[:-1], field)
    return text


OperationName = Annotated[str, _identifier(check_operation)]
Component = Annotated[str, _identifier(check_component)]
Names = Annotated[tuple[Text, ...], Field(strict=False, max_length=CHOICES_MAX)]
Tolerance = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
Multiple = Annotated[int, Field(ge=2, le=INTEGER_MAX)]


class Target(Wire):
    """What the operation acts on, named in the request as `order:A-1842`."""

    description: Text
    required: bool = True
    prefix: Annotated[str, _identifier(_target_prefix)] | None = None


class Risk(Wire):
    """The facts that a policy decides by."""

    irreversibility: Level
    blast_radius: Level
    ambiguity: Level
    money_impact: Level
    security_impact: Level


class Deadlines(Wire):
    """How long a connection, an answer, and the whole step with waits and retries may take.

    `people_ms`: how long an action may wait for people before its step begins.
    """

    connect_ms: PositiveDuration
    response_ms: PositiveDuration
    step_ms: PositiveDuration
    people_ms: PositiveDuration = PEOPLE_MS_DEFAULT


class Retries(Wire):
    """How often and how far apart an action may be tried."""

    attempts_max: Annotated[int, Field(ge=1, le=ATTEMPTS_MAX)]
    backoff_base_ms: PositiveDuration = 1_000
    backoff_max_ms: PositiveDuration = 60_000


def _retries_of(declared: dict[str, Any]) -> Retries:
    trusted = declared.get("reliability") in {"keyed", "reference"}
    return Retries(attempts_max=5 if trusted else 1)


def _lookups_of(declared: dict[str, Any]) -> tuple[int, ...]:
    return () if declared.get("reliability") == "none" else LOOKUPS_DEFAULT


class Operation(Wire):
    """One version of an operation.

    `kind`: what sort of effect it has. `target_parameters`: parameters that name further things it
    acts on. `preview`: who says what would happen. `volatile`: facts that the provider observes,
    by the names that its adapter has for them, which are read again just before acting.
    `tolerances`: how far a volatile whole number may move meanwhile.
    `key_window_ms`: how long the provider remembers a key; less `key_margin_ms`, how long we use
    it. `settle_horizon_ms`: how long after its last byte a call can still take effect.
    `search_lag_ms`: how far the provider's lookup runs behind its book. `lookups`: delays after
    which an unknown outcome is looked up. `look_alike_window_ms`: how long an equal request is
    suspected to be a duplicate, and until the first is settled; 0 is off. `performer`: who may
    carry it out.
    `environments`: which environments a request may name, as its account is for these.
    `allows_zero`: whether nought is an amount, as where a card is only checked; what moves money
    refuses it otherwise.
    `amount_multiple_of`: by currency, of how many minor units every amount has to be a multiple.
    `caller_attests_no_effect`: whether a caller's own word that nothing happened is proof of it.
    `compensation`: the operation that may undo it; `compensation_target`: on what that may act.
    """

    name: OperationName
    version: Annotated[int, Field(ge=1, le=OPERATION_VERSION_MAX)]
    description: Text | None = None
    kind: Kind | None = None
    provider: Component
    account: Component
    reliability: Reliability
    target: Target | None = None
    money: Literal["required", "forbidden", "optional"]
    allows_zero: bool = False
    amount_multiple_of: Annotated[dict[Currency, Multiple], Field(max_length=CHOICES_MAX)] = Field(
        default_factory=dict
    )
    parameters: Annotated[dict[Component, Parameter], Field(max_length=PARAMETERS_MAX)] = Field(
        default_factory=dict
    )
    preview: PreviewSource = "request"
    target_parameters: Names = ()
    volatile: Names = ()
    tolerances: Annotated[dict[Text, Tolerance], Field(max_length=CHOICES_MAX)] = Field(
        default_factory=dict
    )
    personal: Names = ()
    principals: Annotated[
        tuple[Text, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)
    ]
    environments: Annotated[
        tuple[Text, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)
    ] = ("*",)
    risk: Risk
    deadlines: Deadlines
    retries: Retries = Field(default_factory=_retries_of)
    key_window_ms: PositiveDuration | None = None
    key_margin_ms: Duration = KEY_MARGIN_MS_DEFAULT
    settle_horizon_ms: Duration = 0
    search_lag_ms: Duration = 0
    lookups: Annotated[
        tuple[PositiveDuration, ...], Field(strict=False, max_length=LOOKUPS_MAX)
    ] = Field(default_factory=_lookups_of)
    second_attempt_after_absence: bool = False
    look_alike_window_ms: Duration = 0
    compensation: OperationName | None = None
    compensation_target: UndoneTarget = "same"
    provider_key: ProviderKeyRule = ProviderKeyRule()
    performer: Performer = "executor"
    caller_attests_no_effect: bool = False

    def allows(self, principal: str) -> bool:
        """Whether a principal may ask for this operation at all; policy comes after."""
        return _matches(principal, self.principals)

    @property
    def read_again(self) -> tuple[str, ...]:
        """The names of the facts that are read again before it acts on what people agreed to."""
        return self.volatile if self.preview == "provider" else ()

    @property
    def moves_money(self) -> bool:
        """Whether it is about money, and not only about something that may have a price."""
        return self.money == "required" or (self.kind == "money" and self.money == "optional")

    def check(self, request: RecordedRequest) -> tuple[Problem, ...]:
        """Everything in which a request falls outside the declaration, at most DIFFERENCES_MAX;
        empty if nothing.
        """
        return tuple(islice(self._problems(request), DIFFERENCES_MAX))

    def _problems(self, request: RecordedRequest) -> Iterator[Problem]:
        if not _matches(request.environment, self.environments):
            yield Problem(
                "/environment",
                ProblemCode.ENVIRONMENT_NOT_ALLOWED,
                f"/environment must be {' or '.join(self.environments)}: {self.name} "
                f"v{self.version} acts at the account {self.account}",
            )
        yield from self._target_problems(request.target)
        yield from self._money_problems(request.money)
        for name, parameter in self.parameters.items():
            path = ("params", name)
            if name in request.params:
                value = request.params[name]
                # A token is an object, and may be anywhere in what has parts.
                if isinstance(value, dict | list) and name not in self.personal:
                    yield from token_problems(value, path)
                yield from parameter.problems(value, path)
            elif parameter.required:
                yield Problem(
                    f"/params/{name}",
                    ProblemCode.PARAMETER_MISSING,
                    f"/params/{name} must be given",
                )
        for name in sorted(request.params.keys() - self.parameters.keys()):
            shown = excerpt(name, chars_max=60)
            yield Problem(
                f"/params/{shown}",
                ProblemCode.PARAMETER_UNKNOWN,
                f"{self.name} v{self.version} has no parameter {shown}",
            )

    def _money_problems(self, money: Money | None) -> Iterator[Problem]:
        if money is None:
            if self.money == "required":
                yield Problem("/money", ProblemCode.MONEY_MISSING, "/money must be given")
            return
        if self.money == "forbidden":
            yield Problem(
                "/money", ProblemCode.MONEY_NOT_ALLOWED, f"{self.name} takes no money; leave it out"
            )
        elif money.minor == 0 and self.moves_money and not self.allows_zero:
            yield Problem(
                "/money/minor",
                ProblemCode.AMOUNT_ZERO,
                f"/money/minor is 0, and {self.name} moves no money for it; send the amount "
                "that is meant",
            )
        multiple = self.amount_multiple_of.get(money.currency, 1)
        if money.minor % multiple:
            yield Problem(
                "/money/minor",
                ProblemCode.AMOUNT_NOT_A_MULTIPLE,
                f"/money/minor is {money.minor}, and {self.name} takes {money.currency} in "
                f"multiples of {multiple}; nothing is rounded, so send the amount that is meant",
            )

    def _target_problems(self, target: str | None) -> Iterator[Problem]:
        declared = self.target
        if target is None:
            if declared is not None and declared.required:
                yield Problem("/target", ProblemCode.TARGET_MISSING, "/target must be given")
        elif declared is None:
            yield Problem(
                "/target",
                ProblemCode.TARGET_NOT_ALLOWED,
                f"{self.name} acts on no target; leave it out",
            )
        elif declared.prefix is not None and not _has_prefix(target, declared.prefix):
            yield Problem(
                "/target",
                ProblemCode.TARGET_PREFIX,
                f"/target must be {declared.prefix} and what it names",
            )


@lru_cache(maxsize=PRINCIPALS_REMEMBERED)
def _matches(principal: str, patterns: tuple[str, ...]) -> bool:
    # A principal is in normal form, as every identifier; what an operator typed may not be.
    normal = (unicodedata.normalize("NFC", pattern) for pattern in patterns)
    return any(fnmatchcase(principal, pattern) for pattern in normal)


def _has_prefix(target: str, prefix: str) -> bool:
    return target.startswith(prefix) and len(target) > len(prefix)
