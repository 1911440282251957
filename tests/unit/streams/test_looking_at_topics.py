"""A processor that looks at its topics each minute ends for what it sees, and not for a look that
fails.
"""

import asyncio
import logging
from pathlib import Path

import pytest

from ledger.log.access import KafkaAccess, Protocol
from ledger.log.admin import TopicsError
from ledger.log.kafka import KafkaLog
from streams import topics_watch as module
from streams.topics_watch import watch_topics
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks again at once."""
    monkeypatch.setattr(module, "CHECK_SECONDS", 0)


class Looks(logging.Handler):
    """What is said of looks that failed; asks the processor to stop after two of them."""

    def __init__(self, stop: asyncio.Event) -> None:
        super().__init__()
        self.stop = stop
        self.said: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.said.append(record)
        if len(self.said) == 2:
            self.stop.set()


async def test_files_that_cannot_be_read_for_a_while_end_no_processor_that_works(
    tmp_path: Path,
) -> None:
    """Somebody puts new certificates there. That is said by name, and it looks again."""
    access = KafkaAccess(Protocol.SSL, ca_file=tmp_path / "ca.pem")
    stop = asyncio.Event()
    looks = Looks(stop)
    logger = logging.getLogger("actionledger")
    logger.addHandler(looks)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await watch_topics(KafkaLog("127.0.0.1:1", access=access), 1, stop)
    finally:
        logger.removeHandler(looks)
    assert {record.msg for record in looks.said} == {"topics_not_looked_at"}
    assert {record.__dict__["error"] for record in looks.said} == {"CertificateError"}
    assert "ca.pem" in looks.said[0].__dict__["why"]


async def test_topics_that_forget_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is quiet, this is not."""

    async def forgetting(*_: object) -> None:
        raise TopicsError("Topics do not keep what is written.", hint="Set them right.")

    monkeypatch.setattr(module, "check_keeping", forgetting)
    with pytest.raises(TopicsError):
        await watch_topics(KafkaLog("127.0.0.1:1"), 1, asyncio.Event())
