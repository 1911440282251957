"""The sheet: all of what is signed, or nothing to sign."""

from dataclasses import replace

import pytest
from pydantic import JsonValue

from gateway.console.deciding import LABELS
from gateway.console.limits import SHEET_CHARS_MAX, SHEET_ROWS_MAX
from gateway.console.pages import Pages
from gateway.console.port import Known
from gateway.console.seals import Session, Visitor
from gateway.console.sheet import Sheet, amount, sheet_of, values_of
from gateway.console.site_file import Site
from gateway.memory.queries import MemoryQueries
from ledger.core.money import Money
from ledger.core.people import Person
from ledger.core.policy import AUTOMATIC
from ledger.core.preview import Preview, Undone, preview_hash
from ledger.core.records import Decision
from ledger.core.request import request_hash
from ledger.core.state import Action
from ledger.core.statement import Say, statement_hash
from ledger.log.envelope import read_ledger
from projections.queries import folded
from tests import asking
from tests import examples as x
from tests.ledgers import ASKED, LedgerBuilder

KEY = "payout:v1:acme:renewal-1"
STREAM = "acme/renewal-1"
TWO = "note:v1:acme:renewal-1"


def person(name: str) -> Person:
    """One of the people."""
    found = ASKED.people.person(name)
    assert found is not None
    return found


def asked(
    key: str = KEY, *, behalf: tuple[str, ...] | None = None, **changes: object
) -> LedgerBuilder:
    """A ledger in which people are asked about one action, and nobody acts."""
    builder = LedgerBuilder(config=ASKED)
    given = x.propose(key)
    request = given.request.model_copy(update=changes)
    builder.take(given.model_copy(update={"request": request, "behalf": behalf}), executor=None)
    return builder


def known(builder: LedgerBuilder, key: str = KEY) -> Known:
    """What a page is told of it."""
    queries = MemoryQueries()
    for record in builder.records():
        read = read_ledger(record.value)
        if isinstance(read, Decision):
            queries.feed(read)
    events = tuple(queries._events[key])
    return Known(folded(key, events), events, builder.generation, ASKED.policy)


def sheet(builder: LedgerBuilder, name: str = "ada", *, key: str = KEY, later_ms: int = 0) -> Sheet:
    """The sheet of a person."""
    now = builder.decided_at(STREAM) + later_ms
    return sheet_of(known(builder, key), person(name), now_ms=now)


def code(found: Sheet) -> str:
    """Why there is nothing to sign; and there is nothing then."""
    assert found.why_not is not None
    assert found.may == ()
    with pytest.raises(ValueError, match="nothing to sign"):
        found.statement(Say.APPROVE, "ada", comment=None, now_ms=0)
    return found.why_not.code


def say(builder: LedgerBuilder, name: str, said: Say, *, key: str = KEY) -> None:
    """A person signs what their sheet says."""
    at = builder.decided_at(STREAM) + 1
    made = sheet(builder, name, key=key).statement(said, name, comment=None, now_ms=at)
    judged = asking.judged(asking.judge(made), ASKED.people, at=at, ledger=builder.generation)
    decision = builder.take(judged, later_ms=1, executor=None)
    assert decision.refused is None, decision.refused


def is_met(builder: LedgerBuilder, key: str = KEY) -> bool:
    """Whether as many agreed as had to."""
    found = builder.streams[STREAM].action(key)
    assert found is not None
    assert found.approval is not None
    return found.approval.is_met


def test_what_a_sheet_offers_is_what_the_ledger_counts() -> None:
    """The statement made from a sheet is granted by the real rules, whoever is asked."""
    builder = asked()
    assert sheet(builder).may == (Say.APPROVE, Say.DENY)
    say(builder, "ada", Say.APPROVE)
    assert is_met(builder)


