"""What stands on a sheet of earlier rounds, of what others said, and of whoever looks."""

from dataclasses import replace

from gateway.console.rounds import WHY_ENDED, earlier_rounds
from gateway.console.sheet import sheet_of
from gateway.http.sheets import DifferenceSheet, for_person
from gateway.http.sheets import sheet_of as of_door
from ledger.core import facts as f
from ledger.core.limits import TEXT_CHARS_MAX
from ledger.core.people import NOBODY
from ledger.core.preview import Change
from ledger.core.statement import Say
from ledger.log.published import Published
from projections.query_rows import CaseRow
from tests import examples as x
from tests.ledgers import ASKED
from tests.unit.console.test_sheet import (
    KEY,
    STREAM,
    asked,
    known,
    person,
    say,
)


def test_what_is_of_another_type_than_was_shown_stands_beside_it() -> None:
    """A text of digits is no number, an empty object is not nothing, and true is no text."""
    builder = asked()
    events = list(known(builder).events)
    preview = next(one for one in events if one.type == "preview.recorded")
    at = events.index(preview)
    was = {"fee": "1", "open": True, "plan": {}, "state": "open"}
    now = {"fee": 1, "open": "true", "state": "shut"}
    rounds = [
        replace(preview, data={**preview.data, "content": {"foreseen": {"observed": observed}}})
        for observed in (was, now)
    ]
    ended = f.ApprovalEnded(action=KEY, version=5, nonce="n", reason="expired")
    over = replace(events[-1], type=ended.type, data=ended.model_dump(mode="json"))
    (earlier,) = earlier_rounds((*events[:at], rounds[0], *events[at + 1 :], over, rounds[1]))
    assert [
        tuple(part.pieces[0].text for part in (one.name, one.was, one.now)) for one in earlier.moved
    ] == [
        ("fee", '"1"', "1"),
        ("open", "true", '"true"'),
        ("plan", "{}", "(absent)"),
        ("state", "open", "shut"),
    ]


def test_what_moved_stands_beside_what_was_shown() -> None:
    """After a round that came to nothing the old values stand beside the new ones."""
    builder = asked()
    events = list(known(builder).events)
    ended = f.ApprovalEnded(
        action=KEY,
        version=5,
        nonce="n",
        reason="volatile_changed",
        changes=(
            Change(name="balance", was="900", now="40"),
            Change(name="rate", was='"1.08"', now='"1.10"'),
            Change(name="plan", was='"monthly"', now="(absent)"),
            Change(name="text", was='"cut…', now='"whole"'),
        ),
    )
    template = events[-1]
    events.append(replace(template, type=ended.type, data=ended.model_dump(mode="json")))
    preview = next(one for one in events if one.type == "preview.recorded")
    long = "é" * (4 * TEXT_CHARS_MAX)
    content = {**preview.data["content"], "target": "order:other", "zz": long}
    again = {**preview.data, "content": content}
    events.append(replace(preview, data=again))
    found = sheet_of(
        replace(known(builder), events=tuple(events)), person("ada"), now_ms=x.T0
    ).earlier
    assert [(one.round, one.reason) for one in found] == [(1, "volatile_changed")]
    moved = {
        one.name.pieces[0].text: (one.was.pieces[0].text, one.now.pieces[0].text)
        for one in found[0].moved
    }
    assert moved["balance"] == ("900", "40")
    assert moved["rate"] == ("1.08", "1.10")
    assert moved["plan"] == ("monthly", "(absent)")
    assert moved["text"] == ('"cut…', "whole")
    assert moved["target"][1] == "order:other"
    case = CaseRow(known(builder).action, tuple(events), is_whole=True)
    (told,) = of_door(case, (), Published(), ledger="g", now_ms=x.T0, you="ada").earlier
    assert (told.round, told.sentence) == (1, WHY_ENDED["volatile_changed"])
    assert told.changes[0] == DifferenceSheet(name="balance", was="900", now="40")
    assert told.changes[-2].name == "target"
    assert told.changes[-1] == DifferenceSheet(name="zz", was="(absent)", now=long)


def test_a_sheet_says_of_whoever_looks_why_they_may_not_decide() -> None:
    """Of who asks for the action, or is of no group that decides; nothing, where nothing is."""
    found = known(asked())
    case = CaseRow(found.action, found.events, is_whole=True)
    sheet = of_door(case, (), Published(), ledger="g", now_ms=x.T0, you="ada")
    asker = person("ada").model_copy(update={"principals": (found.action.request.principal,)})
    for who, groups, code in (
        (asker, (), "requester_decides"),
        (person("ada"), ("nobody-is-in-it",), "not_in_group"),
        (person("ada"), (), None),
        (asker, None, None),
    ):
        barred = for_person(sheet, who, groups).barred
        assert (barred and barred.code) == code


def test_who_agreed_and_was_revoked_since_is_told_to_count_no_more() -> None:
    """On the page and at a terminal: whoever decides second is not the last, as it seems."""
    builder = asked()
    say(builder, "ada", Say.APPROVE)
    found, now = replace(known(builder), people=ASKED.people), builder.decided_at(STREAM)
    assert sheet_of(found, person("ben"), now_ms=now).void == ()
    case = CaseRow(found.action, found.events, is_whole=True)
    for people, is_over in ((ASKED.people, None), (NOBODY, True)):
        published = Published(people=people)
        told = of_door(case, (), published, ledger="g", now_ms=now, you="ben")
        assert told.asked is not None
        assert [one.void for one in told.asked.agreed] == [is_over]
    gone = replace(found, people=NOBODY)
    assert sheet_of(gone, person("ben"), now_ms=now).void == ("ada",)


def test_what_others_have_said_is_on_the_sheet() -> None:
    """Whoever decides second reads why the first one agreed, and who took it back."""
    events = list(known(asked()).events)
    for kind, comment in (("approval.granted", "She\u200b called."), ("approval.withdrawn", None)):
        data = {"type": kind, "person": "ben", "comment": comment}
        events.append(replace(events[-1], type=kind, data=data))
    found = replace(known(asked()), events=tuple(events))
    granted, withdrawn = sheet_of(found, person("ada"), now_ms=x.T0).remarks
    assert (granted.round, granted.person, granted.did) == (1, "ben", "agreed")
    assert granted.comment is not None
    assert granted.comment.is_marked
    assert (withdrawn.did, withdrawn.comment) == ("took it back", None)
