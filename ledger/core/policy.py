"""The decision table: who may let an action go ahead, read from TOML; the first row that matches
decides.

Rows are tried from the top. A row *matches* when all its conditions hold, and *might match* when
none fails but a fact is missing for one or more. The one rule:

    The ruling is the strictest of the first row that matches, every row above it that might match,
    and, as soon as one might match, the default: one person.

So no missing fact can make an outcome laxer, and where one is missing nothing goes ahead by itself:
an unknown currency never becomes automatic. Stricter is first the outcome (automatic, confirmation,
people, deny), then the larger quorum, then named groups before anybody; between equals the row that
matches comes first, then those that might, from the top. Where no row matches, the default rules.

Must never depend on anything but its text and its arguments. Called by `decide`, by executors and
by whoever explains a ruling.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from ledger.core.ceilings import Ceiling
from ledger.core.conditions import Check, Condition, conditions
from ledger.core.limits import (
    APPROVAL_VALID_MS_MAX,
    APPROVAL_VALID_MS_MIN,
    CATALOGUE_OPERATIONS_MAX,
    CEILINGS_MAX,
    GROUPS_MAX,
    POLICY_BYTES_MAX,
    POLICY_ROWS_MAX,
    QUORUM_MAX,
)
from ledger.core.mistakes import Document, Found, Mistake, complaints, read_toml
from ledger.core.operation import Component, Operation
from ledger.core.policy_contradictions import (
    DECLARATION_ROW,
    DEFAULT_ROW,
    PRINCIPALS_ROW,
    contradictions,
    contradictions_of_ceiling,
)
from ledger.core.policy_when import CarriedOut, When
from ledger.core.request import RecordedRequest
from ledger.core.wire import Milliseconds, Text, Wire

__all__ = [
    "AUTOMATIC",
    "AUTOMATIC_POLICY",
    "AUTOMATIC_POLICY_HASH",
    "BEFORE_THE_TABLE",
    "Asks",
    "Ceiling",
    "Gates",
    "Mistake",
    "Outcome",
    "Policy",
    "Row",
    "Ruling",
    "When",
    "adopted_policy",
    "barred",
    "parse_policy",
    "policy_hash",
]

_HASH_DOMAIN: Final = "actionledger.policy.v1\n"
_NOT_DECLARED: Final = "declaration"
"""What is missing of an operation that nobody declared, whatever a row asks."""
_TABLES: Final = "row"
_REVIEW: Final = "review"
_CEILINGS: Final = "ceiling"
APPROVAL_VALID_MS_DEFAULT: Final = 600_000

Quorum = Annotated[int, Field(ge=1, le=QUORUM_MAX)]
Groups = Annotated[tuple[Component, ...], Field(strict=False, max_length=GROUPS_MAX)]
Valid = Annotated[int, Field(ge=APPROVAL_VALID_MS_MIN, le=APPROVAL_VALID_MS_MAX)]


class Outcome(StrEnum):
    """What becomes of an action, from the laxest to the strictest."""

    AUTOMATIC = "automatic"
    CONFIRMATION = "confirmation"
    PEOPLE = "people"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """0 for the laxest. The texts themselves have no order."""
        return _STRICTNESS[self]

    @property
    def asks_people(self) -> bool:
        """Whether an action waits for somebody's signature."""
        return self is Outcome.CONFIRMATION or self is Outcome.PEOPLE


_STRICTNESS: Final = {outcome: place for place, outcome in enumerate(Outcome)}


class Asks(Wire):
    """Whose signatures an action waits for: `quorum` people of the groups, of anybody who is
    registered for the tenant where none is named. After `escalate_after_ms` the groups of
    `escalate_to` may decide as well.
    """

    quorum: Annotated[int, Field(ge=1)] = 1
    groups: tuple[Text, ...] = ()
    valid_ms: Milliseconds = APPROVAL_VALID_MS_DEFAULT
    escalate_after_ms: Milliseconds | None = None
    escalate_to: tuple[Text, ...] = ()


class Gates(Wire):
    """What a row of the decision table has an action pass: ceilings by their names, and the gate of
    its target.
    """

    ceilings: Annotated[tuple[Text, ...], Field(max_length=CEILINGS_MAX)] = ()
    target: bool = False


