"""The chapters of the demonstration as tests know them: what each has to claim."""

from tests.acceptance.command import Installation
from tests.commands import Said

CLAIMS = {
    "story": {
        "written_ahead",
        "committed_and_lost",
        "agent_killed",
        "unknown",
        "no_second_call",
        "changed_amount_refused",
        "plain_agent_charges_twice",
        "webhook_settles",
        "one_charge",
        "replay_equals",
        "rebuild_equals",
    },
    "catalogue": {
        "outside_refused",
        "not_allowed",
        "allowed",
        "one_refund",
        "principals_recorded",
    },
    "policy": {"five_kinds", "hash_recorded", "explained", "whatif", "nothing_moved"},
    "preview": {"dry", "moved", "asked_anew", "one_refund"},
    "approvals": {
        "waits",
        "completed_once",
        "double_click",
        "denied",
        "expired",
        "asked_again",
        "forgeries",
        "book",
    },
    "review": {
        "to_a_person",
        "never_again",
        "refused_by_name",
        "settled",
        "once",
        "one_mail",
    },
    "webhook": {"settled_by_webhook", "counted_once", "forged_refused", "one_charge"},
    "lookup": {"asked_first", "settled_by_lookup", "one_charge"},
    "window": {"same_key", "only_looked_up", "to_a_person", "one_charge"},
    "nothing": {"never_failed", "not_before", "settled_by_a_person"},
    "conflict": {"nobody_chooses", "every_piece", "one_charge"},
    "ceilings": {"within", "counted_once", "held_back", "raised", "only_once"},
    "targets": {"waits", "goes_on", "look_alike", "occurrence", "three_refunds"},
    "replan": {
        "waits",
        "never_again",
        "side_by_side",
        "denied",
        "superseded",
        "goes_ahead",
        "one_each",
    },
    "compensation": {
        "own_actions",
        "never_more",
        "never_while_open",
        "goes_on",
        "a_case",
        "restored",
        "book",
    },
    "saga": {
        "whole_or_not",
        "one_decision",
        "last_first",
        "unknown_first",
        "replay",
        "compensated",
        "even",
    },
    "adversary": {
        "no_door",
        "no_key",
        "no_topic",
        "no_record",
        "no_change",
        "no_flood",
        "nothing",
    },
}


EVERYWHERE = {"replay_equals"}


def all_held(said: Said, chapter: str) -> None:
    """Every claim of a chapter was made, and held."""
    assert said.code == 0, said.out + said.err
    assert said.result["chapter"] == chapter
    claims = {one["id"]: one for one in said.result["claims"]}
    assert set(claims) == CLAIMS[chapter] | EVERYWHERE
    assert [one["text"] for one in claims.values() if not one["held"]] == []
    assert said.result["all_held"] is True


def holds(here: Installation, chapter: str) -> None:
    """A chapter, told beside whatever else goes on in an installation; it says what it took."""
    said = here.json("demo", chapter, "--here")
    all_held(said, chapter)
    assert said.result["took_ms"]["story"] > 0


OTHERS = [name for name in CLAIMS if name != "story"]
