"""The provider's own book: one line for every request, on disk before its answer leaves.

Guarantees: a line is handed to the operating system in one write before the answer, so killing the
process loses no committed effect; the file alone gives everything back (effects, numbers, the
memory of keys); `effect_id` stands only on the line that made the effect, so counting effects is
counting those. It is the ground truth that checkers compare the ledger with.

Must never change or drop a line it has written. The server is its only writer.
"""

import fcntl
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, ValidationError

from ledger.core.errors import LedgerError
from ledger.core.money import Money
from ledger.core.wire import Milliseconds, Text, Wire
from reconciler.providers.simulated.api import Effect, EffectRequest, Metadata

BOOK_NAME: Final = "book.jsonl"
_PREFIXES: Final = {
    "charge": "ch",
    "email": "em",
    "payment_intent": "pi",
    "refund": "re",
    "ticket": "ti",
}
_FILE_MODE: Final = 0o600
_OPENED: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW


Mark: TypeAlias = Literal["key", "reference", "action_key"]
"""What an effect can be searched by."""


Detail = Annotated[dict[Text, Text], Field(max_length=64)]
"""What a provider with forms of its own keeps of a request, beside what every provider has."""


class UnreadableBook(LedgerError):
    """The book cannot be used: another process has it, or wrote what this one cannot read."""


class Line(Wire):
    """One request and what became of it.

    `answer` is what the provider meant to do with the answer when it wrote the line. Of two lines
    under one key, `effect_id` is on the one that made the effect and `replayed_effect_id` on the
    other. `remembered` says what the same key gets: nothing, the effect, or this very answer.
    `detail` is only on a line that was not answered from memory.
    """

    request_id: Text
    account: Text
    operation: Text
    key: Text | None
    reference: Text | None
    action_key: Text | None
    request_hash: Text | None
    parameters_hash: Text
    target: Text | None
    description: Text | None
    amount: Money | None
    arrived_at: Milliseconds
    decided_at: Milliseconds
    committed_at: Milliseconds | None
    effect_id: Text | None
    replayed_effect_id: Text | None
    status: int
    code: Text | None
    answer: Literal["sent", "dropped"]
    remembered: Literal["nothing", "effect", "answer"]
    original: Text | None = None
    detail: Detail | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it came in, before anything is decided."""

    request_id: str
    account: str
    operation: str
    key: str | None
    body: EffectRequest
    description: str | None
    parameters_hash: str
    arrived_at: int
    detail: Mapping[str, str] | None = None


def _nobody(line: Line) -> None:
    """Watches nothing."""
    _ = line


class Book:
    """All lines of one folder, with the indexes that a provider would have."""

    def __init__(self, folder: Path, *, watch: Callable[[Line], None] = _nobody) -> None:
        """Read the book again, or start one. `watch` is shown every line, those that were there
        too. Raises UnreadableBook, OSError.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._watch = watch
        self.path = folder / BOOK_NAME
        self._forget()
        self._descriptor = os.open(self.path, _OPENED, _FILE_MODE)
        try:
            self._lock()
            self._read_again()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def reset(self) -> None:
        """Empty the book and start numbering again: a new world, never part of a checked run."""
        os.ftruncate(self._descriptor, 0)
        self._forget()

    def next_request_id(self) -> str:
        """A request id that no line has."""
        self._requests += 1
        return f"rq_{self._requests}"

    def next_effect_id(self, operation: str) -> str:
        """The id that the next effect of this operation will have; writing its line takes it."""
        prefix = _PREFIXES.get(operation, operation[:2])
        return f"{prefix}_{self._numbers.get(prefix, 0) + 1}"

    def write(self, line: Line) -> None:
        """Write one line, whole, before anything of its answer leaves."""
        data = line.model_dump_json().encode() + b"\n"
        written = os.write(self._descriptor, data)
        if written != len(data):
            # A half line would be read as torn and its effect forgotten: better to stop here.
            raise UnreadableBook(
                f"Only {written} of {len(data)} bytes went into {self.path}.",
                hint="Free some space and start the provider again.",
            )
        self._take(line)

    def line_of_key(self, account: str, key: str) -> Line | None:
        """The first line that is remembered under this key, however old it is."""
        return self._keys.get((account, key))

    def marked(self, account: str, mark: Mark, value: str) -> Sequence[Effect]:
        """The account's effects under this key, client reference or action key, oldest first."""
        return self._marked.get((account, mark, value), ())

    def effect(self, effect_id: str) -> Effect | None:
        """The effect of this id."""
        return self._effects.get(effect_id)

    def effects(self, account: str) -> Sequence[Effect]:
        """All effects of an account, in the order they were committed; it only grows."""
        return self._accounts.get(account, ())

    @property
    def accounts(self) -> Sequence[str]:
        """Every account that has a remembered key."""
        return tuple({account for account, _ in self._keys})

    def forget_keys(self, accounts: frozenset[str]) -> None:
        """Lose the memory of these accounts' keys, as some providers do when they restart."""
        for pair in [pair for pair in self._keys if pair[0] in accounts]:
            del self._keys[pair]

    def _lock(self) -> None:
        """Hold the book alone; the lock goes with the process, however it ends."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnreadableBook(
                f"Another provider writes {self.path}.",
                hint="Stop it, or give this one another folder.",
            ) from None

    def _forget(self) -> None:
        self._requests = 0
        self._numbers: dict[str, int] = {}
        self._effects: dict[str, Effect] = {}
        self._keys: dict[tuple[str, str], Line] = {}
        self._accounts: defaultdict[str, list[Effect]] = defaultdict(list)
        self._marked: defaultdict[tuple[str, Mark, str], list[Effect]] = defaultdict(list)

    def _read_again(self) -> None:
        """Take every whole line; a torn last one was never answered, so it is cut off."""
        whole = 0
        for number, raw in enumerate(self.path.read_bytes().splitlines(keepends=True), 1):
            if not raw.endswith(b"\n"):
                os.ftruncate(self._descriptor, whole)
                break
            try:
                line = Line.model_validate_json(raw)
            except ValidationError as error:
                raise UnreadableBook(
                    f"Line {number} of {self.path} is not a line of this book.",
                    hint="Move the file away to start a new book.",
                ) from error
            whole += len(raw)
            self._requests = max(self._requests, int(line.request_id.removeprefix("rq_")))
            self._take(line)

    def _take(self, line: Line) -> None:
        self._watch(line)
        if line.effect_id is not None and line.committed_at is not None:
            prefix, _, number = line.effect_id.rpartition("_")
            self._numbers[prefix] = max(self._numbers.get(prefix, 0), int(number))
            effect = _effect(line, line.effect_id, line.committed_at)
            self._effects[effect.id] = effect
            self._accounts[line.account].append(effect)
            marks: dict[Mark, str | None] = {
                "key": line.key,
                "reference": line.reference,
                "action_key": line.action_key,
            }
            for mark, value in marks.items():
                if value is not None:
                    self._marked[line.account, mark, value].append(effect)
        if line.key is not None and line.remembered != "nothing":
            self._keys[line.account, line.key] = line


def _effect(line: Line, effect_id: str, committed_at: int) -> Effect:
    return Effect(
        id=effect_id,
        account=line.account,
        operation=line.operation,
        target=line.target,
        description=line.description,
        amount=line.amount,
        key=line.key,
        reference=line.reference,
        original=line.original,
        metadata=Metadata(action_key=line.action_key, request_hash=line.request_hash),
        committed_at=committed_at,
    )
