"""A broker brought to the table of `ledger.log.authority`, or compared with it.

Guarantees that what is right is left as it is, that nothing is taken from anybody but our own
principals and from them only where it touches this installation, and that `apply` returns when the
broker that was asked goes by what it was told. Adding comes before taking away. The only user of
librdkafka: aiokafka has no calls for this. Called by `actionledger acl` and by the set-up.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import AdminClient

from ledger.log.access import KafkaAccess, Mechanism
from ledger.log.authority import Resource
from ledger.log.cluster_rights import require_sight
from ledger.log.declared import Declared, Entry, PermissionsError, concerns
from ledger.log.librdkafka import (
    EVERYTHING,
    REQUEST_SECONDS_MAX,
    NoSuchUserError,
    answers,
    binding_of,
    entry_of,
    filter_of,
    password_of,
    scram_of,
)

IN_FORCE_SECONDS_MAX: Final = 20.0
LOOK_SECONDS: Final = 0.1

Report = Callable[[str, int, int], None]
"""Hears of a step, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a broker differs from what is declared. `others` are rights of foreign principals on this
    installation's topics: told, never touched.
    """

    missing: tuple[Entry, ...]
    surplus: tuple[Entry, ...]
    others: tuple[Entry, ...]
    users_missing: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether our own principals have exactly what is declared."""
        return not (self.missing or self.surplus or self.users_missing)


class Permissions:
    """The access control lists and logins of one cluster."""

    def __init__(self, bootstrap: str, access: KafkaAccess, client_id: str) -> None:
        """Make no connection yet."""
        self._bootstrap = bootstrap
        self._access = access
        self._client_id = client_id
        self._kept: AdminClient | None = None

    async def compare(self, declared: Declared) -> Comparison:
        """Hold the broker against what is declared; change nothing.

        Raises LogUnreachableError, LogRefusedError, PermissionsError.
        """
        await self._open()
        return await asyncio.to_thread(self._compare, declared)

    async def apply(
        self, declared: Declared, report: Report = lambda _step, _done, _total: None
    ) -> Comparison:
        """Add what is missing, take away what is surplus, set the passwords; what differed before.

        Passwords are set each time: a broker does not say which one it has. Idempotent. Raises what
        `compare` does.
        """
        await self._open()
        return await asyncio.to_thread(self._apply, declared, report)

    async def _open(self) -> None:
        if self._kept is not None:
            return
        # librdkafka says of a login that fails no more than that nobody answered in time.
        await require_sight(
            self._bootstrap, {"client_id": self._client_id, **self._access.options()}
        )
        self._kept = AdminClient(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": self._client_id,
                "log_level": 0,
                "socket.timeout.ms": int(REQUEST_SECONDS_MAX * 1_000),
                **self._access.admin_options(),
            }
        )

    @property
    def _admin(self) -> AdminClient:
        # Kept for as long as we are: the requests of one that is let go fail.
        assert self._kept is not None  # noqa: S101 - `_open` was called
        return self._kept

    def _apply(self, declared: Declared, report: Report) -> Comparison:
        before = self._compare(declared)
        report("permissions", 0, 3)
        if declared.passwords:
            changes = [
                password_of(name, password, declared.mechanism)
                for name, password in declared.passwords.items()
            ]
            answers(self._admin.alter_user_scram_credentials(changes).values())
        report("permissions", 1, 3)
        self._mend(before)
        report("permissions", 2, 3)
        self._wait_until_in_force(declared)
        report("permissions", 3, 3)
        return before

    def _mend(self, found: Comparison) -> None:
        if found.missing:
            answers(self._admin.create_acls(list(map(binding_of, found.missing))).values())
        if found.surplus:
            answers(self._admin.delete_acls(list(map(filter_of, found.surplus))).values())

    def _wait_until_in_force(self, declared: Declared) -> None:
        """The controller has it at once; the broker goes by it, and tells of it, a moment later. So
        what was compared may have been what somebody had just changed: it is mended again.
        """
        deadline_s = time.monotonic() + IN_FORCE_SECONDS_MAX
        while not (now := self._compare(declared)).is_equal:
            if time.monotonic() > deadline_s:
                raise PermissionsError(
                    f"The broker took the changes and does not go by them: {len(now.missing)} are "
                    f"missing, {len(now.surplus)} are surplus.",
                    hint="See whether somebody else changes them: `actionledger acl check`.",
                )
            time.sleep(LOOK_SECONDS)
            self._mend(now)

    def _compare(self, declared: Declared) -> Comparison:
        wanted = declared.entries
        found = self._entries()
        ours = frozenset(declared.names.values())
        near = {one for one in found if concerns(one.right, declared.prefix)}
        users = (
            self._users(declared.passwords, declared.mechanism)
            if declared.passwords
            else frozenset()
        )
        return Comparison(
            missing=tuple(sorted(wanted - found)),
            surplus=tuple(sorted(one for one in near - wanted if one.principal in ours)),
            others=tuple(
                sorted(
                    one
                    for one in near
                    if one.principal not in ours
                    and not one.is_denial
                    and one.right.resource is not Resource.CLUSTER
                )
            ),
            users_missing=tuple(sorted(set(declared.passwords) - users)),
        )

    def _entries(self) -> frozenset[Entry]:
        (found,) = answers([self._admin.describe_acls(EVERYTHING)])
        return frozenset(entry for one in found if (entry := entry_of(one)) is not None)

    def _users(self, names: Iterable[str], mechanism: Mechanism) -> frozenset[str]:
        """Which of these the broker knows a password of."""
        asked = self._admin.describe_user_scram_credentials(sorted(names))
        assert isinstance(asked, dict)  # noqa: S101 - names were given
        found: set[str] = set()
        for name, future in asked.items():
            try:
                (described,) = answers([future])
            except NoSuchUserError:
                continue
            kinds = {one.mechanism for one in described.scram_credential_infos}
            if scram_of(mechanism) in kinds:
                found.add(name)
        return frozenset(found)
