"""What a chapter of the demonstration is. Made by each chapter's module, listed in `chapters`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.demo.scene import Scene


@dataclass(frozen=True, slots=True)
class Chapter:
    """A chapter: the name it is called by, what it shows in a line, its headline, its telling.

    `tell` raises NotSeenError where something does not happen at all.
    """

    name: str
    line: str
    title: str
    tell: Callable[[Scene], Awaitable[None]]
