"""Who may do what in the database: every role and every table, declared once.

Guarantees that a role has what is written here and nothing else, once `grants.apply_access` has
run: the test of permissions walks this table against the real database, and a table that is missing
here fails it. Rows of a tenant are guarded by row-level security whoever asks; a role that must see
all tenants says so by its reach. Imports nothing that talks to Postgres.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

ACCESS_SCHEMA: Final = "actionledger_access"
"""Holds which analyst reads which tenant. One for all schemas: a rebuild does not make it anew."""

TENANT_SETTING: Final = "actionledger.tenant"
"""Names the tenant of a transaction, or several with commas between them. Set with
`set_config(…, true)`, so that it ends with it."""

EVERY_TENANT: Final = "*"
"""What that setting says where all tenants are meant: no tenant can have this name."""


class Role(StrEnum):
    """The logins of the processes and of people; none is owner, superuser or beyond policies."""

    PROJECTOR = "actionledger_projector"
    RECONCILER = "actionledger_reconciler"
    PROCESSOR = "actionledger_processor"
    EXECUTOR = "actionledger_executor"
    GATEWAY = "actionledger_gateway"
    ANALYST = "actionledger_analyst"
    OPERATOR = "actionledger_operator"


class Reach(StrEnum):
    """Which rows of a tenant's table a role sees and writes."""

    ALL_TENANTS = "all_tenants"
    SET_TENANT = "set_tenant"
    """Those of the tenants that the transaction was told; none where it was told none."""
    GRANTED_TENANTS = "granted_tenants"
    """Those of the tenants that `analyst_tenants` gives the login; nothing a session can set."""
    OWN_NAME = "own_name"
    """Of `analyst_tenants` itself: the rows that name the login."""


class Right(StrEnum):
    """What can be done to a table."""

    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


REACH: Final[Mapping[Role, Reach]] = MappingProxyType(
    {
        Role.PROJECTOR: Reach.ALL_TENANTS,
        Role.RECONCILER: Reach.ALL_TENANTS,
        Role.PROCESSOR: Reach.ALL_TENANTS,
        Role.EXECUTOR: Reach.ALL_TENANTS,
        Role.GATEWAY: Reach.SET_TENANT,
        Role.ANALYST: Reach.GRANTED_TENANTS,
        Role.OPERATOR: Reach.ALL_TENANTS,
    }
)

CONDITIONS: Final[Mapping[Reach, str]] = MappingProxyType(
    {
        Reach.ALL_TENANTS: "true",
        # In a subquery, so that it is looked up once a statement, not once a row. Unset it is null
        # or empty, which no tenant is.
        Reach.SET_TENANT: (
            f"tenant_id = any ((select string_to_array(current_setting('{TENANT_SETTING}', true),"
            f" ','))::text[])"
            f" or (select current_setting('{TENANT_SETTING}', true) = '{EVERY_TENANT}')"
        ),
        Reach.GRANTED_TENANTS: (
            "tenant_id = any (array(select tenant_id from actionledger_access.analyst_tenants"
            " where role_name = current_user))"
        ),
        Reach.OWN_NAME: "role_name = current_user",
    }
)

_READ: Final = frozenset({Right.SELECT})
_APPEND: Final = frozenset({Right.SELECT, Right.INSERT})
_CHANGE: Final = frozenset({Right.SELECT, Right.INSERT, Right.UPDATE})


@dataclass(frozen=True, slots=True)
class Guarded:
    """One table: whether its rows are a tenant's, and the rights of each role; others have none.

    `reach` is what differs here from the role's own.
    """

    has_tenant: bool
    rights: Mapping[Role, frozenset[Right]]
    schema: str | None = None
    reach: Mapping[Role, Reach] = field(default_factory=dict)

    def reach_of(self, role: Role) -> Reach:
        """Which rows the role is let to."""
        return self.reach.get(role, REACH[role])


_READERS: Final = {Role.GATEWAY: _READ, Role.ANALYST: _READ, Role.OPERATOR: _READ}

