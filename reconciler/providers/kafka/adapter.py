"""The kind `kafka`: clients of a described outbox. Called by `kinds`.

What is promised is the consumer's to keep. Without `[consumer]` nothing is: a record that is
written twice may be two effects, and nothing can be looked up.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ledger.core.mistakes import Found, Mistake
from ledger.log.access import KafkaAccess, Mechanism, Protocol
from reconciler.providers.adapter import Adapter, ProviderSettings
from reconciler.providers.credentials import credentials_of, unreadable_credentials
from reconciler.providers.described import ForeseesNothing, described_file, read_described
from reconciler.providers.kafka.description import ConsumerForm, KafkaDescription, parse_kafka
from reconciler.providers.kafka.mapping import KafkaMapping
from reconciler.providers.kafka.performer import KafkaPerformer
from reconciler.providers.null import CAPABILITIES as NOTHING
from reconciler.providers.null import NullFinder, NullMapping
from reconciler.providers.port import (
    IMPOSSIBLE,
    Answer,
    Capabilities,
    Finder,
    Performer,
    Reliability,
    WebhookMapping,
)
from reconciler.providers.postgres.connecting import Databases
from reconciler.providers.postgres.finder import PostgresFinder


def read(settings: ProviderSettings) -> Adapter | tuple[Mistake, ...]:
    """The described outbox, or the mistakes; raises UnusableProvider, OSError."""
    return read_described(settings, described_file(settings), parse_kafka, _Kafka)


def promised_by(consumer: ConsumerForm | None) -> Capabilities:
    """What an outbox promises with such a consumer."""
    if consumer is None:
        return NOTHING
    searched = Answer.POSSIBLE if consumer.lookups else IMPOSSIBLE
    horizon = consumer.settle_horizon_ms
    return Capabilities(
        reliability=Reliability.KEYED,
        finds_by_key=searched,
        finds_by_reference=searched,
        finds_by_marker=searched,
        lists_effects=searched,
        previews=IMPOSSIBLE,
        key_window_ms=consumer.key_window_ms,
        key_chars_max=IMPOSSIBLE,
        settle_horizon_ms=horizon if isinstance(horizon, int) and searched else IMPOSSIBLE,
        search_lag_ms=consumer.search_lag_ms if searched else IMPOSSIBLE,
        # A second record is a second place in the topic: only the consumer knows that it is one.
        replay_proven=IMPOSSIBLE,
        remembers=frozenset(),
        sends_webhooks=Answer(consumer.reports),
        retries_webhooks=IMPOSSIBLE,
    )


@dataclass(frozen=True, slots=True)
class _Kafka(ForeseesNothing):
    settings: ProviderSettings
    description: KafkaDescription

    @property
    def capabilities(self) -> Capabilities:
        return promised_by(self.description.form.consumer)

    @property
    def place(self) -> str | None:
        topics = sorted({one.topic for one in self.description.records.values()})
        return f"kafka://{self.description.form.brokers}, {', '.join(topics)}"

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(self.description.records)

    @property
    def accounts(self) -> frozenset[str]:
        return frozenset(self.description.users)

    def unreadable(self) -> Iterable[Found]:
        form = self.description.form
        yield from unreadable_credentials(self.settings, "credentials", form.credentials)
        if form.consumer is not None:
            for (_, account), said in unreadable_credentials(
                self.settings, "lookups", form.consumer.lookups
            ):
                yield ("consumer", "lookups", account), said

    def performer(self) -> Performer:
        form = self.description.form
        passwords = credentials_of(self.settings, form.credentials)
        folder = described_file(self.settings).parent
        access = {
            account: KafkaAccess(
                protocol=Protocol(form.protocol),
                mechanism=Mechanism(form.mechanism),
                username=user,
                password=passwords.get(account),
                ca_file=None if form.ca_file is None else folder / form.ca_file,
            )
            for account, user in self.description.users.items()
            if user is None or account in passwords
        }
        return KafkaPerformer(self.description, access)

    def finder(self) -> Finder:
        consumer = self.description.form.consumer
        if consumer is None or not consumer.lookups:
            return NullFinder()
        addresses = credentials_of(self.settings, consumer.lookups)
        return PostgresFinder(Databases(addresses, consumer.effects_table))

    def mapping(self) -> WebhookMapping:
        consumer = self.description.form.consumer
        reports = consumer is not None and consumer.reports == "possible"
        return KafkaMapping() if reports else NullMapping()