class Row(Wire):
    """One row: when it matches, what becomes of the action, and in a sentence why. `ceilings` names
    those that it has the action pass; `block_target` lets one action at a time on its target.
    """

    name: Component
    when: When = When()
    outcome: Annotated[Outcome, Field(strict=False)]
    quorum: Quorum | None = None
    groups: Groups = ()
    valid_ms: Valid | None = None
    escalate_after_ms: Valid | None = None
    escalate_to: Groups = ()
    ceilings: Annotated[tuple[Component, ...], Field(strict=False, max_length=CEILINGS_MAX)] = ()
    block_target: bool = False
    reason: Annotated[Text, Field(min_length=1)]

    @property
    def gates(self) -> Gates | None:
        """What the row has an action pass; None where that is nothing."""
        if not self.ceilings and not self.block_target:
            return None
        return Gates(ceilings=self.ceilings, target=self.block_target)

    @property
    def asks(self) -> Asks | None:
        """Whose signatures the row wants; None where it asks nobody."""
        if not self.outcome.asks_people:
            return None
        return Asks(
            quorum=self.quorum or 1,
            groups=self.groups,
            valid_ms=self.valid_ms or APPROVAL_VALID_MS_DEFAULT,
            escalate_after_ms=self.escalate_after_ms,
            escalate_to=self.escalate_to,
        )