TABLES: Final[Mapping[str, Guarded]] = MappingProxyType(
    {
        "projection_offsets": Guarded(
            has_tenant=False,
            rights={
                **_READERS,
                Role.PROJECTOR: _CHANGE,
                Role.RECONCILER: _READ,
                Role.PROCESSOR: _READ,
                Role.EXECUTOR: _READ,
            },
        ),
        "streams": Guarded(
            has_tenant=True,
            rights={Role.PROJECTOR: _CHANGE, Role.PROCESSOR: _READ, Role.OPERATOR: _READ},
        ),
        "actions": Guarded(
            has_tenant=True,
            rights={
                **_READERS,
                Role.PROJECTOR: _CHANGE,
                Role.RECONCILER: _READ,
                Role.PROCESSOR: _READ,
            },
        ),
        "action_events": Guarded(
            has_tenant=True, rights={**_READERS, Role.PROJECTOR: _APPEND, Role.PROCESSOR: _READ}
        ),
        "decisions": Guarded(has_tenant=True, rights={**_READERS, Role.PROJECTOR: _APPEND}),
        # Which actions were begun before an effect that bears no mark of ours.
        "attempts": Guarded(
            has_tenant=True,
            rights={**_READERS, Role.PROJECTOR: _CHANGE, Role.RECONCILER: _READ},
        ),
        "provider_references": Guarded(
            has_tenant=True,
            rights={**_READERS, Role.PROJECTOR: _APPEND, Role.RECONCILER: _READ},
        ),
        "review_cases": Guarded(
            has_tenant=True,
            rights={**_READERS, Role.PROJECTOR: _APPEND, Role.RECONCILER: _READ},
        ),
        "review_resolutions": Guarded(
            has_tenant=True,
            rights={**_READERS, Role.PROJECTOR: _APPEND, Role.RECONCILER: _READ},
        ),
        "previews": Guarded(has_tenant=True, rights={**_READERS, Role.PROJECTOR: _APPEND}),
        "approvals": Guarded(has_tenant=True, rights={**_READERS, Role.PROJECTOR: _CHANGE}),
        "approval_decisions": Guarded(
            has_tenant=True, rights={**_READERS, Role.PROJECTOR: _APPEND}
        ),
        "gates": Guarded(
            has_tenant=True,
            rights={**_READERS, Role.PROJECTOR: _CHANGE, Role.PROCESSOR: _READ},
        ),
        "gate_events": Guarded(
            has_tenant=True,
            rights={**_READERS, Role.PROJECTOR: _APPEND, Role.PROCESSOR: _READ},
        ),
        "gate_reservations": Guarded(has_tenant=True, rights={**_READERS, Role.PROJECTOR: _CHANGE}),
        # Webhooks belong to an account at a provider; whose they are is found out later. The
        # gateway shows its people what is nobody's.
        "webhooks": Guarded(
            has_tenant=False,
            rights={Role.RECONCILER: _CHANGE, Role.GATEWAY: _READ, Role.OPERATOR: _READ},
        ),
        "notices": Guarded(
            has_tenant=True,
            rights={Role.RECONCILER: _CHANGE | {Right.DELETE}, Role.OPERATOR: _READ},
        ),
        "inquirer_positions": Guarded(
            has_tenant=False, rights={Role.RECONCILER: _CHANGE, Role.OPERATOR: _READ}
        ),
        "live_windows": Guarded(
            has_tenant=False,
            rights={
                Role.RECONCILER: _CHANGE | {Right.DELETE},
                Role.GATEWAY: _READ,
                Role.OPERATOR: _READ,
            },
        ),
        "event_pulls": Guarded(
            has_tenant=False,
            rights={
                Role.RECONCILER: _CHANGE,
                # Whoever compares ends what is told of lost events.
                Role.OPERATOR: frozenset({Right.SELECT, Right.UPDATE}),
            },
        ),
        # The pages' own. An operator's command makes and ends links; the gateway puts the key in.
        "passkey_links": Guarded(
            has_tenant=False,
            rights={
                Role.GATEWAY: frozenset({Right.SELECT, Right.UPDATE}),
                Role.OPERATOR: frozenset({Right.SELECT, Right.INSERT, Right.DELETE}),
            },
        ),
        "console_spent": Guarded(
            has_tenant=False,
            rights={
                Role.GATEWAY: frozenset({Right.SELECT, Right.INSERT, Right.DELETE}),
                Role.OPERATOR: _READ,
            },
        ),
        # Every process sees at its start whether the set-up step of its version has run.
        "schema_migrations": Guarded(
            has_tenant=False,
            rights={role: _READ for role in Role if role is not Role.ANALYST},
        ),
        "analyst_tenants": Guarded(
            has_tenant=True,
            rights={Role.ANALYST: _READ, Role.OPERATOR: _READ},
            schema=ACCESS_SCHEMA,
            reach={Role.ANALYST: Reach.OWN_NAME},
        ),
    }
)
"""Every table. Analysts have rights on tables because views ask with the rights of their reader;
they cannot name one, having no usage of its schema."""

SCHEMA_USERS: Final = tuple(role for role in Role if role is not Role.ANALYST)
"""Who may name the tables of the schema."""

VIEW_READERS: Final = (Role.ANALYST, Role.OPERATOR)
"""Who reads the versioned views, every one of them."""
