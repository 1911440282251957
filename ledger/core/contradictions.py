"""What is well-formed in an operation's declaration and still cannot be: its parts contradict each
other.

Each rule follows from what a reliability class promises: who cannot tell a lost answer from no
effect may not try twice. Called by `parse_catalogue` only.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from ledger.core.limits import TARGETS_MAX
from ledger.core.operation import Operation
from ledger.core.parameters import Parameter
from ledger.core.timing import Timing

Contradiction = tuple[tuple[str | int, ...], str]
"""Path within the operation, and a sentence that names what it contradicts."""

LOOKUP_ATTEMPTS_MAX = 2


def contradictions(operation: Operation) -> Iterator[Contradiction]:
    """Every contradiction in one operation."""
    rules: tuple[Callable[[Operation], Iterator[Contradiction]], ...] = (
        _in_deadlines,
        _in_key,
        _in_finding_out,
        _in_attempts,
        _in_names,
        _in_targets,
        _in_principals,
        _in_performer,
    )
    for rule in rules:
        yield from rule(operation)
    if operation.money == "required" and operation.risk.money_impact == "none":
        yield ("risk", "money_impact"), "cannot be none for an operation that requires money"
    elif operation.kind == "money" and operation.risk.money_impact == "none":
        yield ("risk", "money_impact"), "cannot be none for an operation of the kind money"
    for name, parameter in operation.parameters.items():
        for place, sentence in _in_parameter(parameter):
            yield ("parameters", name, *place), sentence


def contradictions_with_timing(operation: Operation, timing: Timing) -> Iterator[Contradiction]:
    """What one operation promises that the installation's bounds on clocks do not keep.

    The last byte of a call leaves a whole response time after its deadline at the latest, and the
    ledger believes it over when the lease is. A call that begins as the key window closes may take
    effect as late as everything together.
    """
    times = operation.deadlines
    if times.response_ms > timing.lease_margin_ms:
        yield (
            ("deadlines", "response_ms"),
            (
                f"cannot be longer than timing.lease_margin_ms ({timing.lease_margin_ms}): "
                "the last byte of a call must leave before its lease is over"
            ),
        )
    late_ms = times.connect_ms + times.response_ms + operation.settle_horizon_ms
    late_ms += 2 * timing.skew_ms
    if operation.reliability == "keyed" and operation.key_margin_ms < late_ms:
        given = "key_margin_ms" in operation.model_fields_set
        yield (
            ("key_margin_ms" if given else "settle_horizon_ms",),
            (
                f"leaves a key margin of {operation.key_margin_ms} ms: a call that begins as the "
                f"window closes may take effect {late_ms} ms later, when the key is forgotten"
            ),
        )


def _in_deadlines(operation: Operation) -> Iterator[Contradiction]:
    times = operation.deadlines
    if times.connect_ms > times.response_ms:
        yield (
            ("deadlines", "connect_ms"),
            f"cannot be longer than response_ms ({times.response_ms}), which contains it",
        )
    if times.response_ms > times.step_ms:
        yield (
            ("deadlines", "response_ms"),
            f"cannot be longer than step_ms ({times.step_ms}), the whole step",
        )


def _in_key(operation: Operation) -> Iterator[Contradiction]:
    window = operation.key_window_ms
    if operation.reliability != "keyed":
        for name in ("key_window_ms", "key_margin_ms"):
            if name in operation.model_fields_set:
                yield (name,), f"means nothing for the class {operation.reliability}: it has no key"
        return
    if window is None:
        yield ("key_window_ms",), "is missing: how long does the provider remember a key?"
        return
    usable = window - operation.key_margin_ms
    if usable <= operation.deadlines.response_ms:
        place = (
            "key_margin_ms" if "key_margin_ms" in operation.model_fields_set else "key_window_ms"
        )
        yield (
            (place,),
            (
                f"leaves {max(usable, 0)} ms of the window in which a key may be used; "
                f"one call may take {operation.deadlines.response_ms} ms"
            ),
        )


def _in_finding_out(operation: Operation) -> Iterator[Contradiction]:
    if operation.reliability == "none":
        for name in ("lookups", "settle_horizon_ms", "search_lag_ms"):
            if getattr(operation, name):
                yield (name,), "means nothing for the class none: nothing can be looked up"
        return
    if operation.settle_horizon_ms == 0:
        yield (
            ("settle_horizon_ms",),
            "is missing: how long after its last byte can a call still take effect?",
        )
    if not operation.lookups:
        yield ("lookups",), "cannot be empty: an unknown outcome would never be found out"
    for index, (earlier, later) in enumerate(pairwise(operation.lookups), start=1):
        if later <= earlier:
            yield ("lookups", index), f"cannot be {later} after {earlier}: delays must grow"


def _in_attempts(operation: Operation) -> Iterator[Contradiction]:
    retries = operation.retries
    if retries.backoff_base_ms > retries.backoff_max_ms:
        yield (
            ("retries", "backoff_base_ms"),
            f"cannot be longer than backoff_max_ms ({retries.backoff_max_ms})",
        )
    again = operation.second_attempt_after_absence
    if again and operation.reliability != "lookup":
        yield (
            ("second_attempt_after_absence",),
            f"is a choice of the class lookup only, not of {operation.reliability}",
        )
        return
    match operation.reliability:
        case "none" if retries.attempts_max > 1:
            yield (
                ("retries", "attempts_max"),
                "must be 1 for the class none: nobody could tell whether the first had its effect",
            )
        case "lookup" if retries.attempts_max != (LOOKUP_ATTEMPTS_MAX if again else 1):
            yield (
                ("retries", "attempts_max"),
                "must be 2 with second_attempt_after_absence and 1 without (class lookup)",
            )
        case _:
            return


def _in_names(operation: Operation) -> Iterator[Contradiction]:
    for index, name in enumerate(operation.personal):
        if name not in operation.parameters:
            yield ("personal", index), f"names {name}, which is no parameter of this operation"
    for index, name in enumerate(operation.volatile):
        # What a provider observes has names that only its adapter knows.
        if operation.preview == "request":
            yield (
                ("volatile", index),
                (
                    f"names {name}, which nobody would read again: what the provider observes "
                    'needs preview = "provider", and a parameter never moves'
                ),
            )
    for name in operation.tolerances:
        if name not in operation.volatile:
            yield ("tolerances", name), f"is a tolerance for {name}, which volatile does not name"
        elif name in operation.parameters and operation.parameters[name].type != "integer":
            yield ("tolerances", name), "means nothing for a parameter that is no whole number"
    if operation.allows_zero and not operation.moves_money:
        yield ("allows_zero",), "means nothing for an operation that moves no money"
    if operation.amount_multiple_of and operation.money == "forbidden":
        yield ("amount_multiple_of",), "means nothing for an operation that takes no money"
    if operation.compensation == operation.name:
        yield ("compensation",), "cannot be the operation itself"
    if operation.compensation is None and operation.compensation_target != "same":
        yield ("compensation_target",), "means nothing where no compensation is declared"


def _in_targets(operation: Operation) -> Iterator[Contradiction]:
    if (
        operation.look_alike_window_ms
        and operation.target is None
        and not operation.target_parameters
    ):
        yield (
            ("look_alike_window_ms",),
            "means nothing for an operation without a target: look-alikes are told at it",
        )
    if len(operation.target_parameters) >= TARGETS_MAX:
        yield ("target_parameters",), f"an action has at most {TARGETS_MAX} targets with its own"
    for index, name in enumerate(operation.target_parameters):
        declared = operation.parameters.get(name)
        if declared is None:
            problem = f"names {name}, which is no parameter of this operation"
            yield ("target_parameters", index), problem
        elif declared.type not in {"string", "identifier"}:
            yield ("target_parameters", index), f"names {name}, which is no text"
        elif name in operation.personal:
            yield ("target_parameters", index), f"names {name}, which is personal and never told"


def _in_principals(operation: Operation) -> Iterator[Contradiction]:
    for name in ("principals", "environments"):
        for index, pattern in enumerate(getattr(operation, name)):
            if any(character in "?[]" for character in pattern):
                yield (name, index), "may hold * for any characters, and no other wildcard"


def _in_performer(operation: Operation) -> Iterator[Contradiction]:
    if operation.volatile and operation.performer == "caller":
        yield ("volatile",), "is read again by executors, and none carries this operation out"
    if operation.caller_attests_no_effect and operation.performer == "executor":
        yield (
            ("caller_attests_no_effect",),
            "means nothing where only an executor may carry the operation out",
        )


def _in_parameter(parameter: Parameter) -> Iterator[Contradiction]:
    kind = parameter.type
    for names, kinds in (
        (("length_min", "length_max"), {"string", "identifier", "list", "object"}),
        (("minimum", "maximum"), {"integer"}),
        (("values",), {"string", "identifier"}),
        (("items",), {"list"}),
    ):
        for name in names:
            if kind not in kinds and name in parameter.model_fields_set:
                yield (name,), f"means nothing for the type {kind}"
    for low, high in (("length_min", "length_max"), ("minimum", "maximum")):
        least, most = getattr(parameter, low), getattr(parameter, high)
        if least is not None and most is not None and least > most:
            yield (low,), f"cannot be larger than {high} ({most})"
