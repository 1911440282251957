"""Matching: our key first, the provider's reference second, and a named reason for all the rest."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.ids import ProviderKeyRule, is_action_key, provider_key
from ledger.core.money import Money
from reconciler.matching import (
    AWAITS_REFERENCE,
    WITHOUT_MARK,
    Fitting,
    Irrelevant,
    Matched,
    MatchedBy,
    Parked,
    ParkedReason,
    match_composite,
    match_webhook,
)
from reconciler.providers.port import MappedWebhook, Unrecognised

KEY = "charge:v1:acme:renewal-2026-08-28-01"
OTHER = "charge:v1:acme:renewal-2026-09-28-01"
SETTLED = MappedWebhook(
    meaning="final",
    effect="exists",
    event_id="evt_1",
    event_type="effect.settled",
    account="main",
    reference="ch_1",
    action_key=None,
    provider_key=None,
    money=Money(minor=4990, currency="EUR"),
    occurred_at=1_700_000_000_000,
)


def says(**changes: object) -> MappedWebhook:
    """Build a settlement with something changed."""
    return dataclasses.replace(SETTLED, **changes)  # type: ignore[arg-type]


def test_our_key_in_the_metadata_names_the_action() -> None:
    """A webhook that carries our key is matched before any reference is known."""
    match = match_webhook(says(action_key=KEY), account="main", known=())
    assert match == Matched(KEY, MatchedBy.METADATA)


def test_the_provider_key_names_the_action_where_it_is_ours_unchanged() -> None:
    """A provider that gives the key back instead of metadata names the action as well."""
    match = match_webhook(says(provider_key=KEY), account="main", known=())
    assert match == Matched(KEY, MatchedBy.PROVIDER_KEY)


SHORTENED = provider_key(KEY, ProviderKeyRule(length_max=32))


def test_the_key_that_the_provider_was_given_names_the_action() -> None:
    """A webhook may bear nothing but the shortened key: it stands for the action whose attempt it
    was given in, and waits for it where that is not known yet.
    """
    bare = says(provider_key=SHORTENED, reference=None)
    assert match_webhook(bare, account="main", known=()) == Parked(ParkedReason.REFERENCE_UNKNOWN)
    for one in (bare, says(provider_key=SHORTENED)):
        match = match_webhook(one, account="main", known=(), keyed=[KEY])
        assert match == Matched(KEY, MatchedBy.PROVIDER_KEY)
    agreeing = says(provider_key=SHORTENED, action_key=KEY)
    assert match_webhook(agreeing, account="main", known=[KEY], keyed=[KEY]) == Matched(
        KEY, MatchedBy.METADATA
    )


@pytest.mark.parametrize(
    ("changes", "known", "keyed", "reason"),
    [
        ({"action_key": OTHER}, [], [KEY], ParkedReason.MARKS_DISAGREE),
        ({}, [OTHER], [KEY], ParkedReason.MARKS_DISAGREE),
        ({}, [], [KEY, OTHER], ParkedReason.REFERENCE_AMBIGUOUS),
        ({"account": "other"}, [], [KEY], ParkedReason.ACCOUNT_DIFFERS),
    ],
)
def test_a_known_key_is_a_mark_like_the_others(
    changes: dict[str, object], known: list[str], keyed: list[str], reason: ParkedReason
) -> None:
    """It has to agree with the rest, and counts on its own account alone."""
    mapped = says(provider_key=SHORTENED, **changes)
    assert match_webhook(mapped, account="main", known=known, keyed=keyed) == Parked(reason)


def test_on_an_account_of_several_writers_a_known_key_is_not_enough() -> None:
    """As with the key in metadata, only together with a reference that the ledger knows."""
    mapped = says(provider_key=SHORTENED)
    alone = match_webhook(mapped, account="main", known=(), keyed=[KEY], shared=("main",))
    assert alone == Parked(ParkedReason.ACCOUNT_SHARED)
    both = match_webhook(mapped, account="main", known=[KEY], keyed=[KEY], shared=("main",))
    assert both == Matched(KEY, MatchedBy.PROVIDER_KEY)


def test_a_known_reference_names_the_action() -> None:
    """Without any mark of ours, the provider's reference decides."""
    match = match_webhook(says(), account="main", known=[KEY])
    assert match == Matched(KEY, MatchedBy.REFERENCE)


def test_what_was_given_back_is_matched_by_the_effect_that_it_names() -> None:
    """The name of a refund is nobody's; the name of the charge is the action's."""
    refund = says(effect="reversed", reference="re_7", reverses="ch_1")
    assert refund.names == "ch_1"
    assert match_webhook(refund, account="main", known=[KEY]) == Matched(KEY, MatchedBy.REFERENCE)
    unnamed = says(effect="reversed", reference=None, reverses="ch_1")
    assert match_webhook(unnamed, account="main", known=()) == Parked(
        ParkedReason.REFERENCE_UNKNOWN
    )


def test_a_refund_of_ours_bears_its_own_mark_and_the_name_of_what_it_undoes() -> None:
    """The mark of a compensation and the name of its original's effect are of one stream."""
    own = "refund:v1:acme:renewal-2026-08-28-01"
    refund = says(effect="reversed", reference="re_7", reverses="ch_1", action_key=own)
    assert match_webhook(refund, account="main", known=[KEY]) == Matched(own, MatchedBy.METADATA)
    foreign = dataclasses.replace(refund, action_key=OTHER)
    assert match_webhook(foreign, account="main", known=[KEY]) == Parked(
        ParkedReason.MARKS_DISAGREE
    )


def test_metadata_that_is_not_ours_is_passed_over() -> None:
    """A text that is no action key is somebody else's metadata; the reference still counts."""
    mapped = says(action_key="order 4711", provider_key="3f2a")
    assert match_webhook(mapped, account="main", known=[KEY]) == Matched(KEY, MatchedBy.REFERENCE)


