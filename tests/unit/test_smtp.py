"""The adapter `smtp` at a real server: where a break proves something, and what never leaves."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from reconciler.providers.adapter import ProviderSettings, UnusableProvider
from reconciler.providers.http.templates import Unsendable
from reconciler.providers.kinds import adapter_of
from reconciler.providers.port import (
    Deadlines,
    NotSent,
    Outcome,
    Partial,
    ProviderRequest,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)
from reconciler.providers.smtp.description import SmtpDescription, parse_smtp
from reconciler.providers.smtp.message import letter_of, message_id
from tests.mail_server import PASSWORD, MailServer, mail_server
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS

CERTIFICATE = Path(__file__).with_name("loopback.pem")
DEADLINES = Deadlines(connect_ms=PATIENCE_MS, response_ms=PATIENCE_MS)
SHORT = Deadlines(connect_ms=PATIENCE_MS, response_ms=300)
DESCRIPTION = """\
format = 1
kind = "smtp"
host = "{host}"
port = {port}
tls = "{tls}"
{ca}
message_id_domain = "mail.example.com"
marker_headers = "left_out"
[credentials]
main = "password"
[accounts.main]
sender = "billing@example.com"
sender_name = "Zoë's shop, billing"
bounces = "bounces@example.com"
user = "ledger"
[perform."email.send"]
to = "{{params.to}}"
cc = "{{params.cc}}"
bcc = "{{params.bcc}}"
subject = "{{params.subject}}"
text = "{{params.text}}"
html = "{{params.html}}"
headers = {{ Reply-To = "{{params.reply_to}}" }}
[perform."email.all"]
to = "{{params.to}}"
subject = "To everybody or nobody"
text = "Hello"
refused_recipient = "send_to_nobody"
"""
KEY = "email.send:v1:acme:order-1#item"
REQUEST = ProviderRequest(
    action_key=KEY,
    operation="email.send",
    version=1,
    target=None,
    params={"to": "a@example.com", "subject": "Your order", "text": "It is on its way."},
    money=None,
    account="main",
    request_hash="sha256:" + "ab" * 32,
)
THREE = {"to": ["a@example.com", "b@example.com", "c@example.com"]}


def asking(**params: object) -> ProviderRequest:
    """The request with other parameters."""
    return replace(REQUEST, params={**REQUEST.params, **params})


def described(
    folder: Path, port: int, tls: str = "none", host: str = "127.0.0.1", ca: str = ""
) -> ProviderSettings:
    """The settings of a provider `mail` at this port."""
    (folder / "password").write_text(PASSWORD, encoding="ascii")
    path = folder / "mail.toml"
    text = DESCRIPTION.format(host=host, port=port, tls=tls, ca=f'ca_file = "{ca}"' if ca else "")
    path.write_text(text, encoding="utf-8")
    return ProviderSettings("mail", "smtp", adapter_file=path)


async def sent(
    settings: ProviderSettings,
    request: ProviderRequest = REQUEST,
    *,
    key: str = KEY,
    deadlines: Deadlines = DEADLINES,
) -> Outcome:
    """Make one call."""
    performer = adapter_of(settings).performer()
    try:
        return await performer.perform(
            request, provider_key=key, deadlines=deadlines, before_first_byte=lambda: None
        )
    finally:
        await performer.close()


@pytest.fixture(scope="module")
def server() -> Iterator[MailServer]:
    """A mail server for all of this file."""
    with mail_server() as running:
        yield running


@pytest.fixture
def settings(server: MailServer, tmp_path: Path) -> ProviderSettings:
    """The adapter at that server, which has kept nothing."""
    server.kept.clear()
    return described(tmp_path, server.port)


async def test_a_message_is_what_the_description_says(
    server: MailServer, settings: ProviderSettings
) -> None:
    """Sender, envelope, every recipient, headers and both bodies arrive as they were written."""
    html = "<p>Grüße, 東京</p>\n.\n"
    request = asking(
        cc=["c@example.com"],
        bcc="hidden@example.com",
        subject="Deine Bestellung: Zoë, 東京 " * 8,
        text=".\r\n..dots\nGrüße " * 200,
        html=html,
        reply_to="help@example.com",
    )
    outcome = await sent(settings, request)
    [kept] = server.kept
    assert outcome == Succeeded(kept.message["Message-ID"], {"code": "smtp_250_2_0_0"})
    assert kept.sender == "bounces@example.com"
    assert kept.recipients == ("a@example.com", "c@example.com", "hidden@example.com")
    assert kept.message["From"].addresses[0].addr_spec == "billing@example.com"
    assert kept.message["From"].addresses[0].display_name == "Zoë's shop, billing"
    assert kept.message["Subject"] == str(request.params["subject"]).strip() + " "
    assert kept.message["Reply-To"] == "help@example.com"
    assert "hidden" not in kept.raw.decode("ascii")
    text, rich = kept.message.get_body(("plain",)), kept.message.get_body(("html",))
    assert text is not None
    assert rich is not None
    assert (
        text.get_content().replace("\r\n", "\n").strip()
        == str(request.params["text"]).replace("\r\n", "\n").strip()
    )
    assert rich.get_content().replace("\r\n", "\n") == html
    assert max(map(len, kept.raw.split(b"\r\n"))) <= 998


async def test_the_same_request_is_the_same_bytes(
    server: MailServer, settings: ProviderSettings
) -> None:
    """An approved second attempt is the same message with the same Message-ID, byte for byte."""
    request = asking(html="<b>Hello</b>")
    first, second = await sent(settings, request), await sent(settings, request)
    assert (
        first
        == second
        == Succeeded(message_id(KEY, "mail.example.com"), {"code": "smtp_250_2_0_0"})
    )
    assert server.kept[0].raw == server.kept[1].raw
    assert await sent(settings, request, key="another") != first


@pytest.mark.case("C005")
@pytest.mark.parametrize(
    ("fault", "outcome", "kept"),
    [
        ("close_at_recipient", NotSent("connection_lost", Retry.LATER), 0),
        ("close_after_dot", Unresolved("connection_lost"), 1),
        ("nonsense", Unresolved("answer_invalid"), 1),
    ],
)
async def test_a_break_proves_something_only_before_the_final_dot(
    server: MailServer, settings: ProviderSettings, fault: str, outcome: Outcome, kept: int
) -> None:
    """Before the dot nothing was sent and it may be tried again; after it nobody knows."""
    server.faults["a@example.com"] = fault
    assert await sent(settings) == outcome
    assert len(server.kept) == kept


async def test_a_break_inside_the_message_is_never_a_delivery(
    server: MailServer, settings: ProviderSettings
) -> None:
    """Whether the dot had left by then is our side's to say; the server has no message."""
    server.faults["a@example.com"] = "close_in_data"
    outcome = await sent(settings)
    assert outcome in {NotSent("connection_lost", Retry.LATER), Unresolved("connection_lost")}
    assert server.kept == []


