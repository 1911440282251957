"""How a client gets in at a broker: in the clear or by TLS, as nobody or as one principal.

Guarantees that every kind of client (aiokafka, Faust, the admin) is given the same, and that a
password is in no `repr`. Holds values only: files are read when a connection is wanted. Called by
`ledger.log.kafka` and `ledger.log.permissions`; built from the settings.
"""

import contextlib
import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ledger.core.errors import LedgerError


class Protocol(StrEnum):
    """What is spoken to the broker, as Kafka names it in lower case."""

    PLAINTEXT = "plaintext"
    SSL = "ssl"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_SSL = "sasl_ssl"

    @property
    def has_tls(self) -> bool:
        """Whether what is said is encrypted and the broker proves who it is."""
        return self in {Protocol.SSL, Protocol.SASL_SSL}

    @property
    def has_login(self) -> bool:
        """Whether a client says its name and proves it with a password."""
        return self in {Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL}


class Mechanism(StrEnum):
    """How a password is proven."""

    SCRAM_SHA_512 = "SCRAM-SHA-512"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    PLAIN = "PLAIN"


class CertificateError(LedgerError):
    """A file for TLS cannot be used. `path` names it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} is no certificate or key that can be used: {reason}.",
            hint="Give PEM files: ACTIONLEDGER_KAFKA_CA_FILE holds who signed the broker's "
            "certificate, _CERTIFICATE_FILE and _KEY_FILE are the client's own.",
        )
        self.path = path


class _Parting(ssl.SSLObject):
    """Says that it ends and does not wait to hear the same: a broker may take its time to, and a
    client that stops would stand there for up to 30 s. Whoever stops has had its answers.
    """

    def unwrap(self) -> None:
        """End the encrypted connection, one-sided where the broker says nothing yet."""
        with contextlib.suppress(ssl.SSLWantReadError):
            super().unwrap()


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """What one client is given. Without a CA file those of the machine are believed."""

    protocol: Protocol = Protocol.PLAINTEXT
    mechanism: Mechanism = Mechanism.SCRAM_SHA_512
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def ssl_context(self) -> ssl.SSLContext | None:
        """What verifies the broker, its name included; None without TLS. Raises
        CertificateError.
        """
        if not self.protocol.has_tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(self.ca_file or Path(), _reason(error)) from error
        context.sslobject_class = _Parting
        if self.certificate_file is not None:
            try:
                context.load_cert_chain(self.certificate_file, self.key_file)
            except (OSError, ssl.SSLError) as error:
                raise CertificateError(self.certificate_file, _reason(error)) from error
        return context

    def options(self) -> dict[str, Any]:
        """The keywords of every client of aiokafka. Raises CertificateError."""
        options: dict[str, Any] = {"security_protocol": self.protocol.upper()}
        if self.protocol.has_tls:
            options["ssl_context"] = self.ssl_context()
        if self.protocol.has_login:
            options["sasl_mechanism"] = self.mechanism.value
            options["sasl_plain_username"] = self.username
            options["sasl_plain_password"] = self.password
        return options

    def admin_options(self) -> dict[str, str]:
        """The same in the words of librdkafka."""
        options = {"security.protocol": self.protocol.value}
        files = {
            "ssl.ca.location": self.ca_file,
            "ssl.certificate.location": self.certificate_file,
            "ssl.key.location": self.key_file,
        }
        if self.protocol.has_tls:
            options |= {name: str(path) for name, path in files.items() if path is not None}
        if self.protocol.has_login:
            options["sasl.mechanism"] = self.mechanism.value
            options["sasl.username"] = self.username or ""
            options["sasl.password"] = self.password or ""
        return options


OPEN: Final = KafkaAccess()
"""A broker that lets everybody in."""


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
