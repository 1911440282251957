"""Telling people that something waits: whom, in which words, and with what signature."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.app import run
from gateway.cli.doctor import _notices
from gateway.settings import Settings
from ledger.core.money import Money
from ledger.core.people import People
from ledger.log.attention_record import AttentionKind, AttentionRaised, PeopleWanted
from reconciler.notifying.destinations import (
    Destinations,
    Mail,
    Smtp,
    UnusableDestinations,
    Webhook,
    load_destinations,
    read_destinations,
)
from reconciler.notifying.messages import Message, Pages, payload, subject, text
from reconciler.notifying.sending import mail, signed
from reconciler.notifying.wanted import Wanted, concerned
from reconciler.webhooks import Verified, verify
from tests.approving import people, people_text
from tests.examples import T0

SECRET = "whsec_bm90aWZ5IHRoZSBwZW9wbGUgd2hvIGFyZSBhc2tlZA=="
PAGES = Pages("https://ledger.example")
SMTP = Smtp("mail.example", 587, "starttls", "ledger@example.org")
FILE = """
[[webhook]]
name = "ops-chat"
url = "https://hooks.example/approvals?team=1"
secret_file = "ops.secret"
groups = ["finance"]

[smtp]
host = "mail.example"
username = "ledger"
password_file = "smtp.password"
sender = "ledger@example.org"

[[mail]]
person = "ann"
to = "ann@example.org"

[[mail]]
person = "cem"
to = "cem@example.org"
"""


def wanted(number: int = 1, **changes: object) -> Wanted:
    """An action that waits for two people of finance."""
    made: dict[str, object] = {
        "notice": f"0/{number}/2",
        "action": f"refund:v1:acme:order-{number}",
        "version": 4,
        "tenant": "acme",
        "kind": "approval_requested",
        "row": "large",
        "groups": ("finance",),
        "raised_at": T0,
        "quorum": 2,
        "expires_at": T0 + 600_000,
        "money": Money(minor=12_000, currency="EUR"),
        "target": "order:A-1842",
    }
    return Wanted(**{**made, **changes})  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of destinations with its secrets."""
    (tmp_path / "ops.secret").write_text(SECRET + "\n", encoding="utf-8")
    (tmp_path / "smtp.password").write_text("open sesame\n", encoding="utf-8")
    path = tmp_path / "notify.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


# --- the file ----------------------------------------------------------------------------------


def test_a_file_is_read_whole_and_its_secrets_are_never_shown(file: Path) -> None:
    """Secrets come from files of their own, relative to it, and stand in no repr."""
    known = read_destinations(file)
    assert isinstance(known, Destinations)
    assert [one.id for one in known.all] == ["webhook:ops-chat", "mail:ann", "mail:cem"]
    assert known.webhooks[0].secret == SECRET
    assert known.smtp is not None
    assert known.smtp.password == "open sesame"
    shown = repr(known)
    assert SECRET not in shown
    assert "sesame" not in shown
    assert "ann@example.org" not in shown


MISTAKES = [
    ("https://hooks", "http://hooks", "webhook[0].url", "https"),
    ("https://hooks", "https://u:p@hooks", "webhook[0].url", "no user"),
    ('name = "ops-chat"', 'name = "ops chat"', "webhook[0].name", "letters"),
    ('"ops.secret"', '"missing.secret"', "webhook[0].secret_file", "cannot be read"),
    ('"ops.secret"', '"smtp.password"', "webhook[0].secret_file", "whsec_"),
    ('"ann@example.org"', '"Ann <ann@example.org>"', "mail[0].to", "one address"),
    ('"ann@example.org"', '"ann@example.org\\nBcc: eve@example.org"', "mail[0].to", "one address"),
    ('person = "cem"', 'person = "ann"', "mail[1].person", "twice"),
    ('username = "ledger"\n', "", "smtp", "both"),
    ('sender = "', 'security = "none"\nsender = "', "smtp.security", "this machine"),
    ('host = "mail.example"', 'hosts = "mail.example"', "smtp.hosts", "is not a known key"),
]


@pytest.mark.parametrize(("old", "new", "path", "said"), MISTAKES)
def test_every_mistake_is_told_on_its_line(
    file: Path, old: str, new: str, path: str, said: str
) -> None:
    """A file is used whole or not at all; no sentence holds what is in a secret."""
    broken = FILE.replace(old, new, 1)
    assert broken != FILE
    file.write_text(broken, encoding="utf-8")
    mistakes = read_destinations(file)
    assert isinstance(mistakes, tuple)
    (found, *_) = [one for one in mistakes if one.path == path]
    assert said in found.message
    assert found.line > 0
    assert SECRET not in str(mistakes)
    with pytest.raises(UnusableDestinations, match=re.escape(str(file))):
        load_destinations(file)


