"""Headers with names that are no text, as other clients write them and ours does not."""

from typing import Any, Final

from aiokafka.record.util import calc_crc32c

STANDS_FOR: Final = "stands for bytes that are none of a text"
NO_TEXT: Final = b"\xff" * len(STANDS_FOR)
_CHECKSUM_AT, _CHECKED_FROM = 17, 21


def with_no_text(batch: Any) -> Any:  # noqa: ANN401 - has no types
    """Close a batch of the producer; in it a name that stands for others becomes them."""
    raw = batch._build().replace(STANDS_FOR.encode(), NO_TEXT)
    raw[_CHECKSUM_AT:_CHECKED_FROM] = calc_crc32c(bytes(raw[_CHECKED_FROM:])).to_bytes(4, "big")
    batch._buffer = raw
    return batch
