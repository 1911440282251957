"""What is internal: ticks, and what actions and gates say to each other.

Guarantees that only what an owner of this ledger could have written for the stream of its key may
be passed over or wait for that stream; all else that lies there is decided, which sets it aside or
refuses it. Without I/O; called by the decision and by what waits.
"""

from typing import TypeAlias

from ledger.core import inputs as i
from ledger.core.ids import MalformedId, is_gate_key, is_stream_key, stream_key_of
from ledger.log.envelope import Unreadable, read_input
from ledger.log.port import Record
from ledger.log.topics import partition_of

Internal: TypeAlias = i.Tick | i.Message


def read_internal(
    record: Record, *, generation: str, partition: int, partitions: int
) -> Internal | None:
    """The tick or message that a record is to the stream of its key, as a decision would take it;
    None where a decision looks at no stream, because it is none.
    """
    given = read_input(record)
    if not isinstance(given, Internal) or objection_to_internal(given, generation) is not None:
        return None
    stream = given.stream if isinstance(given, i.Tick) else i.stream_of_message(given)
    is_here = partition_of(stream, partitions) == partition and record.key == stream.encode()
    return given if is_here else None


def objection_to_internal(given: Internal, generation: str) -> Unreadable | None:
    """Why a tick or a message is none of an owner of this ledger, or None."""
    called = "tick" if isinstance(given, i.Tick) else "message"
    if given.generation != generation:
        return Unreadable("foreign_generation", f"a {called} of generation {given.generation}")
    if isinstance(given, i.Tick):
        if not is_stream_key(given.stream):
            return Unreadable("malformed_stream", "a tick of something that is no stream")
        return None
    try:
        of_action = stream_key_of(_action_of(given))
    except MalformedId:
        of_action = ""
    # Whoever is answered has to be there: what is said to nothing would never come to an end.
    if not is_gate_key(given.gate) or not of_action:
        return Unreadable("malformed_stream", "a message to or from something that is no stream")
    return None


def _action_of(given: i.Message) -> str:
    return given.key if isinstance(given, i.GateAnswer | i.GateTaken) else given.action
