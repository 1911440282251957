"""Which keys of a partition may have a stream, in memory of a fixed size: a Bloom filter.

Guarantees that a key which was added is never denied, so what is denied is new, and nobody has to
be asked. How many others are not denied either depends on the size: with 10 bits a key one in a
hundred, with 3 one in four, and each of those is asked for as without a filter. It never forgets
and never grows. Without I/O; held by `streams.memory`.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

POSITIONS_A_KEY: Final = 4
_DIGEST_BYTES: Final = 16
_LOW: Final = (1 << 64) - 1


class KeyFilter:
    """A filter of so many bytes; nothing is in it yet."""

    def __init__(self, size_bytes: int) -> None:
        self._bits = bytearray(size_bytes)

    def add(self, key: str) -> None:
        """From now on this key may have a stream."""
        for byte, bit in self._places(key):
            self._bits[byte] |= bit

    def may_have(self, key: str) -> bool:
        """False where the key was certainly never added."""
        return all(self._bits[byte] & bit for byte, bit in self._places(key))

    def _places(self, key: str) -> Iterator[tuple[int, int]]:
        """Bytes and bits of a key: two halves of one digest, combined (Kirsch and Mitzenmacher)."""
        digest = int.from_bytes(blake2b(key.encode(), digest_size=_DIGEST_BYTES).digest(), "big")
        first, second = digest >> 64, digest & _LOW | 1
        bits = len(self._bits) * 8
        for number in range(POSITIONS_A_KEY):
            place = (first + number * second) % bits
            yield place >> 3, 1 << (place & 7)
