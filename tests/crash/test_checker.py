"""The checker can fail: for every law a run that breaks it, and a run that breaks none."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.crash import laws_of_book as book
from tests.crash import laws_of_log as log
from tests.crash import laws_of_people as people
from tests.crash import laws_of_rows as rows
from tests.crash import laws_of_secrecy as secrecy
from tests.crash.cases_of_desk import CASES_OF_DESK
from tests.crash.cases_of_gates import CASES_OF_GATES
from tests.crash.checker import LAWS, Law, check
from tests.crash.evidence import Json, Raw, Run
from tests.crash.plain_fold import fold
from tests.crash.small_run import (
    CHARGE,
    EMAIL,
    LATE,
    REFUND,
    TICKET,
    build,
    changed,
    decision_with,
    fact,
    signed_by_ada,
    start,
    statement,
)


@dataclass(frozen=True)
class Case:
    """A law, one way to break it, and the run that does."""

    law: Law
    why: str
    broken: Callable[[Run], Run]


def of_fact(kind: str, key: str, nth: int = 0, **fields: object) -> Callable[[Run], Run]:
    """Another value in a fact of the ledger."""

    def change(data: Json) -> None:
        (found,) = [one for one in data["facts"] if (one["type"], one["action"]) == (kind, key)]
        found.update(fields)

    return lambda run: changed(run, "ledger", decision_with(run, kind, key, nth), change)


def without_fact(kind: str, key: str, nth: int = 0) -> Callable[[Run], Run]:
    """A fact of the ledger taken out."""

    def change(data: Json) -> None:
        data["facts"] = [
            one for one in data["facts"] if (one["type"], one["action"]) != (kind, key)
        ]

    return lambda run: changed(run, "ledger", decision_with(run, kind, key, nth), change)


def with_fact(beside: str, added: Json) -> Callable[[Run], Run]:
    """A fact more in the decision that holds another one of the same action."""
    key = added["action"]
    added = {"version": 0, **added}
    return lambda run: changed(
        run, "ledger", decision_with(run, beside, key), lambda data: data["facts"].append(added)
    )


def before_the_start(kind: str, **fields: object) -> Callable[[Run], Run]:
    """A fact more before the start of what a person agreed to."""

    def change(data: Json) -> None:
        data["facts"].insert(1, {"type": kind, "action": REFUND, "version": 0, **fields})
        for place, one in enumerate(data["facts"]):
            one["version"] = data["facts"][0]["version"] + place

    place = ("attempt.started", REFUND)
    return lambda run: changed(run, "ledger", decision_with(run, *place), change)


def signed_otherwise(**fields: object) -> Callable[[Run], Run]:
    """Something else signed by the person who agreed, wherever it stands."""
    return with_signed(signed_by_ada(statement(**fields)))


def with_signed(signed: Json) -> Callable[[Run], Run]:
    """Another signature in the grant and in the start that rests on it."""

    def change(data: Json) -> None:
        granted, started = data["facts"]
        granted["signed"] = signed
        started["approval"]["signed"] = [signed]

    return lambda run: changed(
        run, "ledger", decision_with(run, "approval.granted", REFUND), change
    )


def nobody_asked(run: Run) -> Run:
    """What somebody has to agree to begins, and nobody was ever asked."""
    unsaid = without_fact("approval.granted", REFUND)(run)
    return without_fact("approval.requested", REFUND)(unsaid)


forged = with_signed(signed_by_ada(statement(), Ed25519PrivateKey.generate()))
"""What ada would have signed, signed by somebody else."""


def of_request(**fields: object) -> Callable[[Run], Run]:
    """Another request of what a person agreed to."""

    def change(data: Json) -> None:
        data["facts"][0]["request"].update(fields)

    return lambda run: changed(run, "ledger", decision_with(run, "intent.recorded", REFUND), change)


def of_decision(kind: str, key: str, **fields: object) -> Callable[[Run], Run]:
    """Another value in a decision."""
    return lambda run: changed(
        run, "ledger", decision_with(run, kind, key), lambda data: data.update(fields)
    )


def of_line(number: int, **fields: object) -> Callable[[Run], Run]:
    """Another value in a line of the book."""

    def change(run: Run) -> Run:
        lines = list(run.book)
        lines[number] = {**lines[number], **fields}
        return replace(run, book=lines)

    return change


def with_line(number: int, **fields: object) -> Callable[[Run], Run]:
    """A line more in the book, like another but for some values."""
    return lambda run: replace(run, book=[*run.book, {**run.book[number], **fields}])


def told(**line: object) -> Callable[[Run], Run]:
    """A caller that was told something else."""
    return lambda run: replace(run, clients=[*run.clients, line])


def of_row(table: str, place: int = 0, **fields: object) -> Callable[[Run], Run]:
    """Another value in a row."""

    def change(run: Run) -> Run:
        found = list(run.tables[table])
        found[place] = {**found[place], **fields}
        return replace(run, tables={**run.tables, table: found})

    return change


def without_row(table: str, number: int = 0) -> Callable[[Run], Run]:
    """A row that is missing."""

    def change(run: Run) -> Run:
        found = [row for place, row in enumerate(run.tables[table]) if place != number]
        return replace(run, tables={**run.tables, table: found})

    return change


def of_record(topic: str, place: int, **fields: object) -> Callable[[Run], Run]:
    """Another value in a record of any topic."""
    return lambda run: changed(run, topic, place, lambda data: data.update(fields))


def without_record(topic: str, offset: int) -> Callable[[Run], Run]:
    """A record that is gone from the end of a topic."""

    def change(run: Run) -> Run:
        return replace(run, log={**run.log, (topic, 0): list(run.log[topic, 0])[:offset]})

    return change


def with_input(topic: str) -> Callable[[Run], Run]:
    """One input more, which nobody has decided."""

    def change(run: Run) -> Run:
        records = list(run.log[topic, 0])
        records.append(replace(records[-1], offset=len(records)))
        return replace(run, log={**run.log, (topic, 0): records})

    return change


def of_sending(**fields: object) -> Callable[[Run], Run]:
    """Another value in what the provider noted of its webhooks."""
    return lambda run: replace(run, webhooks_sent=[{**run.webhooks_sent[0], **fields}])


def ticket_again_without_absence(run: Run) -> Run:
    """The second attempt of the ticket although the first was not found absent."""
    return without_fact("attempt.absent", TICKET)(run)


def poison_became_facts(run: Run) -> Run:
    """Bytes that are no event were decided as if they were one."""

    def change(data: Json) -> None:
        del data["quarantined"]

    (offset,) = [raw.offset for raw in run.log["ledger", 0] if b'"quarantined"' in raw.value]
    return changed(run, "ledger", offset, change)


def started_late(run: Run) -> Run:
    """A second attempt of the charge, with everything of the first an hour ago."""
    second = start(LATE, 2, 0)
    after = with_fact("timer.set", second)(run)
    early = {"decided_at": 1_700_000_000_000}
    return of_decision("intent.recorded", LATE, **early)(after)


def decided_in_no_epoch(run: Run) -> Run:
    """The ledger without its first barrier, its records as if none had been needed."""
    records = []
    for raw in run.log["ledger", 0]:
        event = orjson.loads(raw.value)
        if raw.offset == 1:
            event["type"] = "actionledger.genesis.recorded.v1"
        if event["data"].get("epoch"):
            event["data"]["epoch"] -= 1
        records.append(Raw(raw.offset, raw.appended_at, raw.key, orjson.dumps(event)))
    return replace(run, log={**run.log, ("ledger", 0): records})


CASES = (
    Case(book.s1_one_effect, "two effects", with_line(0, effect_id="ch_9")),
    Case(book.s1_one_effect, "two e-mails", with_fact("intent.recorded", start(EMAIL, 2, 0))),
    Case(book.s2_every_request_has_its_cause, "no such action", of_line(0, action_key="x")),
    Case(book.s2_every_request_has_its_cause, "another key", of_line(0, key="x")),
    Case(book.s2_every_request_has_its_cause, "another account", of_line(0, account="x")),
    Case(book.s2_every_request_has_its_cause, "another request", of_line(0, request_hash="x")),
    Case(book.s2_every_request_has_its_cause, "before its start", of_line(0, arrived_at=1)),
    Case(book.s2_every_request_has_its_cause, "one start, two calls", with_line(0, effect_id=None)),
    Case(
        log.s5_final_stays,
        "started after completion",
        with_fact("action.completed", start(CHARGE, 2, 0)),
    ),
    Case(
        log.s6_transitions,
        "failed after completion",
        with_fact("action.completed", fact("action.failed", CHARGE, code="x")),
    ),
    Case(
        log.s6_transitions,
        "about nothing",
        of_fact("intent.recorded", CHARGE, action="charge:v1:acme:other"),
    ),
    Case(log.s6_transitions, "no such fact", of_fact("review.opened", EMAIL, type="x.y")),
    Case(log.s7_versions, "a gap", of_fact("action.completed", CHARGE, version=9)),
    Case(log.s8_one_key, "a new key", of_fact("attempt.started", TICKET, 1, provider_key="x")),
    Case(
        log.s8_one_key,
        "another's key",
        of_fact("attempt.started", LATE, provider_key=f"key of {CHARGE}"),
    ),
    Case(
        log.s9_unknown_is_not_repeated_blindly,
        "no absence before",
        ticket_again_without_absence,
    ),
    Case(
        log.s9_unknown_is_not_repeated_blindly,
        "the key may be forgotten",
        started_late,
    ),
    Case(
        log.s9_absence_is_late_enough,
        "asked too early",
        of_fact("attempt.started", TICKET, lease_until=1_800_000_099_000),
    ),
    Case(
        book.s10_acknowledged_intents,
        "lost",
        told(key="charge:v1:acme:lost", answer="ok", status="ready"),
    ),
    Case(
        book.s10_acknowledged_intents,
        "refused by nobody",
        told(key=LATE, answer="refused", code="conflicted"),
    ),
    Case(
        book.s10_told_is_true,
        "told another outcome",
        told(key=TICKET, answer="ok", status="completed", reference="ti_1"),
    ),
    Case(
        book.s10_told_is_true,
        "told another reference",
        told(key=CHARGE, answer="ok", status="completed", reference="ch_9"),
    ),
    Case(book.s10_taken_webhooks, "not on the log", without_record("webhooks", 0)),
    Case(book.s10_taken_webhooks, "forged", of_sending(signature="forged")),
    Case(book.s12_status_and_book_agree, "completed, no effect", of_line(0, effect_id=None)),
    Case(
        book.s12_status_and_book_agree,
        "another reference",
        of_fact("action.completed", CHARGE, reference="ch_9"),
    ),
    Case(book.s12_status_and_book_agree, "another amount", of_line(0, amount=None)),
    Case(
        book.s12_status_and_book_agree,
        "nobody proved it",
        of_fact("attempt.succeeded", CHARGE, reference="ch_9"),
    ),
    Case(book.s12_status_and_book_agree, "failed, an effect", of_line(2, effect_id="ti_1")),
    Case(
        book.s12_status_and_book_agree,
        "an effect, nothing open",
        of_fact("attempt.unresolved", LATE, type="attempt.declined"),
    ),
    Case(
        book.s12_failed_means_nothing_open,
        "the last attempt is open",
        of_fact("attempt.refused", TICKET, type="attempt.unresolved"),
    ),
    Case(people.s4_authorised, "nobody agreed", without_fact("approval.granted", REFUND)),
    Case(people.s4_authorised, "nobody was asked", nobody_asked),
    Case(people.s4_authorised, "two had to", of_fact("approval.requested", REFUND, quorum=2)),
    Case(people.s4_authorised, "too late", of_fact("approval.requested", REFUND, expires_at=1)),
    Case(people.s4_authorised, "dead", before_the_start("approval.ended", reason="expired")),
    Case(
        people.s4_authorised,
        "taken back",
        before_the_start("approval.withdrawn", person="ada", void_until=0),
    ),
    Case(people.s4_authorised, "in no group", of_fact("approval.requested", REFUND, groups=["x"])),
    Case(people.s4_authorised, "said no", signed_otherwise(decision="deny")),
    Case(people.s4_authorised, "over", signed_otherwise(expires_at=1)),
    Case(people.s4_authorised, "of another ledger", signed_otherwise(ledger="another")),
    Case(people.s4_authorised, "of another round", signed_otherwise(nonce="nonce 0")),
    Case(people.s4_authorised, "of another action", signed_otherwise(key=CHARGE)),
    Case(people.s4_authorised, "of another tenant", signed_otherwise(tenant="globex")),
    Case(people.s4_authorised, "of another environment", signed_otherwise(environment="live")),
    Case(people.s4_authorised, "of another payload", signed_otherwise(request_hash="x")),
    Case(people.s4_authorised, "of another dry run", signed_otherwise(preview_hash="x")),
    Case(people.s4_authorised, "of another policy", signed_otherwise(policy_hash="x")),
    Case(people.s4_authorised, "of another row", signed_otherwise(row="x")),
    Case(people.s4_authorised, "forged", forged),
    Case(people.s4_authorised, "by who asks", of_request(principal="ada")),
    Case(people.s4_authorised, "not in the start", of_fact("attempt.started", REFUND, approval={})),
    Case(
        people.s4_denied_never_begins,
        "denied before",
        before_the_start("action.denied", by="person", person="ada"),
    ),
    Case(
        people.s10_told_decisions,
        "counts nowhere",
        lambda run: replace(run, people=[{**run.people[0], "person": "ben"}]),
    ),
    Case(rows.s13_projected_to_the_end, "behind", of_row("projection_offsets", next_offset=3)),
    Case(
        rows.s13_projected_to_the_end,
        "other positions",
        of_row("projection_offsets", positions={}),
    ),
    Case(rows.s13_projected_to_the_end, "nothing", without_row("projection_offsets")),
    Case(rows.s13_streams, "another state", of_row("streams", state='{"key":"x"}')),
    Case(rows.s13_streams, "no row", without_row("streams")),
    Case(rows.s13_actions, "another status", of_row("actions", status="failed")),
    Case(rows.s13_actions, "no row", without_row("actions")),
    Case(rows.s13_actions, "another outcome of an attempt", of_row("attempts", status="refused")),
    Case(rows.s13_actions, "no attempt", without_row("attempts")),
    Case(rows.s13_actions, "an attempt of nobody", of_row("attempts", number=7)),
    Case(rows.s13_events, "another event id", of_row("action_events", event_id="x")),
    Case(rows.s13_events, "no event", without_row("action_events")),
    Case(rows.s13_events, "no decision", without_row("decisions")),
    Case(log.s15_epochs, "time runs back", of_decision("action.completed", CHARGE, decided_at=1)),
    Case(log.s15_epochs, "another epoch projected", of_row("projection_offsets", epoch=9)),
    Case(log.s15_epochs, "no epoch", decided_in_no_epoch),
    Case(log.s16_every_input_once_in_order, "one undecided", with_input("intents")),
    Case(
        log.s16_every_input_once_in_order,
        "out of order",
        of_decision(
            "action.completed", CHARGE, cause={"topic": "attempts", "partition": 0, "offset": 2}
        ),
    ),
    Case(log.s16_every_input_once_in_order, "no such input", without_record("evidence", 1)),
    Case(log.s16_causes_exist, "no such input", without_record("evidence", 1)),
    Case(
        log.s16_causes_exist,
        "another partition",
        of_decision(
            "action.completed", CHARGE, cause={"topic": "attempts", "partition": 1, "offset": 1}
        ),
    ),
    Case(log.s17_tokens, "no growth", of_fact("attempt.started", TICKET, 1, fencing_token=1)),
    Case(log.s17_tokens, "two at a time", with_fact("intent.recorded", start(LATE, 2, 0))),
    Case(log.s17_tokens, "another's word", of_record("attempts", 1, holder="h2")),
    Case(
        secrecy.s18_tenants_are_apart,
        "in another's stream",
        of_decision("intent.recorded", CHARGE, stream="globex/event-1"),
    ),
    Case(
        secrecy.s18_tenants_are_apart,
        "told to another",
        told(key=CHARGE, tenant="globex", answer="info"),
    ),
    Case(
        secrecy.s21_no_secret_is_told,
        "in a record",
        lambda run: replace(run, secrets={"provider key": "key of charge"}),
    ),
    Case(
        secrecy.s21_no_secret_is_told,
        "in a log",
        lambda run: replace(run, secrets={"API key": "s3cret"}, words={"a.log": "key=s3cret"}),
    ),
    Case(
        log.v5_attempts_are_bounded,
        "two of one",
        with_fact("intent.recorded", start(EMAIL, 2, 0)),
    ),
    Case(log.v1_everything_ends, "no next step", without_fact("timer.set", LATE)),
    Case(log.v1_everything_ends, "still at work", without_fact("attempt.unresolved", LATE)),
    Case(rows.q_quarantine_is_complete, "not kept", without_record("quarantine", 0)),
    Case(rows.q_quarantine_is_complete, "not whole", of_record("quarantine", 0, value_base64="")),
    Case(rows.q_quarantine_is_complete, "another reason", of_record("quarantine", 0, reason="x")),
    Case(rows.q_quarantine_is_complete, "nobody's", of_record("quarantine", 0, offset=1)),
    Case(rows.q_unreadable_is_set_aside, "taken for an event", poison_became_facts),
    Case(rows.w_every_webhook_is_known, "nobody looked", without_row("webhooks")),
    Case(rows.w_every_webhook_is_known, "no evidence", without_fact("evidence.recorded", CHARGE)),
    *(Case(law, why, broken) for law, why, broken in (*CASES_OF_DESK, *CASES_OF_GATES)),
)


def test_a_run_that_is_right_breaks_no_law() -> None:
    """The small run keeps every law, and the report says what is in it."""
    report = check(build().run())
    assert report.findings == ()
    assert report.seen["actions"] == "5: 2 completed, 1 failed, 1 needs_review, 1 unknown"
    assert "1 void records, epochs [2]" in report.seen["decisions"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.law.__name__}-{case.why}")
def test_every_law_can_be_broken(case: Case) -> None:
    """The law finds what breaks it, and would say nothing of the run before."""
    right = build().run()
    assert list(case.law(right, fold(right))) == []
    broken = case.broken(right)
    assert list(case.law(broken, fold(broken)))


def test_no_law_is_left_untried() -> None:
    """A law that no test has seen fail guards nothing."""
    assert {case.law for case in CASES} == set(LAWS)


@pytest.mark.parametrize(("effect", "code"), [("ch_1", 0), (None, 1)])
def test_the_program_judges_a_saved_run(tmp_path: Path, effect: str | None, code: int) -> None:
    """What was gathered can be judged later; the exit code and the report say what was found."""
    saved = tmp_path / "run.json"
    of_line(0, effect_id=effect)(build().run()).save(saved)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.checker", "--saved", str(saved)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ("BROKEN S12 charge:v1:acme:event-1" in ended.stdout) is (code == 1)
    assert f"{len(LAWS)} laws" in ended.stdout