@pytest.mark.case("C005")
async def test_a_server_that_takes_the_message_and_hangs_leaves_it_open(
    server: MailServer, settings: ProviderSettings
) -> None:
    """The deadline is hard, the message is there once, and nothing is sent again."""
    server.faults["a@example.com"] = "slow"
    assert await sent(settings, deadlines=SHORT) == Unresolved("answer_timed_out")
    assert len(server.kept) == 1


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("450 4.2.1 come back", Refused("smtp_450_4_2_1", Retry.LATER)),
        ("421 closing", Refused("smtp_421", Retry.LATER)),
        ("550 5.1.1 nobody", Refused("smtp_550_5_1_1", Retry.NEVER)),
        ("data:452 4.3.1 full", Refused("smtp_452_4_3_1", Retry.LATER)),
        ("data:554 5.7.1 spam", Refused("smtp_554_5_7_1", Retry.NEVER)),
    ],
)
async def test_a_no_is_for_now_or_for_good(
    server: MailServer, settings: ProviderSettings, reply: str, outcome: Outcome
) -> None:
    """The first digit says whether it can be tried again, at a recipient and at the message."""
    server.faults["a@example.com"] = reply
    assert await sent(settings) == outcome
    assert server.kept == []


@pytest.mark.case("C013")
async def test_a_refused_recipient_leaves_a_part_that_exists(
    server: MailServer, settings: ProviderSettings
) -> None:
    """The others get it once; each part is told by its number, and no address is repeated."""
    server.faults["b@example.com"] = "550 5.1.1 nobody"
    outcome = await sent(settings, asking(**THREE))
    assert outcome == Partial(
        message_id(KEY, "mail.example.com"),
        {
            "code": "smtp_250_2_0_0",
            "recipient_1": {"exists": True, "code": "smtp_250_2_1_5"},
            "recipient_2": {"exists": False, "code": "smtp_550_5_1_1"},
            "recipient_3": {"exists": True, "code": "smtp_250_2_1_5"},
        },
    )
    assert [kept.recipients for kept in server.kept] == [("a@example.com", "c@example.com")]


@pytest.mark.parametrize(
    ("refused", "outcome"),
    [
        ({"b": "550 5.1.1 no"}, Refused("smtp_550_5_1_1", Retry.NEVER)),
        ({"b": "550 5.1.1 no", "c": "450 4.2.1 later"}, Refused("smtp_450_4_2_1", Retry.LATER)),
    ],
)
async def test_to_everybody_or_nobody_is_sent_to_nobody(
    server: MailServer, settings: ProviderSettings, refused: dict[str, str], outcome: Outcome
) -> None:
    """An operation can say that a part is worse than none."""
    server.faults |= {f"{name}@example.com": reply for name, reply in refused.items()}
    request = replace(asking(**THREE), operation="email.all")
    assert await sent(settings, request) == outcome
    assert server.kept == []


