"""What the log says of a batch of webhooks: a line for what may need eyes, counts for the rest."""

import logging

import pytest

from ledger.log.webhook_record import WebhookSource
from reconciler.evidence import Receipt
from reconciler.matching import Match, Matched, MatchedBy, Parked, ParkedReason
from reconciler.parking import Position, WebhookRow
from reconciler.providers.port import Unrecognised
from reconciler.receiving_log import log_batch

MATCHED = Matched("charge:v1:acme:renewal-1", MatchedBy.METADATA)
ORPHAN = Parked(ParkedReason.ORPHAN_EFFECT)


def row(offset: int, match: Match, source: WebhookSource = "webhook") -> WebhookRow:
    """A row of a batch."""
    receipt = Receipt("simulated", "main", 0, offset, "00" * 32, source)
    mapped = Unrecognised("not_looked_at")
    return WebhookRow(receipt, f"evt_{offset}", 1, "sha256:00", mapped, match, 1, fact=None)


BATCH = [row(1, MATCHED), row(2, MATCHED), row(3, ORPHAN), row(4, MATCHED)]
REPEATED = {Position(0, 4)}


def test_what_needs_nothing_is_one_line_of_counts(caplog: pytest.LogCaptureFixture) -> None:
    """And what is nobody's a line of its own, with where it stands."""
    caplog.set_level(logging.INFO, "actionledger")
    log_batch(BATCH, REPEATED)
    parked, handled = caplog.records
    assert (parked.message, handled.message) == ("webhook_parked", "webhooks_handled")
    assert vars(parked).items() >= {"event_id": "evt_3", "partition": 0, "offset": 3}.items()
    assert vars(handled).items() >= {"matched": 2, "repeated": 1, "orphan_effect": 1}.items()


def test_who_wants_to_know_gets_a_line_for_each(caplog: pytest.LogCaptureFixture) -> None:
    """At the level debug."""
    caplog.set_level(logging.DEBUG, "actionledger")
    log_batch(BATCH, REPEATED)
    lines = [line for line in caplog.records if line.levelno == logging.DEBUG]
    assert [(line.message, vars(line)["event_id"]) for line in lines] == [
        ("webhook_matched", "evt_1"),
        ("webhook_matched", "evt_2"),
        ("webhook_repeated", "evt_4"),
    ]


def test_lines_of_files_are_counted_by_themselves(caplog: pytest.LogCaptureFixture) -> None:
    """As a warning where one of them is nobody's; none of them has a line of its own."""
    caplog.set_level(logging.DEBUG, "actionledger")
    log_batch([row(1, MATCHED, "settlement"), row(2, ORPHAN, "settlement")], set())
    (counted,) = caplog.records
    assert (counted.message, counted.levelno) == ("statement_lines", logging.WARNING)