def test_a_yes_can_be_taken_back_and_given_again_at_once() -> None:
    """However soon the second yes comes, it is another one than the first."""
    builder = asked(TWO)
    say(builder, "ada", Say.APPROVE, key=TWO)
    assert sheet(builder, key=TWO).may == (Say.WITHDRAW, Say.DENY)
    say(builder, "ada", Say.WITHDRAW, key=TWO)
    assert sheet(builder, key=TWO).may == (Say.APPROVE, Say.DENY)
    say(builder, "ada", Say.APPROVE, key=TWO)
    say(builder, "ben", Say.APPROVE, key=TWO)
    assert is_met(builder, TWO)


def test_who_may_not_decide_finds_no_button() -> None:
    """Another tenant's people, other groups, and who asks, each under the ledger's own name."""
    builder = asked(behalf=("ada",))
    assert code(sheet(builder)) == "requester_decides"
    assert sheet(builder, "ben").may
    stranger = person("ben").model_copy(update={"tenants": ("globex",)})
    now = builder.decided_at(STREAM)
    assert code(sheet_of(known(builder), stranger, now_ms=now)) == "not_for_tenant"
    action = known(builder).action
    assert action.approval is not None
    grouped = replace(action, approval=replace(action.approval, groups=("board",)))
    found = replace(known(builder), action=grouped)
    assert code(sheet_of(found, person("ben"), now_ms=now)) == "not_in_group"


def test_what_is_over_offers_nothing() -> None:
    """After its time, after a denial, before anybody was asked."""
    builder = asked()
    assert sheet(builder, later_ms=29_999).may
    assert code(sheet(builder, later_ms=30_000)) == "approval_expired"
    say(builder, "ada", Say.DENY)
    assert code(sheet(builder, "ben")) == "already_final"
    automatic = asked("ticket:v1:acme:renewal-1")
    found = sheet(automatic, key="ticket:v1:acme:renewal-1")
    assert code(found) == "nothing_asked"


def test_a_provider_that_does_not_say_what_would_happen_is_told_of() -> None:
    """By its code: "look again in a moment" alone would be said for as long as it does not."""
    whole = known(asked())
    dry = whole.action.dry
    assert dry is not None
    failed = replace(dry, failed=2, code="volatile_missing", content=None, content_hash=None)
    action = replace(whole.action, approval=None, dry=failed)
    found = sheet_of(replace(whole, action=action), person("ada"), now_ms=x.T0)
    assert code(found) == "preview_under_way"
    assert found.why_not is not None
    assert "did not say: volatile_missing" in found.why_not.sentence


def test_a_sheet_that_is_not_what_would_be_signed_offers_nothing() -> None:
    """Every hash is computed again from what is shown; what differs, or is missing, is told."""
    whole = known(asked())
    action, now = whole.action, x.T0
    assert action.approval is not None
    assert action.dry is not None
    assert action.dry.content is not None

    def why(found: Known) -> str:
        return code(sheet_of(found, person("ada"), now_ms=now))

    def of_action(found: Action) -> str:
        return why(replace(whole, action=found))

    other = action.request.model_copy(update={"target": "order:other"})
    content = action.dry.content.model_copy(update={"target": "order:other"})
    assert of_action(replace(action, request=other)) == "sheet_incomplete"
    assert of_action(replace(action, dry=replace(action.dry, content=content))) == (
        "sheet_incomplete"
    )
    assert of_action(replace(action, provider="another")) == "sheet_incomplete"
    assert of_action(replace(action, account="another")) == "sheet_incomplete"
    assert of_action(replace(action, dry=None)) == "sheet_incomplete"
    assert why(replace(whole, is_whole=False)) == "sheet_incomplete"
    assert why(replace(whole, policy=None)) == "policy_not_shown"
    assert why(replace(whole, policy=AUTOMATIC)) == "policy_not_shown"
    approval = replace(action.approval, row="gone")
    assert of_action(replace(action, approval=approval)) == "policy_not_shown"


def foreseen_for(action: Action) -> Action:
    """The action with the hash of its request, and a dry run of that."""
    asked, dry = action.approval, action.dry
    assert asked is not None
    assert dry is not None
    assert dry.content is not None
    found = request_hash(action.request)
    content = dry.content.model_copy(update={"request_hash": found})
    return replace(
        action,
        request_hash=found,
        dry=replace(dry, content=content),
        approval=replace(asked, preview_hash=preview_hash(content)),
    )