@pytest.mark.parametrize(
    "params",
    [
        {"to": "a@example.com\r\nBcc: everybody@example.com"},
        {"to": "a@example.com, b@example.com"},
        {"to": "<a@example.com>"},
        {"to": "a@example.com>\r\nDATA"},
        {"to": "@example.com"},
        {"to": "zoë@example.com"},
        {"to": ["a@example.com", 7]},
        {"to": {"a": "b"}},
        {"to": []},
        {"to": None},
        {"to": [f"a{number}@example.com" for number in range(101)]},
        {"subject": "Hello\r\nBcc: everybody@example.com"},
        {"subject": "Hello\nX: y"},
        {"subject": "Hello\u2028there"},
        {"subject": ""},
        {"subject": "x" * 2_000},
        {"text": None},
        {"text": "x" * 200_000},
        {"text": "\ud800"},
        {"reply_to": "a@example.com\r\nBcc: everybody@example.com"},
    ],
)
async def test_what_would_be_another_header_or_recipient_never_leaves(
    server: MailServer, settings: ProviderSettings, params: dict[str, object]
) -> None:
    """A value stays where its template stands, or nothing is sent at all."""
    outcome = await sent(settings, asking(**params))
    assert outcome == NotSent("request_unsendable", Retry.NEVER)
    assert server.kept == []


DESCRIBED = parse_smtp(DESCRIPTION.format(host="localhost", port=25, tls="none", ca=""))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(to=TEXTS, subject=TEXTS, text=TEXTS, reply_to=TEXTS)
def test_no_text_can_end_the_message_or_add_to_it(
    to: str, subject: str, text: str, reply_to: str
) -> None:
    """Whatever is asked for is a message with our headers only, whose dot cannot come early."""
    assert isinstance(DESCRIBED, SmtpDescription)
    request = asking(to=to, subject=subject, text=text, reply_to=reply_to)
    for one in (request, asking(subject=subject, text=text)):
        try:
            letter = letter_of(DESCRIBED, DESCRIBED.mails["email.send"], one, KEY)
        except Unsendable:
            continue
        assert letter.recipients == (one.params["to"],)
        assert b"\r\n.\r\n" not in letter.data
        assert b"\n" not in letter.data.replace(b"\r\n", b"")
        head, _, _ = letter.data.partition(b"\r\n\r\n")
        names = {line.partition(b":")[0] for line in head.split(b"\r\n") if line[:1] not in b" \t"}
        assert names <= {
            b"Message-ID",
            b"From",
            b"To",
            b"Subject",
            b"Reply-To",
            b"MIME-Version",
            b"Content-Type",
            b"Content-Transfer-Encoding",
        }


# --- who we talk to ----------------------------------------------------------------------------


@pytest.mark.parametrize("tls", ["starttls", "implicit"])
async def test_a_login_goes_over_tls_to_who_proves_its_name(tmp_path: Path, tls: str) -> None:
    """With the certificate's signer known it is sent; with a stranger's nothing is, not even
    the login.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with mail_server(tls=context, implicit=tls == "implicit") as server:
        trusting = described(tmp_path, server.port, tls, ca=str(CERTIFICATE))
        assert isinstance(await sent(trusting), Succeeded)
        strange = described(tmp_path, server.port, tls)
        assert await sent(strange) == NotSent("tls_failed", Retry.LATER)
        assert len(server.kept) == 1


async def test_a_server_without_tls_gets_nothing(
    settings: ProviderSettings, tmp_path: Path, server: MailServer
) -> None:
    """Where TLS is asked for and not offered, nothing goes on in the clear."""
    asks = described(tmp_path, server.port, "starttls")
    assert await sent(asks) == NotSent("tls_not_offered", Retry.LATER)
    assert server.kept == []


async def test_a_wrong_password_is_not_sent(settings: ProviderSettings, tmp_path: Path) -> None:
    """A login that is refused is told as one, and may be mended."""
    (tmp_path / "password").write_text("wrong", encoding="ascii")
    assert await sent(settings) == NotSent("login_refused_535", Retry.LATER)


async def test_a_server_without_logins_gets_nothing(tmp_path: Path) -> None:
    """Where a login is asked for and not offered, mail does not go out as nobody."""
    with mail_server(asks_login=False) as server:
        assert await sent(described(tmp_path, server.port)) == NotSent(
            "login_not_offered", Retry.LATER
        )


async def test_a_server_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    """The time before the first byte is bounded, whatever the other side does."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        short = Deadlines(connect_ms=200, response_ms=200)
        outcome = await sent(described(tmp_path, port), deadlines=short)
    assert outcome == NotSent("connect_timed_out", Retry.LATER)


