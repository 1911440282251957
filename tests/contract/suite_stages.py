"""The providers in front of which the shipped suite asks the shipped adapters."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gateway.local.ports import free_ports
from ledger.core.money import Money
from reconciler.providers.adapter import ProviderSettings
from reconciler.providers.contract.stage import SLOW_MS, Entry, Fault, Stage
from reconciler.providers.port import ProviderRequest
from reconciler.providers.simulated.api import API_KEY_PREFIX
from tests.contract.stage import EXAMPLE, ProviderProcess, running
from tests.contract.stripe_stage import DESCRIPTION as STRIPE
from tests.contract.stripe_stage import MODULE as STRIPE_MODULE
from tests.mail_server import PASSWORD, USER, MailServer, mail_server

_SIMULATED_FAULTS: dict[Fault, dict[str, object]] = {
    Fault.ANSWER_LOST: {"kind": "commit_then_drop"},
    Fault.LOST_BEFORE: {"kind": "drop_before_commit"},
    Fault.SLOW_ANSWER: {"kind": "slow", "after_ms": SLOW_MS},
    Fault.REFUSED: {"kind": "refuse"},
    Fault.REFUSED_FOR_NOW: {"kind": "limit", "retry_after_s": 1},
}


def closed_port() -> int:
    """A port of this machine where nobody listens, and nobody will: no other is given it."""
    (port,) = free_ports(1)
    return port


def request_of(
    account: str, action_key: str, amount: int, operation: str, **params: object
) -> ProviderRequest:
    """A request whose hash follows its amount."""
    return ProviderRequest(
        action_key=action_key,
        operation=operation,
        version=1,
        target="order:A-1842",
        params={"order": "A-1842", "description": "Zoë, 東京", **params},
        money=Money(minor=amount, currency="USD"),
        account=account,
        request_hash=f"sha256:{amount:064x}",
    )


class SimulatedStage:
    """The simulated provider, in its own process."""

    def __init__(self, process: ProviderProcess) -> None:
        """Use a process that runs."""
        self.process = process
        self._keys: dict[str, str] = {}

    def settings(self) -> ProviderSettings:
        """Configure the adapter."""
        return ProviderSettings("simulated", "simulated", self.process.url, self._keys)

    def unreachable(self) -> ProviderSettings:
        """Nobody is there."""
        return dataclasses.replace(self.settings(), base_url=f"http://127.0.0.1:{closed_port()}")

    def account(self) -> str:
        """Name a fresh account."""
        account = f"suite.{len(self._keys) + 1}"
        self._keys[account] = API_KEY_PREFIX + account
        return account

    def request(self, account: str, action_key: str, amount: int) -> ProviderRequest:
        """A charge."""
        return request_of(account, action_key, amount, "charge")

    def meet(self, action_key: str, fault: Fault) -> None:
        """Script it."""
        script = {"match": {"action_key": action_key}, "fault": _SIMULATED_FAULTS[fault]}
        self.process.control("script", {"scripts": [script]})

    def book(self, account: str) -> Sequence[Entry]:
        """Its own book, from disk."""
        return [
            Entry(
                effect=str(line["effect_id"]),
                account=str(line["account"]),
                action_key=str(line["action_key"]),
                request_hash=str(line["request_hash"]),
                key=str(line["key"]),
            )
            for line in self.process.lines()
            if line["account"] == account and line["effect_id"] is not None
        ]


class DescribedStage(SimulatedStage):
    """The same provider through the adapter `http`, by the description that comes with it."""

    def settings(self) -> ProviderSettings:
        """Configure the adapter."""
        return dataclasses.replace(super().settings(), kind="http", adapter_file=EXAMPLE)


class StripeStage(SimulatedStage):
    """The simulated Stripe, as it is documented."""

    def settings(self) -> ProviderSettings:
        """Configure the adapter."""
        path = self.process.folder / "stripe.toml"
        path.write_text(STRIPE, encoding="utf-8")
        return dataclasses.replace(super().settings(), kind="stripe", adapter_file=path)

    def account(self) -> str:
        """Name a fresh account."""
        account = super().account()
        self._keys[account] = f"sk_test_{account}"
        return account


SMTP = """\
format = 1
kind = "smtp"
host = "127.0.0.1"
port = {port}
tls = "none"
message_id_domain = "mail.example.com"
marker_headers = "written"

