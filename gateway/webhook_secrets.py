"""Secrets of webhooks: several for each account at a provider, so that one can replace another.

Guarantees that the newest secret signs, that an older one is accepted until the time it was given
and not after, that a change of the file reaches a running process within a second or two, and that
whoever is about to refuse by the file can hold it against what it says now. Must never log or
return a secret except once, to whoever had it drawn. Called by settings, the webhook route, the
simulated provider and the command line.

    [stripe.main]
    secrets = ["whsec_new", {secret = "whsec_old", accepted_until = 1767225600000}]
"""

import hashlib
import logging
import secrets
import time
import tomllib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from gateway.private_files import Watched, changing, quoted, replace_private
from ledger.core.errors import LedgerError
from ledger.core.ids import COMPONENT

logger = logging.getLogger("actionledger.webhook_secrets")

SECRETS_PER_ACCOUNT_MAX: Final = 8
SECRET_BYTES: Final = 24
SHAPE: Final = 'write [provider.account] and below it secrets = ["whsec_…"]'

Account = tuple[str, str]
"""Provider and account."""


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """One secret. `accepted_until` is None for the newest, which has no end."""

    secret: str = field(repr=False)
    accepted_until: int | None = None

    @property
    def fingerprint(self) -> str:
        """What tells it from others and gives nothing away."""
        return hashlib.sha256(self.secret.encode()).hexdigest()[:8]

    def is_live(self, now_ms: int) -> bool:
        """Whether it is accepted at a time."""
        return self.accepted_until is None or now_ms < self.accepted_until


KeyOf = Callable[[str, str], bytes | None]
"""The key that a provider's secret stands for, as its scheme says; None for what is none."""

SecretsByAccount = Mapping[Account, tuple[WebhookSecret, ...]]


class WebhookSecretsError(LedgerError):
    """The file of webhook secrets cannot be used. `problem` is without what is in it."""

    def __init__(self, path: Path, problem: str, *, hint: str) -> None:
        super().__init__(f"The webhook secrets in {path} cannot be used: it {problem}.", hint=hint)
        self.path = path
        self.problem = problem


class UnknownSecretError(LedgerError):
    """No secret of this account has this fingerprint, or it is the only one that has no end."""


class TooManySecretsError(LedgerError):
    """An account has as many secrets that are still accepted as are compared with a webhook."""

    def __init__(self, provider: str, account: str) -> None:
        super().__init__(
            f"{provider}.{account} has {SECRETS_PER_ACCOUNT_MAX} secrets that are still accepted.",
            hint="Revoke one with `actionledger secrets revoke`, or end all others with"
            " `actionledger secrets rotate --keep-hours 0`.",
        )


class SharedSecretError(LedgerError):
    """Another account has the same secret: what is signed for one would be believed of both."""

    def __init__(self, provider: str, account: str) -> None:
        super().__init__(
            f"{provider}.{account} has this secret: what is signed for one of both accounts would"
            " be believed of the other.",
            hint="Have the provider draw another one for this endpoint.",
        )


