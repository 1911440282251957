"""How tests and demonstrations steer the simulated provider: the routes under `/control`.

Guarantees that personalities and the webhook address outlive the process; scripts and the mix do
not, a restart plays nothing twice. Must never be reachable where real money is: nothing here asks
who calls. Used by the server.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field, ValidationError

from ledger.core.errors import LedgerError
from ledger.core.wire import Wire
from reconciler.providers.simulated.api import Account
from reconciler.providers.simulated.book import Book
from reconciler.providers.simulated.errors import Refusal, parsed
from reconciler.providers.simulated.faults import SCRIPTS_MAX, Faults, Mix, Personality, Script
from reconciler.providers.simulated.foresight import Foresight, PreviewScripts, SetFacts
from reconciler.providers.simulated.webhooks import Outbox

STATE_NAME: Final = "control.json"
USUAL: Final = Personality()


class Scripts(Wire):
    """The body of `POST /control/script`: played in this order, each by the requests it fits."""

    scripts: Annotated[tuple[Script, ...], Field(strict=False, max_length=SCRIPTS_MAX)]


class AccountPersonality(Wire):
    """The body of `POST /control/personality`; without an account it is everybody's default."""

    account: Account | None = None
    personality: Personality


class WebhookAddress(Wire):
    """The body of `POST /control/webhooks`."""

    url: Annotated[str, Field(pattern=r"^https?://", max_length=2048)] | None
    secret: (
        Annotated[str, Field(pattern=r"^(whsec_)?[A-Za-z0-9+/]{11,}={0,2}$", max_length=512)] | None
    )


class _State(Wire):
    default: Personality = Personality()
    accounts: dict[Account, Personality] = Field(default_factory=dict)
    webhooks: WebhookAddress = WebhookAddress(url=None, secret=None)


class UnreadableState(LedgerError):
    """The file of personalities and the webhook address is not ours."""


class Control:
    """The state that steers a provider, and the routes that change it."""

    def __init__(
        self,
        folder: Path,
        book: Book,
        outbox: Outbox,
        faults: Faults,
        foresight: Foresight,
        *,
        usual: Personality = USUAL,
    ) -> None:
        """Read again what an earlier process was told; raises UnreadableState. `usual` is how every
        account behaves of which nothing is said.
        """
        self._usual = usual
        self._path = folder / STATE_NAME
        self._book, self._outbox, self._faults = book, outbox, faults
        self._foresight = foresight
        self._state = _State(default=usual)
        if self._path.exists():
            self._state = _read_state(self._path)
        forgetful = [
            account
            for account in book.accounts
            if self.personality(account).key_memory == "lost_on_restart"
        ]
        book.forget_keys(frozenset(forgetful))
        outbox.address(self._state.webhooks.url, self._state.webhooks.secret)

    def personality(self, account: str) -> Personality:
        """How this account's provider behaves."""
        return self._state.accounts.get(account, self._state.default)

    def send_webhooks_to(self, url: str, secret: str) -> None:
        """Set the address and the secret of all webhooks from now on."""
        self._keep(webhooks=WebhookAddress(url=url, secret=secret))
        self._outbox.address(url, secret)

    def routes(self) -> list[web.RouteDef]:
        """The routes under `/control`."""
        return [
            web.post("/control/script", self.add_scripts),
            web.post("/control/mix", self.set_mix),
            web.post("/control/observed", self.set_observed),
            web.post("/control/previews", self.add_previews),
            web.post("/control/personality", self.set_personality),
            web.post("/control/webhooks", self.set_webhooks),
            web.post("/control/webhooks/flush", self.flush_webhooks),
            web.post("/control/reset", self.reset),
        ]

    async def add_scripts(self, request: web.Request) -> web.Response:
        """Queue scripts for the next requests that fit them."""
        try:
            self._faults.add((await parsed(request, Scripts)).scripts)
        except ValueError as error:
            raise Refusal(409, "too_many_scripts", str(error)) from error
        return web.json_response({})

    async def set_mix(self, request: web.Request) -> web.Response:
        """Replace the mix that befalls requests without a script."""
        self._faults.mix(await parsed(request, Mix))
        return web.json_response({})

    async def set_observed(self, request: web.Request) -> web.Response:
        """Set the volatile facts that previews tell from now on."""
        self._foresight.hold(await parsed(request, SetFacts))
        return web.json_response({})

    async def add_previews(self, request: web.Request) -> web.Response:
        """Queue scripts for the next previews that fit them."""
        try:
            self._foresight.add((await parsed(request, PreviewScripts)).scripts)
        except ValueError as error:
            raise Refusal(409, "too_many_scripts", str(error)) from error
        return web.json_response({})

    async def set_personality(self, request: web.Request) -> web.Response:
        """Replace the personality of one account, or the default of all."""
        given = await parsed(request, AccountPersonality)
        if given.account is None:
            self._keep(default=given.personality)
        else:
            self._keep(accounts={**self._state.accounts, given.account: given.personality})
        return web.json_response({})

    async def set_webhooks(self, request: web.Request) -> web.Response:
        """Set where webhooks go and the secret that signs them; null keeps them waiting."""
        address = await parsed(request, WebhookAddress)
        self._keep(webhooks=address)
        self._outbox.address(address.url, address.secret)
        return web.json_response({})

    async def flush_webhooks(self, _request: web.Request) -> web.Response:
        """Try every waiting event now, and say how many were not taken."""
        return web.json_response({"waiting": await self._outbox.flush()})

    async def reset(self, _request: web.Request) -> web.Response:
        """Start a new world: empty book, no scripts, good personalities; the address stays."""
        self._book.reset()
        self._outbox.reset()
        self._faults.clear()
        self._foresight.clear()
        self._keep(default=self._usual, accounts={})
        return web.json_response({})

    def _keep(
        self,
        *,
        default: Personality | None = None,
        accounts: Mapping[str, Personality] | None = None,
        webhooks: WebhookAddress | None = None,
    ) -> None:
        """Replace what is given, in memory and on disk."""
        self._state = _State(
            default=self._state.default if default is None else default,
            accounts=self._state.accounts if accounts is None else dict(accounts),
            webhooks=self._state.webhooks if webhooks is None else webhooks,
        )
        fresh = self._path.with_suffix(".new")
        fresh.unlink(missing_ok=True)  # of a crash, or a link that somebody put there
        made = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "w", encoding="utf-8") as file:
            file.write(self._state.model_dump_json())
        fresh.replace(self._path)


def _read_state(path: Path) -> _State:
    try:
        return _State.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise UnreadableState(
            f"{path} does not hold a provider's personalities.",
            hint="Remove it to go back to the good ones.",
        ) from error