def test_more_than_a_person_can_read_is_shown_and_not_signed() -> None:
    """The limit is one of values, and one of characters; all of it is on the sheet."""
    whole = known(asked())

    def of(params: dict[str, JsonValue]) -> Sheet:
        request = whole.action.request.model_copy(update={"params": params})
        action = foreseen_for(replace(whole.action, request=request))
        return sheet_of(replace(whole, action=action), person("ada"), now_ms=x.T0)

    room = SHEET_CHARS_MAX - len("/text")
    assert of({"text": "x" * room}).may
    assert code(of({"text": "x" * (room + 1)})) == "sheet_too_large"
    assert of({"list": ["a"] * SHEET_ROWS_MAX}).may
    found = of({"list": ["a"] * (SHEET_ROWS_MAX + 1)})
    assert code(found) == "sheet_too_large"
    assert len(found.values) == SHEET_ROWS_MAX + 1


def test_every_value_is_there_with_its_type() -> None:
    """A number is no text, nothing is no text, and an empty list is told as one."""
    value: JsonValue = {"a": "5", "b": 5, "c": True, "d": None, "e": [], "f": {}, "g": [{"h": "x"}]}
    found = [
        (
            "".join(p.text for p in one.path.pieces),
            one.kind,
            "".join(p.text for p in one.text.pieces),
        )
        for one in values_of(value)
    ]
    assert found == [
        ("/a", "text", "5"),
        ("/b", "number", "5"),
        ("/c", "true or false", "true"),
        ("/d", "nothing", "null"),
        ("/e", "list", "(empty)"),
        ("/f", "object", "(empty)"),
        ("/g/0/h", "text", "x"),
    ]
    token: JsonValue = {"name": {"$token": "hmac-sha256:" + "0" * 64}}
    assert [one.kind for one in values_of(token)] == ["personal, kept apart"]


def test_every_name_is_there_whole() -> None:
    """However long it is, and told from another one that spells out what cannot be seen."""
    long = "a" * 300 + " grant admin to mallory"
    paths = [one.path for one in values_of({long: 1, "q\u202eab": 2, "q\\u202eab": 3, "a/b~": 4})]
    written = ["".join(piece.text for piece in path.pieces) for path in paths]
    assert written == [f"/{long}", "/q\\u202eab", "/q\\u202eab", "/a~1b~0"]
    assert [path.is_marked for path in paths] == [False, True, False, False]


@pytest.mark.parametrize(
    ("minor", "currency", "written"),
    [
        (12_000, "EUR", "120.00 EUR"),
        (124_050_00, "USD", "124,050.00 USD"),
        (5, "EUR", "0.05 EUR"),
        (1_200, "JPY", "1,200 JPY"),
        (1_234, "KWD", "1.234 KWD"),
    ],
)
def test_amounts_are_written_as_people_read_them(minor: int, currency: str, written: str) -> None:
    """With as many decimals as the currency has."""
    assert amount(Money(minor=minor, currency=currency)) == written


def test_the_fingerprint_of_a_sheet_is_that_of_what_is_signed() -> None:
    """Another person, another round, another payload: another sheet."""
    first = sheet(asked())
    assert first.fingerprint("ada") == sheet(asked()).fingerprint("ada")
    assert first.fingerprint("ada") != first.fingerprint("ben")
    other = sheet(asked(target="order:other"))
    assert first.fingerprint("ada") != other.fingerprint("ada")
    one, two = (
        found.statement(Say.APPROVE, "ada", comment=None, now_ms=x.T0) for found in (first, other)
    )
    assert statement_hash(one) != statement_hash(two)


