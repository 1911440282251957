"""The demonstration on an installation that runs already, beside whatever else goes on there.

A chapter gets a tenant of its own, and counts what is of it. Guarantees that the installation is
afterwards as it was, but for what stands in the log: catalogue and policy, who may decide, the API
keys, how the provider behaves. Called by `run_demo`.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gateway.demo.stage import PRINCIPAL, Stage, reached
from gateway.keys import Role, create_key, read_keys, revoke_key
from gateway.local.control import status
from gateway.local.state import Phase
from gateway.wiring.installation import open_log
from gateway.wiring.local import ACCOUNT
from gateway.wiring.places import KEYS_FILE
from gateway.wiring.publishing import Kind, checked_document, default_catalogue, default_policy
from ledger.core.errors import LedgerError
from ledger.core.people_text import written
from ledger.log.published import read_published

NAME_BYTES: Final = 3


class NotHereError(LedgerError):
    """A chapter cannot be told on an installation as it is."""


@asynccontextmanager
async def visited(folder: Path, chapter: str) -> AsyncIterator[Stage]:
    """The installation that runs in a folder, for one telling of a chapter.

    Raises NotHereError, and what reading the log and publishing raise.
    """
    if status(folder).phase is not Phase.READY:
        raise NotHereError(
            f"Nothing runs in {folder}, or not yet.",
            hint="Start it with `actionledger up`, or leave out --here.",
        )
    tenant = f"demo-{chapter}-{secrets.token_hex(NAME_BYTES)}"
    key = create_key(folder / KEYS_FILE, tenant=tenant, principal=PRINCIPAL, role=Role.AGENT)
    async with reached(folder, tenant, key) as stage:
        try:
            await _demand_shipped(stage)
            await stage.known(key)
            try:
                yield stage
            finally:
                await _put_back(stage)
        finally:
            _forget_keys(stage)


async def _demand_shipped(stage: Stage) -> None:
    """Chapters are told of the shipped documents, and change them for as long as they take."""
    published = await read_published(open_log(stage.settings, "cli"))
    found = {"catalogue": published.catalogue, "policy": published.policy}
    for kind, text in _shipped().items():
        known = found[kind]
        if known is None or known.content_hash != checked_document(kind, text).content_hash:
            raise NotHereError(
                f"The {kind} in force is not the shipped one, and chapters change it.",
                hint="Leave out --here: an installation of its own is started for the chapter.",
            )


def _shipped() -> dict[Kind, str]:
    return {"catalogue": default_catalogue(), "policy": default_policy()}


async def _put_back(stage: Stage) -> None:
    for kind, text in _shipped().items():
        await stage.publish(kind, text)
    people = (await read_published(open_log(stage.settings, "cli"))).people
    rest = tuple(one for one in people.people if one.tenants != (stage.tenant,))
    if rest != people.people:
        await stage.publish("people", written(people, rest))
    await stage.behave(ACCOUNT)


def _forget_keys(stage: Stage) -> None:
    path = stage.settings.api_keys_file
    for one in read_keys(path):
        if one.caller.tenant == stage.tenant:
            revoke_key(path, one.caller.key_id)