def read_secrets(path: Path) -> SecretsByAccount:
    """The secrets of a file by provider and account. Raises WebhookSecretsError."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WebhookSecretsError(
            path, "cannot be read", hint=f"{error.strerror}: {path}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise WebhookSecretsError(path, "is not TOML", hint=SHAPE) from None
    found: dict[Account, tuple[WebhookSecret, ...]] = {}
    for provider, accounts in tables.items():
        if not isinstance(accounts, dict):
            raise WebhookSecretsError(path, f"holds {provider}, which is no table", hint=SHAPE)
        for account, table in accounts.items():
            problem, several = _of_account(provider, account, table)
            if problem:
                raise WebhookSecretsError(path, problem, hint=SHAPE)
            found[provider, account] = several
    return found


def _of_account(
    provider: str, account: str, table: object
) -> tuple[str, tuple[WebhookSecret, ...]]:
    """What is wrong with one table, and its secrets."""
    if COMPONENT.fullmatch(provider) is None or COMPONENT.fullmatch(account) is None:
        return "names an account that is no component of a key", ()
    listed = table.get("secrets") if isinstance(table, dict) and len(table) == 1 else None
    if isinstance(listed, list) and 1 <= len(listed) <= SECRETS_PER_ACCOUNT_MAX:
        several = tuple(one for entry in listed if (one := _secret(entry)) is not None)
        if len(several) == len(listed):
            return "", several
    name = f"{provider}.{account}"
    return f"holds no list of 1 to {SECRETS_PER_ACCOUNT_MAX} secrets for {name}", ()


def _secret(entry: object) -> WebhookSecret | None:
    match entry:
        case str() if entry:
            return WebhookSecret(entry)
        case {"secret": str() as secret, "accepted_until": int() as until, **more} if (
            secret and not more and not isinstance(until, bool)
        ):
            return WebhookSecret(secret, until)
        case _:
            return None


class SecretsFile:
    """The secrets of a file that may change while the process runs.

    A file that became unusable leaves the secrets before it in force, with a warning in the log; at
    the start it is a WebhookSecretsError. Without a path there are none.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        is_usable: Callable[[str, str], bool] = lambda _provider, secret: bool(secret),
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_usable` says of each provider's secret whether it can verify anything."""
        self._watched = None if path is None else _watched(path, is_usable, clock_s)

    def live(self, provider: str, account: str, now_ms: int) -> tuple[str, ...]:
        """The secrets of an account that are accepted at a time, the one that signs first."""
        several = self._content().get((provider, account), ())
        return tuple(one.secret for one in several if one.is_live(now_ms))

    def accounts(self, provider: str) -> tuple[str, ...]:
        """The accounts at a provider that have secrets."""
        return tuple(account for name, account in self._content() if name == provider)

    def has_changed(self) -> bool:
        """Look at the file now; whether it says something else than before."""
        return self._watched is not None and self._watched.has_changed()

    def _content(self) -> SecretsByAccount:
        return {} if self._watched is None else self._watched.content()


def _watched(
    path: Path, is_usable: Callable[[str, str], bool], clock_s: Callable[[], float]
) -> Watched[SecretsByAccount]:
    def read(given: Path) -> SecretsByAccount:
        found = read_secrets(given)
        for (provider, account), several in found.items():
            if not all(is_usable(provider, one.secret) for one in several):
                raise WebhookSecretsError(
                    given,
                    f"holds a secret of {provider}.{account} that is none",
                    hint="Write it as the provider shows it, and as its description says.",
                )
        return found

    return Watched(
        path,
        read,
        unusable=WebhookSecretsError,
        on_change=lambda found: logger.info("webhook_secrets_read", extra={"accounts": len(found)}),
        on_trouble=lambda trouble: logger.warning(
            "webhook_secrets_unusable", extra={"reason": str(trouble)}
        ),
        clock_s=clock_s,
    )


def new_secret() -> str:
    """A secret that was drawn, as Standard Webhooks writes them."""
    return f"whsec_{b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"


def rotate_secret(
    path: Path,
    provider: str,
    account: str,
    *,
    keep_ms: int,
    secret: str | None = None,
    key_of: KeyOf = lambda _provider, secret: secret.encode(),
) -> str:
    """Put a new secret before those of an account and return it; the others are accepted on.

    The provider's own new one, or one drawn here. `key_of` is the key that a provider's secret
    stands for, by which another spelling of what another account has is known. Those before it end
    `keep_ms` from now at the latest; what has ended is dropped. Raises WebhookSecretsError,
    SharedSecretError, and TooManySecretsError, each with the file as it was: to drop one that is
    still accepted would break what was promised of it.
    """
    made = secret or new_secret()
    key = key_of(provider, made)
    now_ms = _now_ms()
    with _changed(path) as found:
        for other, theirs in found.items():
            live = [one.secret for one in theirs if one.is_live(now_ms)]
            keys = [key_of(other[0], one) for one in live]
            if other != (provider, account) and (made in live or (key is not None and key in keys)):
                raise SharedSecretError(*other)
        ends_at = now_ms + keep_ms
        shortened = (
            replace(one, accepted_until=min(one.accepted_until or ends_at, ends_at))
            for one in found.get((provider, account), ())
            if one.secret != made
        )
        several = (WebhookSecret(made), *(one for one in shortened if one.is_live(now_ms)))
        if len(several) > SECRETS_PER_ACCOUNT_MAX:
            raise TooManySecretsError(provider, account)
        problem, _ = _of_account(provider, account, {"secrets": [one.secret for one in several]})
        if problem:
            raise WebhookSecretsError(path, problem, hint=SHAPE)
        found[provider, account] = several
    return made


def revoke_secret(path: Path, provider: str, account: str, fingerprint: str) -> None:
    """Drop a secret that was replaced. Raises UnknownSecretError, WebhookSecretsError.

    The one that signs is not dropped: rotate it with nothing kept.
    """
    with _changed(path) as found:
        several = found.get((provider, account), ())
        rest = tuple(one for one in several[1:] if one.fingerprint != fingerprint)
        if len(rest) + 1 != len(several) - 1:
            raise UnknownSecretError(
                f"{provider}.{account} has no replaced secret {fingerprint}.",
                hint="See `actionledger secrets list`; the newest is replaced by "
                "`actionledger secrets rotate --keep-hours 0`.",
            )
        found[provider, account] = (several[0], *rest)


@contextmanager
def _changed(path: Path) -> Iterator[dict[Account, tuple[WebhookSecret, ...]]]:
    try:
        with changing(path):
            found = dict(read_secrets(path)) if path.exists() else {}
            yield found
            replace_private(path, "\n".join(_table(*each) for each in found.items()))
    except OSError as error:
        raise WebhookSecretsError(
            path, "cannot be written", hint=f"{error.strerror}: let this user write the folder."
        ) from error


def _table(account: Account, several: tuple[WebhookSecret, ...]) -> str:
    listed = ", ".join(
        quoted(one.secret)
        if one.accepted_until is None
        else f"{{secret = {quoted(one.secret)}, accepted_until = {one.accepted_until}}}"
        for one in several
    )
    # A component of a key may hold a dot, which TOML would take for a table within.
    return f"[{quoted(account[0])}.{quoted(account[1])}]\nsecrets = [{listed}]\n"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
