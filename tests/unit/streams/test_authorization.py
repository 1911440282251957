"""What an executor finds out on its own about a start: every ground that is missing or was changed
is a no by its name, before a connection is opened.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.facts import AttemptStarted, IntentRecorded
from ledger.core.holds import Hold, Scope
from ledger.core.ids import KeyAlphabet, ProviderKeyRule, provider_key
from ledger.core.people import NOBODY
from ledger.core.policy import AUTOMATIC
from ledger.core.preview import Undone, preview_hash
from ledger.core.rejections import Rejection
from ledger.core.sagas import SagaStatus
from ledger.log.published import Published, terms_of
from streams.assignments import Assignment, objection
from streams.authorization import Grounds, Permit, Unallowed, unallowed
from tests.approving import VALID_MS, people, people_text, policy, policy_text
from tests.examples import (
    CATALOGUE_TEXT,
    CHARGE,
    PAYOUT,
    STREAM,
    T0,
    TICKET,
    catalogue,
    operation_of,
    recorded,
    started,
)
from tests.examples_of_sagas import ITEMS, do, undo
from tests.forging import FORGED_APPROVAL, FORGED_START, GENERATION, SAID, TABLE, World
from tests.travelling import NO, Travelling


def test_a_start_that_people_agreed_to_is_acted_on() -> None:
    """Two of the group signed exactly this."""
    assert World().refused() is None


def test_a_plain_start_is_acted_on_where_the_table_asks_nobody() -> None:
    """Nobody signed anything, and nobody had to."""
    world = World(table=TABLE.replace('["charge"]', '["refund"]'))
    assert world.refused(started()) is None
    world.published.policy = AUTOMATIC
    assert world.refused(started()) is None


def test_people_of_the_group_that_was_asked_after_a_time_count() -> None:
    """The table lets operations decide later, so their word is as good."""
    world = World(who=("ann", "cem"), approval_changes={"groups": ("finance", "operations")})
    assert world.refused() is None


def test_what_people_granted_under_an_earlier_table_stands_where_the_same_is_asked() -> None:
    """The newest table asks for no more: nobody is asked twice for a comment in a file."""
    world = World()
    world.published.policy = policy(TABLE + "# reviewed\n")
    world.know(world.published.policy)
    assert world.refused() is None


def _stricter(*rows: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.published.policy = policy(policy_text(*rows))

    return change


def _without_catalogue(world: World) -> None:
    world.published.catalogue = None


def _withdrawn(world: World) -> None:
    text = CATALOGUE_TEXT.replace('name = "charge"', 'name = "payment"')
    parsed = parse_catalogue(text)
    assert isinstance(parsed, Catalogue)
    world.published.take_catalogue(parsed, 1)


def _for_other_principals(world: World) -> None:
    parsed = parse_catalogue(CATALOGUE_TEXT.replace('"agent:*"', '"service:*"'))
    assert isinstance(parsed, Catalogue)
    world.published.take_catalogue(parsed, 1)


def _where_money_is_forbidden(world: World) -> None:
    text = CATALOGUE_TEXT.replace('money = "required"', 'money = "forbidden"')
    parsed = parse_catalogue(text)
    assert isinstance(parsed, Catalogue)
    world.published.take_catalogue(parsed, 1)


def _denied(world: World) -> None:
    text = policy_text().replace('outcome = "people"', 'outcome = "deny"')
    world.published.policy = policy(text)


def _people(**changes: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.published.people = people(people_text(**changes))

    return change


def _nobody(world: World) -> None:
    world.published.people = NOBODY


def _forgotten_table(world: World) -> None:
    del world.published.policies[policy(TABLE).content_hash]


def _held(world: World) -> None:
    world.published.holds = (Hold(scope=Scope(tenant="acme"), by="oscar", since=T0, offset=1),)


CONFIGURATION: tuple[tuple[str, Callable[[World], None]], ...] = (
    ("held", _held),
    ("operation_withdrawn", _without_catalogue),
    ("operation_withdrawn", _withdrawn),
    ("not_allowed", _for_other_principals),
    ("invalid_request", _where_money_is_forbidden),
    ("policy_denies", _denied),
    ("policy_unknown", _forgotten_table),
    ("more_people_asked", _stricter("quorum = 3")),
    ("other_groups_asked", _stricter("quorum = 2", 'groups = ["board"]')),
    ("unknown_signer", _nobody),
    ("signer_revoked", _people(bob="revoked = true")),
    ("requester_decides", _people(bob='principals = ["agent:billing"]')),
)


@pytest.mark.parametrize(("code", "change"), CONFIGURATION)
def test_what_is_published_and_stricter_than_the_start_stops_it(
    code: str, change: Callable[[World], None]
) -> None:
    """The ledger may have decided before it was published; the executor has read it."""
    world = World()
    change(world)
    assert world.refused() == code


def test_a_start_without_an_approval_is_not_acted_on_where_the_table_asks_for_one() -> None:
    """Whoever could write a start could not make it plain."""
    assert World(start_changes={"approval": None}).refused() == "approval_missing"


@pytest.mark.parametrize(("code", "forged"), FORGED_START)
def test_a_start_that_was_changed_is_not_acted_on(code: str, forged: dict[str, object]) -> None:
    """Each field that says what is done, to whom, by which credential."""
    assert World(start_changes=forged).refused() == code


@pytest.mark.parametrize(("code", "forged"), FORGED_APPROVAL)
def test_an_approval_that_was_changed_is_none(code: str, forged: dict[str, object]) -> None:
    """Each field of what a start rests on is bound by what people signed."""
    assert World(approval_changes=forged).refused() == code


@pytest.mark.parametrize(("code", "said"), SAID)
def test_a_signature_about_anything_else_does_not_count(code: str, said: dict[str, object]) -> None:
    """Validly signed, by the right people, and not about this."""
    assert World(said_changes=said).refused() == code


@pytest.mark.parametrize(
    ("code", "who"),
    [
        ("quorum_not_met", ("ann",)),
        ("quorum_not_met", ("ann", "ann")),
        ("not_in_group", ("ann", "cem")),
        ("not_for_tenant", ("ann", "dee")),
    ],
)
def test_people_are_counted_and_have_to_fit(code: str, who: tuple[str, ...]) -> None:
    """A person is one however often they sign, and decides in their groups and tenants only."""
    assert World(who=who).refused() == code


def test_nobody_decides_for_whom_it_is_asked() -> None:
    """Neither who asks nor those on whose behalf it is asked."""
    assert World(intent_changes={"behalf": ("bob",)}).refused() == "requester_decides"


@pytest.mark.case("C105")
def test_another_request_than_the_signed_one_is_refused_by_its_own_hash() -> None:
    """The hash is computed from what would be sent, and never taken from the start."""
    other = recorded(CHARGE).request.model_copy(update={"target": "order:B-1"})
    world = World(intent_changes={"request": other})
    assert world.refused() == "preview_differs"
    world = World(
        intent_changes={"request": other},
        start_changes={"attempt": 2},
        approval_changes={"preview": None},
    )
    assert world.refused() == "other_request"


def test_a_later_attempt_needs_no_preview_and_all_of_the_rest() -> None:
    """Its own effect may have moved what people saw; their word is read again all the same."""
    again: dict[str, object] = {"attempt": 2, "fencing_token": 2}
    world = World(start_changes=again, approval_changes={"preview": None})
    assert world.refused() is None
    world.published.people = NOBODY
    assert world.refused() == "unknown_signer"


ORIGINAL = Undone(action=TICKET, status="completed", reference="tk_1")
AGAIN: dict[str, object] = {"attempt": 2, "fencing_token": 2}


def test_what_undoes_an_effect_undoes_the_one_that_people_saw() -> None:
    """The start names the effect of the action that was on the sheet, at every attempt."""
    assert World(undoes=ORIGINAL).refused() is None
    again = World(undoes=ORIGINAL, start_changes=AGAIN, approval_changes={"is_open": True})
    assert again.refused() is None
    nameless = ORIGINAL.model_copy(update={"reference": None})
    assert World(undoes=nameless).refused() is None


@pytest.mark.parametrize("later", [{}, AGAIN])
@pytest.mark.parametrize(
    "world",
    [
        {"start_changes": {"original_reference": "ch_of_somebody_else"}},
        {"start_changes": {"original_reference": None}},
        {"intent_changes": {"compensates": f"{TICKET}#other"}},
        {"intent_changes": {"compensates": None}},
        {"undoes": None, "intent_changes": {"compensates": ORIGINAL.action}},
    ],
)
def test_another_original_than_people_saw_is_not_undone(
    world: dict[str, Any], later: dict[str, object]
) -> None:
    """Another effect, another action, one where they saw none, none where they saw one."""
    changed = {"undoes": ORIGINAL, **world}
    changed["start_changes"] = changed.get("start_changes", {}) | later
    assert World(**changed).refused() == "original_differs"


def test_a_later_attempt_shows_again_what_it_undoes() -> None:
    """Without what people saw nobody could say which effect it is."""
    hidden = World(undoes=ORIGINAL, start_changes=AGAIN, approval_changes={"preview": None})
    assert hidden.refused() == "preview_missing"


def test_nobody_undoes_by_a_start_what_the_intent_does_not() -> None:
    """Where the table asks nobody too."""
    world = World(table=TABLE.replace('["charge"]', '["refund"]'))
    plain = started()
    assert world.refused(plain) is None
    forged = plain.model_copy(update={"original_reference": "ch_of_somebody_else"})
    assert world.refused(forged) == "original_differs"


def test_the_key_at_the_provider_is_made_of_the_actions_key() -> None:
    """By any declaration that was ever published: all attempts bear the key of the first. Another
    key would be another effect.
    """
    world = World(table=TABLE.replace('["charge"]', '["refund"]'))
    shorter = ProviderKeyRule(length_max=40, alphabet=KeyAlphabet.ALPHANUMERIC)
    earlier = started().model_copy(update={"provider_key": provider_key(CHARGE, shorter)})
    assert world.refused(earlier) == "provider_key_differs"
    now = terms_of(operation_of(CHARGE), catalogue().timing)
    world.published.terms["charge", 1] = (now, replace(now, key_rule=shorter))
    assert world.refused(earlier) is None
    assert world.refused(started()) is None


def test_what_its_caller_carries_out_is_no_executors_to_do() -> None:
    """By the intent, and by what people agreed to."""
    assert World(intent_changes={"performer": "caller"}).refused() == "performer_differs"
    world = World()
    assert world.start.approval is not None
    shown = world.start.approval.preview
    assert shown is not None
    by_caller = shown.model_copy(update={"performer": "caller"})
    forged = {"preview": by_caller, "preview_hash": preview_hash(by_caller)}
    assert World(approval_changes=forged).refused() == "performer_differs"


def test_what_was_allowed_is_asked_again_only_after_more_was_published() -> None:
    """A yes stands for what is read; a no is asked again each time."""
    world = World()
    permit = Permit(Grounds(world.published, GENERATION), world.start, world.intent)
    assert permit.objection() is None
    world.published.people = NOBODY
    assert permit.objection() is None
    world.published.next_offset += 1
    assert permit.objection() == "unknown_signer"
    world.published.people = people()
    assert permit.objection() is None


def test_an_approval_that_ran_out_on_the_holders_clock_is_over() -> None:
    """Counted from when the offer was sent, so that it is never later than the ledger believes."""
    start = World().start.model_copy(
        update={"lease_until": T0 + 10 * VALID_MS, "deadline_at": T0 + 10 * VALID_MS}
    )
    start = start.model_copy(update={"key_expires_at": None, "offered_at": T0})
    own = Assignment(start, STREAM, 0, recorded(CHARGE), 0, offer_valid_ms=10 * VALID_MS)
    request = recorded(CHARGE).request
    assert objection(own, request, VALID_MS - 1, margin_ms=0) is None
    assert objection(own, request, VALID_MS, margin_ms=0) == "approval_expired"


def test_an_offer_that_was_taken_before_it_was_sent_stretches_nothing() -> None:
    """An earlier moment would let an approval, a lease and a key hold longer than they do."""
    start = World().start.model_copy(update={"offered_at": T0 - 86_400_000})
    request = recorded(CHARGE).request
    forged = Assignment(start, STREAM, 0, recorded(CHARGE), 0, T0 - 5_000)
    assert objection(forged, request, 0, margin_ms=0) == "offer_time_differs"
    honest = Assignment(World().start, STREAM, 0, recorded(CHARGE), 0, T0 - 5_000)
    assert objection(honest, request, 0, margin_ms=0) is None


def test_a_start_that_was_decided_outside_of_its_offer_stretches_nothing() -> None:
    """Its deadline and its lease may say another moment of decision than any that the offer was
    good for; that is found out by the moment at which they begin.
    """
    request, valid_ms = recorded(CHARGE).request, 6_000
    for later_ms, code in ((-1, "offer_over"), (0, None), (6_000, None), (6_001, "offer_over")):
        honest = World().start
        times = {"deadline_at": honest.deadline_at, "lease_until": honest.lease_until}
        moved = {name: at + later_ms for name, at in times.items()}
        start = honest.model_copy(update=moved)
        own = Assignment(start, STREAM, 0, recorded(CHARGE), 0, T0, valid_ms)
        assert objection(own, request, 0, margin_ms=0) == code


def test_the_times_of_any_declaration_that_was_published_are_its_times() -> None:
    """Owners adopt later than an executor reads: what the one before gave a start still counts, and
    parts of two of them make none.
    """
    world = World(table=TABLE.replace('["charge"]', '["refund"]'))
    other = CATALOGUE_TEXT.replace("response_ms = 4000", "response_ms = 3000")
    assert other != CATALOGUE_TEXT
    parsed = parse_catalogue(other)
    assert isinstance(parsed, Catalogue)
    world.published.take_catalogue(parsed, 1)
    before = started()
    assert world.refused(before) is None
    shorter = {"response_ms": 3_000, "deadline_at": before.deadline_at - 1_000}
    assert world.refused(before.model_copy(update=shorter)) == "times_differ"
    shorter["lease_until"] = before.lease_until - 1_000
    assert world.refused(before.model_copy(update=shorter)) is None


FREE = TABLE.replace('["charge"]', '["refund"]')
"""Nobody is asked about a charge."""
UNDOING: dict[str, object] = {"original_reference": "tk_1"}


@pytest.mark.parametrize(
    ("original", "code"),
    [
        (TICKET, None),
        ("no key", "unknown_original"),
        ("ticket:v1:acme:renewal-2", "unknown_original"),
        ("ticket:v1:globex:renewal-1", "unknown_original"),
        (PAYOUT, "not_a_compensation"),
        (CHARGE, "not_a_compensation"),
        ("ticket:v9:acme:renewal-1", "not_a_compensation"),
    ],
)
def test_what_is_undone_is_of_the_event_and_declared_to_be_undone_by_this(
    original: str, code: str | None
) -> None:
    """Where the table asks nobody, and so nobody saw what is undone, the catalogue says all the
    same what may undo what.
    """
    world = World(table=FREE, intent_changes={"compensates": original})
    assert world.refused(started().model_copy(update=UNDOING)) == code


def test_what_once_undid_an_operation_may_be_finished() -> None:
    """It was asked for while that was declared."""
    world = World(table=FREE, intent_changes={"compensates": TICKET})
    world.published.take_catalogue(catalogue(), 1)
    assert world.refused(started().model_copy(update=UNDOING)) is None


def test_what_a_plan_begins_and_undoes_is_acted_on() -> None:
    """Every start of a plan that comes to nothing, step by step and back."""
    told = Travelling()
    flight, hotel, car = ITEMS
    told.does(do(flight))
    told.does(do(hotel))
    told.does(do(car), NO)
    told.does(undo(hotel))
    told.does(undo(flight))
    assert told.has_come_to(SagaStatus.COMPENSATED)
    published = Published(policy=told.known.config.policy)
    published.take_catalogue(told.known.config.catalogue, 0)
    intents = {one.action: one for one in told.facts if isinstance(one, IntentRecorded)}
    starts = [one for one in told.facts if isinstance(one, AttemptStarted)]
    assert len(starts) == 5
    for start in starts:
        assert unallowed(start, intents[start.action], Grounds(published, GENERATION)) is None


def test_every_name_of_a_refusal_is_reached() -> None:
    """No name without a start that gets it; what is in no table above has a test of its own."""
    tables = (CONFIGURATION, FORGED_START, FORGED_APPROVAL, SAID)
    reached = {str(row[0]) for table in tables for row in table}
    assert {one.value for one in Unallowed} - reached == {"approval_missing", "performer_differs"}
    assert {Rejection.OTHER_REQUEST.value, Rejection.NOT_IN_GROUP.value} <= reached


def test_every_name_of_a_refusal_has_its_row_for_operators() -> None:
    """Whoever reads a code in the log finds what to do about it."""
    text = Path("docs/OPERATIONS.md").read_text(encoding="utf-8")
    table = text.partition("## Starts that are given back")[2].partition("\n## ")[0]
    tables = (CONFIGURATION, FORGED_START, FORGED_APPROVAL, SAID)
    reached = {str(row[0]) for one in tables for row in one}
    for code in {one.value for one in Unallowed} | reached:
        assert f"`{code}`" in table, code
