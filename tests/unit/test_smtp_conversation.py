"""One connection to a mail server: who cuts it leaves nothing open."""

import socket

import pytest

from reconciler.providers.smtp.conversation import Broke, Conversation
from reconciler.providers.smtp.description import Server
from reconciler.providers.smtp.message import Letter
from tests.mail_server import mail_server
from tests.patience import PATIENCE_SECONDS
from tests.unit.test_http_first_byte import full

LETTER = Letter(
    reference="<1@example.com>",
    envelope_from="billing@example.com",
    recipients=("a@example.com",),
    data=b"Subject: x\r\n\r\nx\r\n",
    leaves_out=False,
)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Every connection that is opened, in its order."""
    opened: list[socket.socket] = []
    create = socket.create_connection

    def remembered(*arguments: object, **named: object) -> socket.socket:
        opened.append(create(*arguments, **named))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(socket, "create_connection", remembered)
    return opened


def test_a_cut_between_two_steps_closes_the_connection(connections: list[socket.socket]) -> None:
    """As when a call is cancelled in the moment in which its connection is open: no thread is at
    work that would close it, and none begins again.
    """
    with mail_server(asks_login=False) as server:
        line = Conversation(Server("127.0.0.1", server.port, "none", None, "test"), None, None, "")
        line.open(5.0)
        assert [one.fileno() >= 0 for one in connections] == [True]
        line.cut()
        assert [one.fileno() for one in connections] == [-1]
        with pytest.raises(Broke, match="connection_lost"):
            line.hand_in(LETTER, 5.0)
        assert not line.is_past_the_end
        assert server.kept == []


def test_what_was_cut_before_it_was_open_is_closed(connections: list[socket.socket]) -> None:
    """Its thread goes on until the server has answered, and closes what it has then."""
    with mail_server(asks_login=False) as server:
        line = Conversation(Server("127.0.0.1", server.port, "none", None, "test"), None, None, "")
        line.cut()
        with pytest.raises(Broke):
            line.open(5.0)
        assert [one.fileno() for one in connections] == [-1]


def test_an_address_that_never_answers_keeps_nobody_from_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server has several addresses, and the first one is dead: no letter was ever handed in."""
    with mail_server(asks_login=False) as server, full("127.0.0.2", server.port):
        hosts = ("127.0.0.2", "127.0.0.1")
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, server.port)) for host in hosts]
        real = socket.getaddrinfo
        named = "mail.example.com"

        def addresses(
            host: str,
            port: int,
            family: int = 0,
            type: int = 0,  # noqa: A002 - named so in the standard library
        ) -> list[object]:
            return [*found] if host == named else [*real(host, port, family, type)]

        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        line = Conversation(Server(named, server.port, "none", None, "test"), None, None, "")
        line.open(PATIENCE_SECONDS)
        assert line.hand_in(LETTER, PATIENCE_SECONDS).last.is_positive
        assert len(server.kept) == 1