@pytest.mark.parametrize(
    ("mapped", "known", "reason"),
    [
        (says(), [], ParkedReason.REFERENCE_UNKNOWN),
        (says(reference=None), [], ParkedReason.REFERENCE_MISSING),
        (says(), [KEY, OTHER], ParkedReason.REFERENCE_AMBIGUOUS),
        (says(action_key=KEY), [OTHER], ParkedReason.MARKS_DISAGREE),
        (says(action_key=KEY, provider_key=OTHER), [], ParkedReason.MARKS_DISAGREE),
        (says(account="other", action_key=KEY), [KEY], ParkedReason.ACCOUNT_DIFFERS),
    ],
)
def test_what_is_nobodys_is_parked_under_a_reason(
    mapped: MappedWebhook, known: list[str], reason: ParkedReason
) -> None:
    """A webhook that cannot be tied to exactly one action waits, and says why."""
    assert match_webhook(mapped, account="main", known=known) == Parked(reason)


def test_on_a_shared_account_metadata_alone_proves_nothing() -> None:
    """Where others write metadata too, our key counts only with a reference we know."""
    mapped = says(action_key=KEY)
    alone = match_webhook(mapped, account="main", known=(), shared=("main",))
    assert alone == Parked(ParkedReason.ACCOUNT_SHARED)
    both = match_webhook(mapped, account="main", known=[KEY], shared=("main",))
    assert both == Matched(KEY, MatchedBy.METADATA)


def test_an_irrelevant_type_is_no_evidence() -> None:
    """A known type that says nothing about an action is kept and goes no further."""
    mapped = says(meaning="irrelevant", effect="pending", action_key=KEY)
    assert match_webhook(mapped, account="main", known=[KEY]) == Irrelevant()


def test_what_the_mapping_does_not_understand_stays_as_it_is() -> None:
    """Bytes without a meaning keep the mapping's reason."""
    unrecognised = Unrecognised("unknown_event_type", "effect.sang")
    assert match_webhook(unrecognised, account="main", known=()) == unrecognised


@pytest.mark.parametrize("status", ["attempting", "unknown", "needs_review"])
def test_the_one_action_that_fits_and_waits_for_word_is_meant(status: str) -> None:
    """A declared composite names it, and says so in the row."""
    found = match_composite(Fitting({KEY: status}), ParkedReason.REFERENCE_UNKNOWN)
    assert found == Matched(KEY, MatchedBy.COMPOSITE)


@pytest.mark.parametrize("reason", sorted(WITHOUT_MARK))
@pytest.mark.parametrize("status", ["proposed", "ready", "completed", "failed"])
def test_an_action_that_waits_for_no_word_is_no_match(status: str, reason: ParkedReason) -> None:
    """What fits only an action that is settled, or was not begun, may be the effect of nobody."""
    assert match_composite(Fitting({KEY: status}), reason) == Parked(reason)
    assert match_composite(Fitting({}), reason) == Parked(reason)


@pytest.mark.parametrize("status", ["unknown", "completed"])
def test_an_action_with_an_effect_by_its_composite_is_given_no_second_one(status: str) -> None:
    """Whatever became of it: a second effect is a case, and no repetition of the first."""
    found = match_composite(Fitting({KEY: status}, is_taken=True), ParkedReason.REFERENCE_MISSING)
    assert found == Parked(ParkedReason.COMPOSITE_AMBIGUOUS)


@pytest.mark.parametrize("other", ["unknown", "completed", "ready"])
def test_of_several_that_fit_nobody_but_a_person_can_tell(other: str) -> None:
    """Even where only one of them waits for word."""
    found = match_composite(Fitting({KEY: "unknown", OTHER: other}), ParkedReason.REFERENCE_MISSING)
    assert found == Parked(ParkedReason.COMPOSITE_AMBIGUOUS)


_keys = st.sampled_from([KEY, OTHER, "charge:v1:globex:renewal-2026-08-28-01"])


@given(
    mapped=st.builds(
        MappedWebhook,
        meaning=st.sampled_from(["final", "progress", "irrelevant"]),
        effect=st.sampled_from(["exists", "none", "pending"]),
        event_id=st.just("evt_1"),
        event_type=st.just("effect.settled"),
        account=st.sampled_from(["main", "other"]),
        reference=st.none() | st.text(max_size=8),
        action_key=st.none() | _keys | st.text(max_size=8),
        provider_key=st.none() | _keys | st.text(max_size=8),
        money=st.none(),
        occurred_at=st.just(0),
    ),
    known=st.sets(_keys),
    keyed=st.sets(_keys, max_size=2),
    shared=st.frozensets(st.just("main")),
)
def test_more_knowledge_never_moves_a_webhook_to_another_action(
    mapped: MappedWebhook,
    known: set[str],
    keyed: set[str],
    shared: frozenset[str],
) -> None:
    """Whichever comes first, webhook, reference or attempt: it is the same action or none."""
    if mapped.provider_key is None or is_action_key(mapped.provider_key):
        keyed = set()
    before = match_webhook(mapped, account="main", known=(), shared=shared)
    after = match_webhook(mapped, account="main", known=known, keyed=keyed, shared=shared)
    if isinstance(before, Matched) and isinstance(after, Matched):
        assert before.action_key == after.action_key
    if isinstance(after, Matched) and not isinstance(before, Matched):
        assert isinstance(before, Parked)
        assert before.reason in AWAITS_REFERENCE | {ParkedReason.REFERENCE_MISSING}
        assert after.action_key in known | keyed
        assert before.reason in AWAITS_REFERENCE or after.action_key in known
    assert isinstance(before, Irrelevant) == isinstance(after, Irrelevant)