class Review(Wire):
    """Who settles what needs a person: people of these groups."""

    groups: Annotated[Groups, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a table says about an action: by which row, and which facts were missing when it is a
    stricter one than they might have led to. `asks` is None iff nobody is asked. `gates`: what it
    has the action pass.
    """

    row: str
    outcome: Outcome
    asks: Asks | None
    missing: tuple[str, ...] = ()
    gates: Gates | None = None

    @property
    def strictness(self) -> tuple[int, int, int]:
        """Outcome, quorum, whether groups are named: a larger tuple is stricter."""
        asks = self.asks
        if asks is None:
            return (self.outcome.strictness, 0, 0)
        return (self.outcome.strictness, asks.quorum, 1 if asks.groups else 0)


DEFAULT: Final = Ruling(DEFAULT_ROW, Outcome.PEOPLE, Asks())
NOT_ALLOWED: Final = Ruling(PRINCIPALS_ROW, Outcome.DENY, None)
"""Whoever asked may not ask for such an action any more."""
NOT_FITTING: Final = Ruling(DECLARATION_ROW, Outcome.DENY, None)
"""What was asked for would be refused now: it does not fit what its operation declares."""
BEFORE_THE_TABLE: Final[Mapping[str, str]] = {
    NOT_ALLOWED.row: "By the catalogue, whoever asked for it may not ask for it any more.",
    NOT_FITTING.row: "By the catalogue, its request does not fit its operation any more.",
}
"""Why an action is denied by the catalogue, before any table is asked: by what decisions have in
the place of a row.
"""


def barred(operation: Operation, request: RecordedRequest) -> Ruling | None:
    """What the catalogue says of an action before any table is asked: the ruling that denies it, or
    None where it lets the principal ask for exactly this.
    """
    if not operation.allows(request.principal):
        return NOT_ALLOWED
    return NOT_FITTING if operation.check(request) else None


_Bound = tuple[Ruling, tuple[str, ...], tuple[Check, ...]]
"""A row as far as it can be answered for one operation: its ruling, the facts that the operation
lacks, and what is left to ask of a request.
"""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rows of one policy text, in its order, and the hash of that text. `review_groups` settle
    what needs a person; anybody who is registered for the tenant where none is named.
    """

    rows: tuple[Row, ...]
    content_hash: str
    review_groups: tuple[str, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    _compiled: tuple[tuple[Ruling, tuple[Condition, ...]], ...] = field(
        init=False, repr=False, compare=False
    )
    _by_name: dict[str, Ceiling] = field(init=False, repr=False, compare=False)
    # By identity, beside the operation itself, so that an identity is never taken for another's.
    _bound: dict[int, tuple[Operation | None, tuple[_Bound, ...]]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        compiled = tuple(
            (Ruling(row.name, row.outcome, row.asks, gates=row.gates), conditions(row.when))
            for row in self.rows
        )
        object.__setattr__(self, "_compiled", compiled)
        object.__setattr__(self, "_by_name", {one.name: one for one in self.ceilings})

    def rule(
        self,
        operation: Operation | None,
        request: RecordedRequest,
        tenant: str,
        revises: str | None = None,
        performer: Literal["caller"] | None = None,
    ) -> Ruling:
        """What the table says. An operation of None is one that nobody declared: it is missing
        itself, with every fact that the catalogue would have told. What revises another action
        never goes ahead by itself, whatever the row says. `performer` is set where no executor but
        the caller itself carries it out.
        """
        ruling = self._rule(operation, request, tenant, performer or "executor")
        return ruling if revises is None else _reviewable(ruling)

    def _rule(
        self,
        operation: Operation | None,
        request: RecordedRequest,
        tenant: str,
        performer: CarriedOut,
    ) -> Ruling:
        kept = self._bound.get(id(operation))
        if kept is None or kept[0] is not operation:
            kept = self._bind(operation)
        possible: list[Ruling] = []
        missing = [] if operation is not None else [_NOT_DECLARED]
        for ruling, gaps, checks in kept[1]:
            unanswered: list[str] = []
            for check in checks:
                answer = check(request, tenant, performer)
                if answer is False:
                    break
                if answer is not True:
                    unanswered.append(answer)
            else:
                if gaps or unanswered:
                    possible.append(ruling)
                    missing += (*gaps, *unanswered)
                elif missing:
                    return _strictest((ruling, *possible, DEFAULT), missing)
                else:
                    return ruling
        return _strictest((*possible, DEFAULT), missing) if missing else DEFAULT

    def ceiling(self, name: str) -> Ceiling | None:
        """The ceiling of a name, or None."""
        return self._by_name.get(name)

    def row(self, name: str) -> Row | None:
        """The row of a name, or None: for `default` too."""
        return next((row for row in self.rows if row.name == name), None)

    def _bind(self, operation: Operation | None) -> tuple[Operation | None, tuple[_Bound, ...]]:
        if len(self._bound) >= CATALOGUE_OPERATIONS_MAX:
            self._bound.clear()
        kept = (operation, tuple(self._rows_for(operation)))
        self._bound[id(operation)] = kept
        return kept

    def _rows_for(self, operation: Operation | None) -> Iterator[_Bound]:
        """The rows that can match at all for an operation, up to one that always does."""
        for ruling, asked in self._compiled:
            gaps: list[str] = []
            checks: list[Check] = []
            for condition in asked:
                answer = condition.bind(operation)
                if answer is False:
                    break
                if callable(answer):
                    checks.append(answer)
                elif answer is not True:
                    gaps.append(answer)
            else:
                yield ruling, tuple(gaps), tuple(checks)
                if not gaps and not checks:
                    return


def _reviewable(ruling: Ruling) -> Ruling:
    """The ruling, and at the least one person's confirmation."""
    if ruling.outcome is not Outcome.AUTOMATIC:
        return ruling
    return replace(ruling, outcome=Outcome.CONFIRMATION, asks=Asks())


def _strictest(candidates: tuple[Ruling, ...], missing: list[str]) -> Ruling:
    one = max(candidates, key=lambda candidate: candidate.strictness)
    gates = _all_of(tuple(each.gates for each in candidates if each.gates is not None))
    return Ruling(one.row, one.outcome, one.asks, tuple(dict.fromkeys(missing)), gates)


def _all_of(gates: tuple[Gates, ...]) -> Gates | None:
    """What every one of several rows would have an action pass: none of them is left out."""
    if not gates:
        return None
    names = tuple(dict.fromkeys(name for one in gates for name in one.ceilings))
    return Gates(ceilings=names[:CEILINGS_MAX], target=any(one.target for one in gates))


def policy_hash(text: str) -> str:
    """`sha256:` and the hex digest of the domain and the policy's text, comments included."""
    return f"sha256:{hashlib.sha256((_HASH_DOMAIN + text).encode()).hexdigest()}"


AUTOMATIC_POLICY: Final = "automatic"
AUTOMATIC_POLICY_HASH: Final = policy_hash("automatic: every declared operation")

AUTOMATIC: Final = Policy(
    (
        Row(
            name=AUTOMATIC_POLICY,
            outcome=Outcome.AUTOMATIC,
            reason="No policy has been adopted yet: every declared operation goes ahead by itself.",
        ),
    ),
    AUTOMATIC_POLICY_HASH,
)
"""What holds before the first policy is adopted, for trials and tests."""


def parse_policy(text: str) -> Policy | tuple[Mistake, ...]:
    """The table of a TOML text, or its mistakes in the order of their lines, at most
    MISTAKES_MAX.
    """
    return _policy(text, is_adopted=False)


def adopted_policy(text: str) -> Policy | tuple[Mistake, ...]:
    """The table of a text that a partition has adopted. What is well-formed is not judged again: a
    rule that came later, or a time zone that is gone, would end every reader of the log.
    """
    return _policy(text, is_adopted=True)


def _policy(text: str, *, is_adopted: bool) -> Policy | tuple[Mistake, ...]:
    document = read_toml(text, "policy", bytes_max=POLICY_BYTES_MAX)
    if not isinstance(document, Document):
        return document
    rows, found = _rows(document.content)
    groups, more = _review(document.content.get(_REVIEW))
    ceilings, others = _ceilings(document.content.get(_CEILINGS))
    if not is_adopted:
        are_all_there = not others
        found += _contradictions(rows, groups, ceilings, are_all_there=are_all_there)
    if found or more or others:
        return document.mistakes([*found, *more, *others])
    kept = tuple(ceiling for _, ceiling in ceilings)
    return Policy(tuple(row for _, row in rows), policy_hash(text), groups, kept)


_Rows = list[tuple[int, Row]]
"""Rows that could be read, with the numbers of their tables."""
_Ceilings = list[tuple[int, Ceiling]]
"""The same of ceilings."""


def _contradictions(
    rows: _Rows, groups: tuple[str, ...], ceilings: _Ceilings, *, are_all_there: bool
) -> Iterator[Found]:
    """What is well-formed and cannot be meant. Which ceilings are declared is known only where
    `are_all_there`.
    """
    for index, path, said in contradictions(rows):
        yield (_TABLES, index, *path), said
    for place, name in enumerate(groups):
        if name in groups[:place]:
            yield (_REVIEW, "groups", place), f"names {name} twice"
    declared = [ceiling for _, ceiling in ceilings]
    is_sound = are_all_there
    for place, (index, ceiling) in enumerate(ceilings):
        for path, said in contradictions_of_ceiling(ceiling, declared[:place]):
            is_sound = False
            yield (_CEILINGS, index, *path), said
    names = {ceiling.name for ceiling in declared}
    for index, row in rows:
        for name in row.ceilings:
            if is_sound and name not in names:
                yield (
                    (_TABLES, index, "ceilings"),
                    f"names {name}, which no [[{_CEILINGS}]] declares",
                )


def _ceilings(tables: object) -> tuple[_Ceilings, list[Found]]:
    if tables is None:
        tables = []
    if not isinstance(tables, list):
        return [], [((_CEILINGS,), f"must be tables: write [[{_CEILINGS}]] for each")]
    if len(tables) > CEILINGS_MAX:
        return [], [((_CEILINGS,), f"has more than {CEILINGS_MAX} entries")]
    found: list[Found] = []
    ceilings: _Ceilings = []
    for index, table in enumerate(tables):
        try:
            ceilings.append((index, Ceiling.model_validate(table)))
        except ValidationError as refused:
            found += complaints(refused, Ceiling, at=(_CEILINGS, index))
    return ceilings, found


def _review(table: object) -> tuple[tuple[str, ...], list[Found]]:
    if table is None:
        return (), []
    try:
        review = Review.model_validate(table)
    except ValidationError as refused:
        return (), list(complaints(refused, Review, at=(_REVIEW,)))
    return review.groups, []


def _rows(document: dict[str, Any]) -> tuple[_Rows, list[Found]]:
    found: list[Found] = [
        ((name,), f"is not a known key here; write [[{_TABLES}]] for each row")
        for name in document
        if name not in {_TABLES, _REVIEW, _CEILINGS}
    ]
    tables = document.get(_TABLES)
    if not isinstance(tables, list) or not tables:
        return [], [*found, ((_TABLES,), f"must be given: one [[{_TABLES}]] or more")]
    if len(tables) > POLICY_ROWS_MAX:
        return [], [*found, ((_TABLES,), f"has more than {POLICY_ROWS_MAX} entries")]
    rows: _Rows = []
    for index, table in enumerate(tables):
        try:
            rows.append((index, Row.model_validate(table)))
        except ValidationError as refused:
            found += complaints(refused, Row, at=(_TABLES, index))
    return rows, found
