"""What an adapter can and cannot promise, in sentences, and where a catalogue promises more.

Guarantees that every question of the port is answered in words, and that an operation which relies
on what its provider does not keep is told so by the path of the line that does. Must never change
what is decided: the catalogue in force is what holds. Called by the command line.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ledger.core.operation import Operation
from ledger.core.toml_lines import TomlPath
from reconciler.providers.port import IMPOSSIBLE, Capabilities, Duration, Reliability, Remembered

_ENOUGH_FOR: Final[Mapping[str, frozenset[str]]] = {
    "keyed": frozenset({"keyed"}),
    "reference": frozenset({"reference"}),
    "lookup": frozenset({"keyed", "reference", "lookup"}),
    "none": frozenset({"keyed", "reference", "lookup", "none"}),
}
"""What a provider has to keep, by what an operation relies on."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One question about a provider: whether it is promised, and what that means."""

    question: str
    is_kept: bool
    sentence: str


def promises(can: Capabilities) -> tuple[Promise, ...]:
    """Every question, in the order in which a retry and a lookup need them."""
    return (
        _repeating(can),
        _replay(can),
        *_searches(can),
        _settling(can),
        Promise(
            "lists_effects",
            bool(can.lists_effects),
            "Effects that no action asked for can be found by listing."
            if can.lists_effects
            else "Effects that no action asked for cannot be found: there is no list.",
        ),
        Promise(
            "previews",
            bool(can.previews),
            "It says what a request would do, without doing it."
            if can.previews
            else "It says nothing before it acts: a dry run shows the request alone.",
        ),
        _webhooks(can),
        _remembering(can),
    )


WAYS_OUT: Final = (
    "Let a service of yours make it, and keep the key in the same transaction: adapter postgres.",
    "Write an outbox whose consumer owns the boundary: the adapter kafka, and its consumer.",
    "Find a field of the provider's that has to be unique, and put the key there: reference.",
    "Let the effect be one that can be undone, and declare what undoes it.",
    "Let a person decide each time: one attempt, and a lost answer waits in the review desk.",
)
"""What helps where a second call may be a second effect, the strongest first."""


def ways_out(can: Capabilities) -> tuple[str, ...]:
    """What an operator can do about a provider that keeps too little; none where keys hold."""
    return () if can.reliability in {Reliability.KEYED, Reliability.REFERENCE} else WAYS_OUT


def _repeating(can: Capabilities) -> Promise:
    match can.reliability:
        case Reliability.KEYED:
            said = f"A second call under the same key is no second effect, for {_span(can)}."
        case Reliability.REFERENCE:
            said = "A second call under the same reference is no second effect, ever."
        case Reliability.LOOKUP:
            said = (
                "A second call may be a second effect; a lost answer is looked up first, and one "
                "more attempt follows only where the operation opts in."
            )
        case _:
            said = "Nothing tells a lost answer from no effect: one attempt, then a person."
    is_kept = can.reliability in {Reliability.KEYED, Reliability.REFERENCE}
    return Promise("reliability", is_kept, said)


def _span(can: Capabilities) -> str:
    return _long(can.key_window_ms) if can.key_window_ms is not IMPOSSIBLE else "an unknown time"


def _replay(can: Capabilities) -> Promise:
    if can.replay_proven:
        said = "The same key again shows the first effect: a test has seen it."
    else:
        said = "That the same key again shows the first effect is not proven."
    return Promise("replay_proven", bool(can.replay_proven), said)


def _searches(can: Capabilities) -> Iterator[Promise]:
    for question, what, is_kept in (
        ("finds_by_key", "the key", bool(can.finds_by_key)),
        ("finds_by_reference", "the provider's reference", bool(can.finds_by_reference)),
        ("finds_by_marker", "the action key in its metadata", bool(can.finds_by_marker)),
    ):
        lag = "" if can.search_lag_ms is IMPOSSIBLE else f", {_long(can.search_lag_ms)} behind"
        said = f"A lost answer {'can' if is_kept else 'cannot'} be found by {what}"
        yield Promise(question, is_kept, f"{said}{lag if is_kept else ''}.")