[perform."email.send"]
to = "{{params.to}}"
subject = "Your order {{params.order}}"
text = "{{params.description}}: {{money.decimal}} {{money.currency}}"
"""


_SMTP_FAULTS = {
    Fault.ANSWER_LOST: "close_after_dot",
    Fault.LOST_BEFORE: "close_at_recipient",
    Fault.SLOW_ANSWER: "slow",
    Fault.REFUSED: "550 5.1.1 nobody of this name",
    Fault.REFUSED_FOR_NOW: "data:451 4.3.0 come back later",
}


class SmtpStage:
    """A real SMTP server."""

    def __init__(self, server: MailServer, folder: Path) -> None:
        """Use a server that runs."""
        self.server, self._folder = server, folder
        self._accounts: list[str] = []
        self._addresses: dict[str, str] = {}
        server.slow_seconds = SLOW_MS / 1000

    def settings(self) -> ProviderSettings:
        """Configure the adapter."""
        return self._settings("mail", self.server.port)

    def unreachable(self) -> ProviderSettings:
        """Nobody is there."""
        return self._settings("nobody", closed_port())

    def account(self) -> str:
        """Name a fresh account, with an address of its own to send from."""
        account = f"suite.{len(self._accounts) + 1}"
        self._accounts.append(account)
        return account

    def request(self, account: str, action_key: str, amount: int) -> ProviderRequest:
        """An e-mail to an address of this action alone."""
        address = self._address(action_key)
        return request_of(account, action_key, amount, "email.send", to=address)

    def meet(self, action_key: str, fault: Fault) -> None:
        """Meet whoever writes to this action's address."""
        self.server.faults[self._address(action_key)] = _SMTP_FAULTS[fault]

    def book(self, account: str) -> Sequence[Entry]:
        """What the server took from the account's address."""
        return [
            Entry(
                effect=kept.message["Message-ID"],
                account=kept.sender.partition("@")[0],
                action_key=kept.message["X-Action-Key"],
                request_hash=kept.message["X-Request-Hash"],
            )
            for kept in self.server.kept
            if kept.sender == f"{account}@sender.example.com"
        ]

    def _address(self, action_key: str) -> str:
        known = f"recipient-{len(self._addresses) + 1}@example.com"
        return self._addresses.setdefault(action_key, known)

    def _settings(self, name: str, port: int) -> ProviderSettings:
        (self._folder / "password").write_text(PASSWORD, encoding="ascii")
        text = SMTP.format(port=port)
        for account in self._accounts:
            sender = f"{account}@sender.example.com"
            text += f'[accounts."{account}"]\nsender = "{sender}"\nuser = "{USER}"\n'
        text += "[credentials]\n"
        text += "".join(f'"{account}" = "password"\n' for account in self._accounts)
        path = self._folder / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        return ProviderSettings(name, "smtp", adapter_file=path)


@contextmanager
def simulated(folder: Path) -> Iterator[Stage]:
    """A simulated provider with an empty book."""
    with running(folder) as process:
        yield SimulatedStage(process)


@contextmanager
def described(folder: Path) -> Iterator[Stage]:
    """The same, described."""
    with running(folder) as process:
        yield DescribedStage(process)


@contextmanager
def stripe(folder: Path) -> Iterator[Stage]:
    """A simulated Stripe with an empty book."""
    with running(folder, module=STRIPE_MODULE) as process:
        yield StripeStage(process)


@contextmanager
def smtp(folder: Path) -> Iterator[Stage]:
    """A mail server that has taken nothing yet."""
    with mail_server() as server:
        yield SmtpStage(server, folder)
