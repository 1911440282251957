"""As whom a process logs in at Kafka: one login for all it does, or one for each of its roles.

Guarantees that passwords come from files and are in no `repr`, and that a component without a login
where one is needed is told so by name before it connects. A credentials file is TOML, one table a
principal of `ledger.log.principals`:

    [processor]
    username = "actionledger.processor"
    password = "..."

Who logs in by a certificate leaves the password out and gives the name that the broker derives from
it. Called by the settings, and by whatever opens the log.
"""

import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ledger.core.errors import LedgerError
from ledger.log.access import KafkaAccess, Mechanism, Protocol
from ledger.log.principals import Principal, usual_names

if TYPE_CHECKING:
    from ledger.log.declared import Declared

PASSWORD_BYTES: Final = 32
SECRET_CHARS_MAX: Final = 1_024
_SHAPE: Final = 'write [principal] and below it username = "…" and password = "…"'


class NoLoginError(LedgerError):
    """The broker wants a login, and this process was given none for what it does."""


class MalformedError(ValueError):
    """A file with logins that is refused, with what it should be."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Login:
    """A name and what proves it; no password where a certificate does."""

    username: str
    password: str | None = field(default=None, repr=False)


NO_LOGINS: Final[Mapping[Principal, Login]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class KafkaLogins:
    """Everything that the settings say about getting in at the broker.

    `own` is for whatever this process does; a principal's own login goes before it.
    """

    protocol: Protocol = Protocol.PLAINTEXT
    mechanism: Mechanism = Mechanism.SCRAM_SHA_512
    own: Login | None = None
    by_principal: Mapping[Principal, Login] = field(default_factory=lambda: NO_LOGINS)
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def access(self, principal: Principal) -> KafkaAccess:
        """How to get in as a principal. Raises NoLoginError."""
        return self._access(self.by_principal.get(principal) or self.own, principal)

    def administrator(self) -> KafkaAccess:
        """How to get in to say who may do what: as whoever this process is, or as the operator.

        Raises NoLoginError.
        """
        return self._access(
            self.own or self.by_principal.get(Principal.OPERATOR), Principal.OPERATOR
        )

    def declared(self, prefix: str) -> "Declared":
        """What the broker should know of the installation of a prefix, logins included where the
        credentials file has passwords.
        """
        from ledger.log.declared import Declared  # noqa: PLC0415 - with it come Kafka's clients

        names = usual_names(prefix)
        names |= {one: login.username for one, login in self.by_principal.items()}
        passwords = {
            login.username: login.password
            for login in self.by_principal.values()
            if login.password is not None
        }
        return Declared(prefix, names, passwords, self.mechanism)

    def _access(self, login: Login | None, principal: Principal) -> KafkaAccess:
        if self.protocol.has_login and (login is None or login.password is None):
            raise NoLoginError(
                f"There is no Kafka login for the principal {principal}.",
                hint=f"Give [{principal}] in the file of ACTIONLEDGER_KAFKA_CREDENTIALS_FILE, or "
                "ACTIONLEDGER_KAFKA_USERNAME and ACTIONLEDGER_KAFKA_PASSWORD_FILE.",
            )
        return KafkaAccess(
            protocol=self.protocol,
            mechanism=self.mechanism,
            username=None if login is None else login.username,
            password=None if login is None else login.password,
            ca_file=self.ca_file,
            certificate_file=self.certificate_file,
            key_file=self.key_file,
        )


def read_credentials(path: Path) -> Mapping[Principal, Login]:
    """The logins of a file by principal. Raises OSError, MalformedError."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise MalformedError("is not TOML", _SHAPE) from None
    return parse_credentials(tables)


def parse_credentials(tables: Mapping[str, object]) -> Mapping[Principal, Login]:
    """The logins of a file that was parsed. Raises MalformedError."""
    found: dict[Principal, Login] = {}
    for name, table in tables.items():
        if name not in set(Principal):
            known = ", ".join(Principal)
            raise MalformedError("names a principal that there is not", f"there are {known}")
        found[Principal(name)] = _login(name, table)
    return MappingProxyType(found)


def _login(name: str, table: object) -> Login:
    if (
        not isinstance(table, dict)
        or not table.keys() <= {"username", "password"}
        or not all(
            isinstance(text, str) and 0 < len(text) <= SECRET_CHARS_MAX for text in table.values()
        )
        or "username" not in table
    ):
        raise MalformedError(f"holds no login for {name}", _SHAPE)
    return Login(table["username"], table.get("password"))


def read_password(path: Path) -> str:
    """The password that a file holds, without the line end behind it. Raises OSError,
    MalformedError.
    """
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise MalformedError("is not text", "write the password into it") from None
    if not 0 < len(text) <= SECRET_CHARS_MAX or "\n" in text:
        raise MalformedError("holds no password", "write it on the one line of the file")
    return text


def new_credentials(prefix: str) -> str:
    """The text of a credentials file with a new random password for every principal."""
    return written({who: _new_login(name) for who, name in usual_names(prefix).items()})


def _new_login(name: str) -> Login:
    return Login(name, secrets.token_urlsafe(PASSWORD_BYTES))


def written(logins: Mapping[Principal, Login]) -> str:
    """Logins as the text of a credentials file."""
    tables = []
    for principal, login in logins.items():
        proof = "" if login.password is None else f'password = "{login.password}"\n'
        tables.append(f'[{principal}]\nusername = "{login.username}"\n{proof}')
    return "\n".join(tables)


PRINCIPALS_OF: Final[Mapping[str, tuple[Principal, ...]]] = MappingProxyType(
    {
        "permissions": tuple(Principal),
        "setup": (Principal.OPERATOR,),
        "processor": (Principal.PROCESSOR,),
        "executor": (Principal.EXECUTOR,),
        # It brings events that providers list and never sent, in the receiver's role.
        "inquirer": (Principal.INQUIRER, Principal.GATEWAY_WEBHOOKS),
        "reconciler": (Principal.RECONCILER,),
        "projector": (Principal.PROJECTOR,),
        "gateway": (
            Principal.GATEWAY_INTENTS,
            Principal.GATEWAY_APPROVALS,
            Principal.GATEWAY_WEBHOOKS,
        ),
    }
)
"""Whose logins each process needs. The permissions step hands all of them to the broker."""


def files_of(logins: Mapping[Principal, Login]) -> dict[str, str]:
    """By process the text of the file that it is given, with nothing that is another's."""
    return {
        process: written({who: logins[who] for who in principals if who in logins})
        for process, principals in PRINCIPALS_OF.items()
    }