def test_what_a_revision_changes_stands_beside_what_it_revises() -> None:
    """Field by field, as text that marks what cannot be seen; and how the earlier one stood."""
    builder = asked()
    request = x.request(KEY).model_copy(update={"target": "order:\u0410-1842"})
    revision = x.propose(f"{KEY}~2", request=request, revises=KEY)
    builder.take(revision, executor=None)
    foreseen = sheet(builder, key=f"{KEY}~2").foreseen
    assert foreseen is not None
    assert foreseen.revised is not None
    assert (foreseen.revised.action.pieces[0].text, foreseen.revised.status) == (KEY, "superseded")
    (change,) = foreseen.revised.changes
    assert change.name.pieces[0].text == "/target"
    assert change.now.notes
    assert sheet(builder).foreseen is not None
    assert sheet(builder).why_not is not None


def shows(preview: Preview, **changes: object) -> Sheet:
    """The sheet of an action whose people are asked by another dry run."""
    builder = asked()
    found = known(builder)
    action, digest = found.action, preview_hash(preview)
    assert action.dry is not None
    assert action.approval is not None
    told = {
        "dry": replace(action.dry, content=preview, content_hash=digest),
        "approval": replace(action.approval, preview_hash=digest),
        **changes,
    }
    action = replace(action, **told)  # type: ignore[arg-type] # each is of its field's type
    return sheet_of(replace(found, action=action), person("ada"), now_ms=x.T0)


def dry_run() -> Preview:
    """What people are shown of the action."""
    dry = known(asked()).action.dry
    assert dry is not None
    assert dry.content is not None
    return dry.content


def test_what_is_undone_stands_on_the_sheet_or_there_is_nothing_to_sign() -> None:
    """The action, how it stood, the provider's name for its effect, its target and amount; a dry
    run that shows none, or another, is not what would be signed.
    """
    money = Money(minor=124_050, currency="EUR")
    undone = Undone(action=TWO, status="completed", reference="n_1", target="order:7", money=money)
    preview = dry_run().model_copy(update={"undoes": undone})
    found = shows(preview, compensates=TWO)
    assert found.may == (Say.APPROVE, Say.DENY)
    assert found.foreseen is not None
    told = found.foreseen.undone
    assert told is not None
    assert told.reference is not None
    assert told.target is not None
    assert (told.action.pieces[0].text, told.status, told.money) == (
        TWO,
        "completed",
        "1,240.50 EUR",
    )
    assert (told.reference.pieces[0].text, told.target.pieces[0].text) == ("n_1", "order:7")
    for other in (None, f"{TWO}#other"):
        assert code(shows(preview, compensates=other)) == "sheet_incomplete"
    assert code(shows(dry_run(), compensates=TWO)) == "sheet_incomplete"


def test_who_carries_it_out_is_what_people_sign() -> None:
    """A dry run that says otherwise than the ledger is not what would be signed."""
    by_caller = dry_run().model_copy(update={"performer": "caller"})
    assert shows(by_caller, performer="caller").may
    assert code(shows(by_caller)) == "sheet_incomplete"
    assert code(shows(dry_run(), performer="caller")) == "sheet_incomplete"


def page(found: Sheet) -> str:
    """The page of a sheet, as it is sent."""
    visitor = Visitor(Session("s", "ada", "k", x.T0 + 1), person("ada"))
    context = {
        "visitor": visitor,
        "form": "",
        "now": x.T0,
        "here": "approve",
        "no": None,
        "sheet": found,
        "action": found.action,
        "fingerprint": found.fingerprint("ada"),
        "labels": LABELS,
        "comment_chars_max": 1_000,
    }
    answer = Pages(Site("https://ledger.example.com", b"s" * 32)).page("approve", context)
    return bytes(answer.body).decode()


def test_the_page_tells_what_is_undone_and_that_its_caller_acts() -> None:
    """Each as text that cannot run; and nothing of it where there is nothing to tell."""
    undone = Undone(action=TWO, status="completed", reference="n_<b>1", target="order:7")
    told = {"undoes": undone, "performer": "caller"}
    preview = dry_run().model_copy(update=told)
    text = page(shows(preview, compensates=TWO, performer="caller"))
    for said in (TWO, "<strong>completed</strong>", "n_&lt;b&gt;1", "order:7", "its caller itself"):
        assert said in text, said
    plain = page(sheet(asked()))
    assert "What it undoes" not in plain
    assert "its caller itself" not in plain