def _settling(can: Capabilities) -> Promise:
    if can.settle_horizon_ms is IMPOSSIBLE:
        said = "Absence is never proven: a request may take effect at any time."
        return Promise("settle_horizon_ms", is_kept=False, sentence=said)
    said = f"A request takes effect within {_long(can.settle_horizon_ms)} of its last byte."
    return Promise("settle_horizon_ms", is_kept=True, sentence=said)


def _webhooks(can: Capabilities) -> Promise:
    if not can.sends_webhooks:
        said = "It tells nothing by itself: every lost answer waits for a lookup."
    elif can.retries_webhooks:
        said = "It tells of effects by webhook, and again until it is heard."
    else:
        said = "It tells of effects by webhook, once: one that is missed is missed."
    return Promise("sends_webhooks", bool(can.sends_webhooks), said)


def _remembering(can: Capabilities) -> Promise:
    if Remembered.SERVER_ERROR in can.remembers:
        said = "A 500 is given again for ever to the same key: only a lookup settles it."
        return Promise("remembers", is_kept=False, sentence=said)
    if Remembered.REFUSAL in can.remembers:
        said = "A refusal is given again to the same key; an error is not."
        return Promise("remembers", is_kept=True, sentence=said)
    said = "A failure is not given again to the same key: the next attempt is a real one."
    return Promise("remembers", is_kept=True, sentence=said)


def beyond(operation: Operation, can: Capabilities) -> Iterator[tuple[TomlPath, str]]:
    """Where an operation relies on more than its provider promises: the key of the line, and why.

    `settle_horizon_ms` and `search_lag_ms` count where the operation is ever looked up.
    """
    yield from _class_beyond(operation, can)
    if operation.preview == "provider" and not can.previews:
        yield ("preview",), "is provider, and the provider does not say what a request would do"
    window = can.key_window_ms
    if operation.reliability == "keyed" and operation.key_window_ms is not None:
        if window is not IMPOSSIBLE and operation.key_window_ms > window:
            yield ("key_window_ms",), f"is longer than the provider remembers a key ({window} ms)"
        longest = can.key_chars_max
        if longest is not IMPOSSIBLE and operation.provider_key.length_max > longest:
            said = f"is longer than the provider takes a key ({longest} characters)"
            yield ("provider_key", "length_max"), said
    if operation.reliability == "none":
        return
    if can.settle_horizon_ms is IMPOSSIBLE:
        yield ("settle_horizon_ms",), "is a bound that the provider does not give"
    elif operation.settle_horizon_ms < can.settle_horizon_ms:
        said = f"is shorter than the provider may take ({can.settle_horizon_ms} ms)"
        yield ("settle_horizon_ms",), said
    if can.search_lag_ms is not IMPOSSIBLE and operation.search_lag_ms < can.search_lag_ms:
        said = f"is shorter than the provider's searches run behind ({can.search_lag_ms} ms)"
        yield ("search_lag_ms",), said


def _class_beyond(operation: Operation, can: Capabilities) -> Iterator[tuple[TomlPath, str]]:
    declared, kept = operation.reliability, can.reliability
    if kept.value not in _ENOUGH_FOR[declared]:
        yield ("reliability",), f"is {declared}, and the provider promises {kept}"
    searchable = can.finds_by_key or can.finds_by_marker
    if declared != "none" and operation.lookups and not searchable:
        yield ("lookups",), "are planned, and the provider cannot be searched by key or marker"


def _long(span_ms: Duration) -> str:
    """A duration in the largest unit that leaves it whole."""
    assert span_ms is not IMPOSSIBLE  # noqa: S101 - its callers look first
    for name, size_ms in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if span_ms and span_ms % size_ms == 0:
            count = span_ms // size_ms
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{span_ms / 1_000:g} s"
