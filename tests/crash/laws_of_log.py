"""Laws that the log alone can keep or break: order, versions, tokens, retries, an end for all.

Each law takes what was gathered and what the plain fold made of it, and yields what is wrong. The
numbers are those by which the guarantees are known: S is safety, V is that things come to an end.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from tests.crash.evidence import Finding, Json, Run, event_of
from tests.crash.plain_fold import Action, Folded, Told
from tests.crash.plain_table import FINAL

INBOXES: Final = ("intents", "approvals", "attempts", "evidence", "internal")
WITHOUT_GENESIS: Final = frozenset({"internal", "config"})
ENDS: Final = ("absent", "refused", "not_sent", "declined")
"""Outcomes after which an attempt surely had no effect."""

_ENDED: Final = tuple(f"attempt.{end}" for end in (*ENDS, "succeeded", "unresolved"))


def s5_final_stays(_run: Run, folded: Folded) -> Iterator[Finding]:
    """After a final status nothing changes it."""
    for action in folded.actions.values():
        for told in action.history:
            if told.before in FINAL and told.after != told.before:
                what = f"{action.key} was {told.before} and became {told.after}"
                yield Finding("S5", told.decided.place, what)


def s6_transitions(_run: Run, folded: Folded) -> Iterator[Finding]:
    """Every fact that counts is allowed where it stands; what the fold met is told here."""
    yield from (finding for finding in folded.findings if finding.law == "S6")


def s7_versions(_run: Run, folded: Folded) -> Iterator[Finding]:
    """The facts of an action are numbered 1 to n, in the order of the log."""
    for action in folded.actions.values():
        for expected, told in enumerate(action.history, start=1):
            if told.fact["version"] != expected:
                what = f"{action.key} has version {told.fact['version']} where {expected} belongs"
                yield Finding("S7", told.decided.place, what)
                break


def s8_one_key(_run: Run, folded: Folded) -> Iterator[Finding]:
    """All attempts of an action bear one provider key, and no other action of the account does."""
    owners: dict[tuple[str, str], str] = {}
    for action in folded.actions.values():
        keys = {told.fact["provider_key"] for told in action.told("attempt.started")}
        if len(keys) > 1:
            yield Finding("S8", action.key, f"has {len(keys)} provider keys: {sorted(keys)}")
        for key in keys:
            owner = owners.setdefault((action.state["account"], key), action.key)
            if owner != action.key:
                yield Finding("S8", action.key, f"has the provider key of {owner}")


def s9_unknown_is_not_repeated_blindly(_run: Run, folded: Folded) -> Iterator[Finding]:
    """A further attempt needs what its class demands: an open key window, or surely no effect."""
    catalogue = Catalogue(folded)
    for action in folded.actions.values():
        before: list[Told] = []
        for told in action.told("attempt.started"):
            why = _objection(action, before, told, catalogue)
            if why is not None:
                where = told.decided.place
                yield Finding("S9", where, f"attempt {told.fact['attempt']} of {action.key}: {why}")
            before.append(told)


def s9_absence_is_late_enough(_run: Run, folded: Folded) -> Iterator[Finding]:
    """An absence counts only for attempts that were over, and would be visible, when it was asked
    about.
    """
    catalogue = Catalogue(folded)
    for action in folded.actions.values():
        asked_at = 0
        leases: dict[int, int] = {}
        for told in action.history:
            match told.fact["type"]:
                case "attempt.started":
                    leases[told.fact["attempt"]] = told.fact["lease_until"]
                case "lookup.started":
                    asked_at = told.decided.data["decided_at"]
                case "attempt.absent":
                    settle_ms = catalogue.settle_ms(action)
                    if str(told.fact.get("source_id")).startswith("person:"):
                        # A person looked, at the latest when what they signed was decided.
                        asked_at = told.decided.data["decided_at"]
                    if asked_at <= leases[told.fact["attempt"]] + settle_ms:
                        what = f"{action.key} was asked about too early to be absent"
                        yield Finding("S9", told.decided.place, what)
                case _:
                    continue


def s15_epochs(run: Run, folded: Folded) -> Iterator[Finding]:
    """Nothing counts before an epoch, log time never runs back, and projections know the epoch."""
    yield from (finding for finding in folded.findings if finding.law == "S15")
    for row in run.tables.get("projection_offsets", ()):
        partition = folded.partitions[row["partition"]]
        ours = (partition.epoch, partition.void)
        if (
            row["next_offset"] == partition.next_offset
            and (row["epoch"], row["void_count"]) != ours
        ):
            what = f"epoch and void records are {ours}, the projection says otherwise: {row}"
            yield Finding("S15", f"ledger/{partition.number}", what)


def s16_every_input_once_in_order(run: Run, folded: Folded) -> Iterator[Finding]:
    """Of every inbox each input has exactly one decision, in order, from the first to the last."""
    answered: dict[tuple[int, str], list[int]] = defaultdict(list)
    for decided in folded.decisions:
        topic, _, offset = decided.cause
        answered[decided.partition, topic].append(offset)
    for partition in range(run.partitions):
        for topic in (*INBOXES, "config"):
            own = 0 if topic == "config" else partition
            first = 0 if topic in WITHOUT_GENESIS else 1
            inputs = [raw.offset for raw in run.records(topic, own) if raw.offset >= first]
            found = answered.get((partition, topic), [])
            if found != inputs:
                yield Finding("S16", f"{topic}/{partition}", _gap(found, inputs))


def s16_causes_exist(run: Run, folded: Folded) -> Iterator[Finding]:
    """A decision answers an input of its own partition that is there."""
    ends = {place: len(records) for place, records in run.log.items()}
    for decided in folded.decisions:
        topic, partition, offset = decided.cause
        own = 0 if topic == "config" else decided.partition
        if partition != own or offset >= ends.get((topic, partition), 0):
            what = f"answers {topic}/{partition}/{offset}, which is not there"
            yield Finding("S16", decided.place, what)


def s17_tokens(run: Run, folded: Folded) -> Iterator[Finding]:
    """Fencing tokens only grow, one attempt runs at a time, an outcome comes from its holder."""
    for action in folded.actions.values():
        last = 0
        runs: int | None = None
        tokens: dict[int, tuple[int, str]] = {}
        for told in action.history:
            fact, where = told.fact, told.decided.place
            kind = fact["type"]
            if kind == "attempt.started":
                if fact["fencing_token"] <= last:
                    yield Finding("S17", where, f"the token of {action.key} does not grow")
                if runs is not None:
                    yield Finding("S17", where, f"two attempts of {action.key} run at a time")
                last, runs = fact["fencing_token"], fact["attempt"]
                tokens[fact["attempt"]] = (fact["fencing_token"], fact["holder"])
            elif kind in _ENDED:
                runs = None if fact["attempt"] == runs else runs
                reporter = _reporter(run, told)
                if reporter is not None and reporter != tokens.get(fact["attempt"]):
                    yield Finding("S17", where, f"{kind} of {action.key} comes from {reporter}")


def v1_everything_ends(_run: Run, folded: Folded) -> Iterator[Finding]:
    """Every action is final, waits for a person, or is unknown with a next step."""
    for action in folded.actions.values():
        has_step = "timer" in action.state or "lookup" in action.state
        rests = action.status in FINAL or action.status == "needs_review"
        if not rests and waits_for_a_person(folded, action):
            continue
        if not rests and not (action.status == "unknown" and has_step):
            yield Finding("V1", action.key, f"is left {action.status} with no next step")


def v5_attempts_are_bounded(_run: Run, folded: Folded) -> Iterator[Finding]:
    """No action is attempted more often than its operation allows; a declined start is none."""
    catalogue = Catalogue(folded)
    for action in folded.actions.values():
        allowed = catalogue.operation(action).get("retries", {}).get("attempts_max")
        counted = len(action.told("attempt.started")) - len(action.told("attempt.declined"))
        if allowed is not None and counted > allowed:
            yield Finding("V5", action.key, f"was attempted {counted} times, {allowed} allowed")


def waits_for_a_person(folded: Folded, action: Action) -> bool:
    """Whether it is blocked by an action that only a person can settle."""
    behind = (one["behind"] for one in action.state["claims"] if one["status"] == "queued")
    others = (folded.actions.get(key) for key in behind)
    return action.status == "blocked" and any(
        other is not None and other.status == "needs_review" for other in others
    )


class Catalogue:
    """The operations in the last catalogue that a partition adopted; a run has one."""

    def __init__(self, folded: Folded) -> None:
        text = folded.catalogues[-1] if folded.catalogues else ""
        read: Json = tomllib.loads(text)
        self._operations = {(one["name"], one["version"]): one for one in read.get("operation", ())}
        self._skew_ms = read.get("timing", {}).get("skew_ms", 5_000)

    def operation(self, action: Action) -> Json:
        """The declaration of an action's operation."""
        request = action.state["request"]
        found: Json = self._operations.get((request["operation"], request["version"]), {})
        return found

    def settle_ms(self, action: Action) -> int:
        """How long after an attempt's lease its effect may still come and still be hidden."""
        operation = self.operation(action)
        horizon: int = operation.get("settle_horizon_ms", 0)
        lag: int = operation.get("search_lag_ms", 0)
        return int(self._skew_ms) + horizon + lag