def test_mail_without_a_server_is_a_mistake(file: Path) -> None:
    """Somebody is to be written to, and nothing says how."""
    head, _, rest = FILE.partition("[smtp]")
    file.write_text(head + "[[mail]]" + rest.partition("[[mail]]")[2], encoding="utf-8")
    mistakes = read_destinations(file)
    assert isinstance(mistakes, tuple)
    assert [(one.path, one.message) for one in mistakes] == [
        ("smtp", "is missing: how is mail to leave?")
    ]


def test_what_is_wrong_with_secrets_is_told_beside_what_is_wrong_with_the_form(file: Path) -> None:
    """Whoever corrects a file is told of all of it at once, also where it is nonsense."""
    broken = FILE.replace('"ops.secret"', '"missing.secret"', 1).replace("host = ", "hosts = ", 1)
    file.write_text(broken, encoding="utf-8")
    mistakes = read_destinations(file)
    assert isinstance(mistakes, tuple)
    assert {"webhook[0].secret_file", "smtp.hosts"} <= {one.path for one in mistakes}
    for nonsense in ("webhook = 3", "webhook = [1, {}]", "smtp = []", "[smtp]\npassword_file = 3"):
        file.write_text(nonsense, encoding="utf-8")
        assert isinstance(read_destinations(file), tuple), nonsense


# --- whom --------------------------------------------------------------------------------------


def told(known: Destinations, who: People | None = None, **changes: object) -> list[str]:
    """Who is told of an action."""
    return list(concerned(wanted(1, **changes), people() if who is None else who, known))


def test_people_are_told_who_may_decide_and_no_others(file: Path) -> None:
    """By the document of people, for the groups that are asked and the tenant it is for."""
    known = load_destinations(file)
    assert told(known) == ["webhook:ops-chat", "mail:ann"]
    assert told(known, groups=("operations",)) == ["mail:cem"]
    assert told(known, groups=()) == ["webhook:ops-chat", "mail:ann", "mail:cem"]
    assert told(known, tenant="other") == ["webhook:ops-chat"]
    gone = people(people_text(ann="revoked = true"))
    assert told(known, gone) == ["webhook:ops-chat"]


def test_a_notice_that_wants_nobody_is_none() -> None:
    """What became unknown is an alarm, and nobody's decision."""
    raised = AttentionRaised(
        kind=AttentionKind.BECAME_UNKNOWN,
        action="refund:v1:acme:order-1",
        stream="acme/order-1",
        version=3,
        code="timeout",
        decided_at=T0,
        ledger_partition=0,
        ledger_offset=7,
        ordinal=0,
    )
    assert Wanted.of(raised) is None
    asked = raised.model_copy(update={"people": PeopleWanted(groups=("finance",))})
    made = Wanted.of(asked)
    assert made is not None
    assert (made.notice, made.tenant, made.operation) == ("0/7/0", "acme", "refund v1")
    assert Wanted.of(asked.model_copy(update={"action": "no key"})) is None


# --- in which words ----------------------------------------------------------------------------


def test_a_case_is_told_with_its_reason_and_its_own_page() -> None:
    """Whom it wants, why, and the page on which it is settled."""
    case = wanted(kind="needs_review", row="amount_differs", groups=(), quorum=1, expires_at=None)
    message = Message("msg_1", (case,), T0)
    said = text(message, PAGES)
    assert "a person who may decide for the tenant, to settle its case: amount_differs" in said
    assert "https://ledger.example/console/review/refund:v1:acme:order-1" in said
    assert "/console/approve/" not in said
    (one,) = json.loads(payload(message, PAGES))["data"]["waiting"]
    assert (one["kind"], one["link"].rpartition("/")[0]) == (
        "needs_review",
        "https://ledger.example/console/review",
    )


def test_a_mail_says_what_waits_and_decides_nothing() -> None:
    """The amount as it was recorded, whom it wants, until when, one link to look, and no button."""
    said = text(Message("msg_1", (wanted(),), T0), PAGES)
    assert "120.00 EUR" in said
    assert "2 people of finance, by the row large" in said
    assert "until       2027-01-15 08:10 UTC" in said
    assert "https://ledger.example/console/approve/refund:v1:acme:order-1" in said
    assert "Nothing is decided by answering" in said
    assert not re.search(r"token|nonce|approve it|deny", said)


HOSTILE = [
    "order:A\nSubject: Approved\n\nAmount: 1.00 EUR",
    "order:\u202e00.0 RUE",
    "order:<a href='https://evil.example'>approve</a>",
    "order:\x1b[2J\x00",
    'order:"}],"more":0}',
    "order:" + "x" * 10_000,
]


