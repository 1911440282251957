"""Lines of statements as the records that they travel as, for tests that send them by hand."""

from ledger.log.webhook_record import WebhookReceived, WebhookSource
from reconciler.statement_lines import StatementLine, statement_received


def received_line(
    line: StatementLine, *, source: WebhookSource, provider: str, account: str
) -> WebhookReceived:
    """The record of a line, made as an import makes it."""
    return statement_received(
        line.body(),
        line_id=line.line_id,
        occurred_at=line.occurred_at,
        source=source,
        provider=provider,
        account=account,
    )
