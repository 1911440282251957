"""What the log says of a batch of webhooks that was taken to its end.

Guarantees a line for each webhook that may need eyes, and one line of counts for all others: what
became of each is a row, and a line for each took a sixth of the reconciler's time. Must never be
handed a body. Called by the webhook desk.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, assert_never

from reconciler.matching import Irrelevant, Match, Matched, Parked
from reconciler.parking import CONFIRMS, Position, WebhookRow
from reconciler.providers.port import Unrecognised
from reconciler.statement_lines import STATEMENTS

logger = logging.getLogger("actionledger")

_REPEATED: Final = "repeated"
_IN_ORDER: Final = frozenset({_REPEATED, "matched", CONFIRMS})
"""What nobody has to look at."""


def kind_of(match: Match) -> str:
    """What became of a webhook, in one word of a closed set."""
    match match:
        case Matched(is_known=is_known):
            return CONFIRMS if is_known else "matched"
        case Parked(reason=reason):
            return reason.value
        case Irrelevant():
            return "irrelevant"
        case Unrecognised():
            return "unrecognised"
        case _:
            assert_never(match)


def log_batch(rows: Sequence[WebhookRow], repeated: Collection[Position]) -> None:
    """Tell of a batch; `repeated` are the places of further deliveries."""
    lines = [row for row in rows if row.receipt.source in STATEMENTS]
    webhooks = [row for row in rows if row.receipt.source not in STATEMENTS]
    for row in webhooks:
        _log(row, is_repeated=row.position in repeated)
    if webhooks:
        logger.info("webhooks_handled", extra=Counter(_kinds(webhooks, repeated)))
    if not lines:
        return
    counts = Counter(_kinds(lines, repeated))
    if counts.keys() <= _IN_ORDER:
        logger.info("statement_lines", extra=counts)
    else:
        # A file has a hundred thousand of them: all in one line of the log.
        logger.warning("statement_lines", extra=counts)


def _kinds(rows: Sequence[WebhookRow], repeated: Collection[Position]) -> Iterator[str]:
    return (_REPEATED if row.position in repeated else kind_of(row.match) for row in rows)


def _log(row: WebhookRow, *, is_repeated: bool) -> None:
    is_told = logger.isEnabledFor(logging.DEBUG)
    match row.match:
        case _ if is_repeated:
            if is_told:
                logger.debug("webhook_repeated", extra=_fields(row))
        case Matched(action_key=action_key):
            if is_told:
                logger.debug("webhook_matched", extra={**_fields(row), "action": action_key})
        case Parked(reason=reason):
            logger.warning("webhook_parked", extra={**_fields(row), "reason": reason.value})
        case Unrecognised(code=code):
            logger.warning("webhook_unrecognised", extra={**_fields(row), "reason": code})
        case Irrelevant():
            pass
        case _:
            assert_never(row.match)


def _fields(row: WebhookRow) -> dict[str, object]:
    receipt = row.receipt
    return {
        "provider": receipt.provider,
        "account": receipt.account,
        "event_id": row.event_id,
        "partition": receipt.partition,
        "offset": receipt.offset,
    }