@pytest.mark.parametrize("target", HOSTILE)
def test_what_an_agent_chose_stays_a_quoted_text(target: str) -> None:
    """It begins no line, breaks out of no quotes, hides nothing and is not long."""
    message = Message("msg_1", (wanted(target=target),), T0)
    said = text(message, PAGES)
    (line,) = [one for one in said.splitlines() if one.startswith("  target")]
    assert line.endswith('", as the agent wrote it')
    assert len(line) < 1_000
    assert said.isascii()
    assert all(character.isprintable() or character == "\n" for character in said)
    assert len(said.splitlines()) == len(text(Message("m", (wanted(),), T0), PAGES).splitlines())
    read = json.loads(payload(message, PAGES))
    assert read["data"]["waiting"][0]["amount"] == {"minor": 12_000, "currency": "EUR"}
    assert read["data"]["waiting"][0]["target"].isprintable()
    headers = mail(Mail("ann", "ann@example.org"), message, PAGES, SMTP)
    assert headers["Subject"] == "An action waits for your decision: refund v1"
    assert headers.get_all("To") == ["ann@example.org"]
    assert "Bcc" not in headers


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("https://evil.example/console/approve/x", "https:[//]evil[.]example/console/approve/x"),
        ("order:www.evil.example", "order:www[.]evil[.]example"),
        ("customer:ann@example.org", "customer:ann@example[.]org"),
        ("order:A.18.42", "order:A.18.42"),
    ],
)
def test_no_program_makes_a_link_of_what_an_agent_chose(target: str, shown: str) -> None:
    """Neither of a target nor of a key: whoever follows a link in a mail comes to the pages."""
    key = "refund:v1:acme:www.evil.example"
    said = text(Message("msg_1", (wanted(target=target, action=key),), T0), PAGES)
    assert f'  target      "{shown}", as the agent wrote it' in said
    assert '  key         "refund:v1:acme:www[.]evil[.]example"' in said
    links = re.findall(r"\S*(?:://|[a-z]\.[A-Za-z]{2})\S*", said)
    assert links == [PAGES.one(key), PAGES.all]


@given(st.text(max_size=200))
def test_no_target_changes_any_other_line(target: str) -> None:
    """Whatever an agent writes, the rest of the mail is what it is without it."""
    plain = text(Message("m", (wanted(),), T0), PAGES).splitlines()
    said = text(Message("m", (wanted(target=target),), T0), PAGES).splitlines()
    other = [line for line in said if not line.startswith("  target")]
    assert other == [line for line in plain if not line.startswith("  target")]


def test_many_that_wait_are_one_message() -> None:
    """The first twenty by name, the rest as a number."""
    many = tuple(wanted(number) for number in range(1, 26))
    message = Message("msg_1", many, T0)
    assert subject(message) == "25 actions wait for a decision"
    said = text(message, PAGES)
    assert said.count("look at it") == 20
    assert "and 5 more." in said
    read = json.loads(payload(message, PAGES))
    assert len(read["data"]["waiting"]) == 20
    assert read["data"]["more"] == 5
    assert read["data"]["page"] == "https://ledger.example/console/waiting"


def test_an_escalation_says_why_it_comes() -> None:
    """Whoever comes into it now learns that nobody decided in time."""
    one = wanted(kind="approval_escalated", groups=("board",), quorum=None, expires_at=None)
    said = text(Message("m", (one,), T0), PAGES)
    assert "people of board, because nobody decided in time" in said


# --- with what signature -----------------------------------------------------------------------


def test_a_webhook_is_signed_as_receivers_verify_it() -> None:
    """Standard Webhooks, over the very bytes; a changed byte or another secret is not believed."""
    to = Webhook("ops", "https://hooks.example/", SECRET)
    message = Message("msg_1", (wanted(),), T0)
    body = payload(message, PAGES)
    headers = signed(to, message, body)
    assert verify(body, headers, [SECRET], T0) == Verified("msg_1", T0)
    assert not isinstance(verify(body + b" ", headers, [SECRET], T0), Verified)
    other = "whsec_" + "b3RoZXI" * 6 + "bw=="
    assert not isinstance(verify(body, headers, [other], T0), Verified)


# --- the command -------------------------------------------------------------------------------


def test_check_names_who_is_told_and_every_mistake(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a call and without a secret; 4 where something is wrong."""
    assert run(["notify", "check", str(file)]) == 0
    said = capsys.readouterr().out
    assert "webhook:ops-chat https://hooks.example/approvals?team=1" in said
    assert "mail:ann ann@example.org (when ann may decide)" in said
    assert SECRET not in said
    file.write_text(FILE.replace("https://", "http://"), encoding="utf-8")
    assert run(["notify", "check", str(file)]) == 4
    assert ":4: webhook[0].url must be https" in capsys.readouterr().out


def test_the_doctor_reads_who_is_told(file: Path) -> None:
    """A file that the reconciler would refuse is found before it does."""

    def looked() -> str:
        state = {"ACTIONLEDGER_STATE": str(file.parent)}
        return asyncio.run(_notices(Settings.from_environment(state)))

    assert looked() == "told what waits: webhook:ops-chat, mail:ann, mail:cem"
    (file.parent / "ops.secret").unlink()
    with pytest.raises(UnusableDestinations, match="cannot be read"):
        looked()
    file.unlink()
    assert looked() == "nobody is told that something waits"


def test_a_destination_that_is_not_there_cannot_be_tried(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names are those that `check` shows."""
    assert run(["notify", "test", str(file), "--to", "mail:eve"]) == 2
    assert "notify check" in capsys.readouterr().err