POSITIVE = [b"220 a\r\n", b"250 a\r\n", b"250 a\r\n", b"250 a\r\n", b"354 a\r\n", b"250 a\r\n"]
REPLIES = st.one_of(
    st.sampled_from(POSITIVE),
    st.sampled_from([b"250-a\r\n", b"2", b"\r\n", b"250\r\n", b"450 a\r\n", b"999 a\r\n", b""]),
    st.binary(max_size=30),
    st.just(b"x" * 9_000 + b"\r\n"),
)


@settings_of_hypothesis(max_examples=60, deadline=None)
@given(place=st.integers(0, 5), reply=REPLIES)
def test_any_reply_has_an_outcome(
    place: int, reply: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever a server says in the place of a reply, and then ends: only a yes to the whole
    message is a success, and an end before it is never unresolved for nothing.
    """
    heard: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as lines:
            for number, positive in enumerate(POSITIVE):
                connection.sendall(reply if number == place else positive)
                if number == place and reply != positive:
                    return
                while number > 3 and (line := lines.readline()) not in {b".\r\n", b""}:
                    heard.append(line)
                heard.append(lines.readline() if number <= 3 else b"dot")

    one = described(tmp_path_factory.mktemp("any"), 1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        text = Path(one.adapter_file or "").read_text(encoding="utf-8")
        text = text.replace("port = 1", f"port = {listening.getsockname()[1]}")
        text = text.replace('user = "ledger"', "").replace('main = "password"', "")
        Path(one.adapter_file or "").write_text(text, encoding="utf-8")
        outcome = asyncio.run(sent(one))
        thread.join(PATIENCE_SECONDS)
    assert isinstance(outcome, Succeeded | Refused | NotSent | Unresolved)
    if isinstance(outcome, Succeeded | Unresolved):
        assert b"dot" in heard


# --- the description ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ("port = 25", "port = 0", "port", "at least 1"),
        ('host = "localhost"', 'host = "mail server"', "host", "one machine"),
        (
            'sender = "billing@example.com"',
            'sender = "{params.from}"',
            "accounts.main.sender",
            "plain",
        ),
        (
            'message_id_domain = "mail.example.com"',
            'message_id_domain = "a b"',
            "message_id_domain",
            "domain",
        ),
        (
            "headers = { Reply-To",
            "headers = { Bcc",
            "perform.email.send.headers.Bcc",
            "cannot be set",
        ),
        ("{params.subject}", "{credential}", "perform.email.send.subject", "not known"),
        ("{params.subject}", "{params", "perform.email.send.subject", "brace"),
        ('main = "password"', 'other = "password"', "credentials.other", "no account"),
        ('user = "ledger"', "", "credentials.main", "no user"),
        ('host = "localhost"', 'host = "mail.example.com"', "accounts.main.user", "read"),
        ("format = 1", "format = 1\nretries = 3", "retries", "known key"),
    ],
)
def test_a_mistake_is_told_on_its_line(old: str, new: str, path: str, said: str) -> None:
    """A description is whole, or every mistake has its line and a sentence."""
    text = DESCRIPTION.format(host="localhost", port=25, tls="none", ca="")
    assert old in text
    mistakes = parse_smtp(text.replace(old, new, 1))
    assert isinstance(mistakes, tuple)
    assert path in [mistake.path.replace('"', "") for mistake in mistakes]
    assert any(said in mistake.message for mistake in mistakes)


def test_no_setting_says_where_mail_goes_out(tmp_path: Path) -> None:
    """The server is the description's: an address in the settings would be another one."""
    one = replace(described(tmp_path, 25), base_url="http://other.example.com")
    with pytest.raises(UnusableProvider, match="no setting can replace"):
        adapter_of(one)


def test_what_a_client_would_miss_is_told(tmp_path: Path) -> None:
    """A password and a certificate that cannot be read, each by its place."""
    one = described(tmp_path, 25, "starttls", ca="none.pem")
    (tmp_path / "password").unlink()
    found = dict(adapter_of(one).unreadable())
    assert found.keys() == {("credentials", "main"), ("ca_file",)}
    with pytest.raises(UnusableProvider, match="account main"):
        adapter_of(one).performer()


def test_a_context_is_made_once_for_tls(tmp_path: Path) -> None:
    """Whoever trusts a signer trusts it for the name of the host."""
    one = described(tmp_path, 25, "starttls")
    context = adapter_of(one)._tls()  # type: ignore[attr-defined]
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname
