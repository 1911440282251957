"""One hash over all records of a partition: the tree head of RFC 6962, section 2.1, over their
values in the order of their offsets.

Guarantees that whoever has written down a size and its head knows of every later reading whether
the records below that size are the same bytes in the same order. Pure, and takes as much memory as
the tree is high. Called by replays.
"""

import hashlib
from typing import Final

_LEAF: Final = b"\x00"
_NODE: Final = b"\x01"


class Tree:
    """Takes records one by one; knows the head of what it has taken so far."""

    def __init__(self) -> None:
        self._size = 0
        # Heads of the full trees that the leaves make up so far, the largest first, with heights.
        self._full: list[tuple[int, bytes]] = []

    @property
    def size(self) -> int:
        """How many records were taken."""
        return self._size

    def add(self, value: bytes) -> None:
        """Take the next record."""
        height, head = 0, hashlib.sha256(_LEAF + value).digest()
        while self._full and self._full[-1][0] == height:
            _, left = self._full.pop()
            height, head = height + 1, _above(left, head)
        self._full.append((height, head))
        self._size += 1

    def head(self) -> str:
        """The hash of all of them, in hexadecimal."""
        if not self._full:
            return hashlib.sha256().hexdigest()
        *before, (_, head) = self._full
        for _, left in reversed(before):
            head = _above(left, head)
        return head.hex()


def _above(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()