def no_effect_of(action: Action, attempt: int, version: int) -> str | None:
    """How an attempt had surely ended without an effect before a version, if it had."""
    for told in action.history:
        fact = told.fact
        end = str(fact["type"]).removeprefix("attempt.")
        if end in ENDS and fact.get("attempt") == attempt and fact["version"] < version:
            return end
    return None


def _objection(action: Action, before: list[Told], start: Told, catalogue: Catalogue) -> str | None:
    version = start.fact["version"]
    ends = [no_effect_of(action, told.fact["attempt"], version) for told in before]
    counted = [told for told, end in zip(before, ends, strict=True) if end != "declined"]
    if not counted:
        return None
    operation: dict[str, Any] = catalogue.operation(action)
    match action.state["reliability"]:
        case "keyed" | "reference":
            window = operation.get("key_window_ms")
            first_at = counted[0].decided.data["decided_at"]
            margin = operation.get("key_margin_ms", 600_000)
            if (
                window is not None
                and start.decided.data["decided_at"] >= first_at + window - margin
            ):
                return "the provider may have forgotten the key"
        case "lookup":
            if not operation.get("second_attempt_after_absence", False):
                return "the operation does not opt in to a second one"
            if len(counted) > 1 or None in ends:
                return "the one before may have had its effect, or there were two"
        case "none":
            return "nobody could tell whether the one before had its effect"
        case _:
            return "nobody knows its class"
    return None


def _reporter(run: Run, told: Told) -> tuple[int, str] | None:
    """Token and holder that an attempt's report bears; None where no report is the cause."""
    topic, partition, offset = told.decided.cause
    if topic != "attempts":
        return None
    records = run.records(topic, partition)
    _, data = event_of(records[offset]) if offset < len(records) else ("", {})
    return data.get("fencing_token", 0), data.get("holder", "")


def _gap(found: list[int], inputs: list[int]) -> str:
    """The first place at which the decided offsets are not the inputs' own."""
    for place, wanted in enumerate(inputs):
        if place >= len(found):
            return f"offset {wanted} has no decision ({len(inputs) - place} have none)"
        if found[place] != wanted:
            return f"offset {found[place]} is decided where {wanted} belongs"
    return f"offset {found[len(inputs)]} is decided and is no input"
