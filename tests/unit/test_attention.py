"""Notices: their bytes, and the live window over them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.log.attention_record import (
    AttentionKind,
    AttentionRaised,
    attention_notice,
    read_attention,
)
from ledger.log.envelope import Unreadable
from ledger.log.port import Record
from streams.attention import AttentionWindow

HOUR_MS = 3_600_000


def raised(
    offset: int, *, at: int = 0, kind: AttentionKind = AttentionKind.BECAME_UNKNOWN
) -> AttentionRaised:
    """Build a notice about the fact at a ledger offset."""
    return AttentionRaised(
        kind=kind,
        action="charge:v1:acme:renewal-1",
        stream="acme/renewal-1",
        version=4,
        code="response_timeout",
        decided_at=at,
        ledger_partition=2,
        ledger_offset=offset,
        ordinal=1,
    )


def as_read(value: bytes) -> Record:
    """Put bytes at a place on the topic."""
    return Record("attention", 2, 5, 0, b"acme/renewal-1", value, ())


def test_a_notice_comes_back_as_it_was_raised() -> None:
    """Its id is the place of its fact, it is keyed by its stream, on its ledger's partition."""
    notice = attention_notice(raised(17))
    assert notice.partition == 2
    assert notice.record.key == b"acme/renewal-1"
    assert b'"id":"2/17/1"' in notice.record.value
    assert read_attention(as_read(notice.record.value)) == raised(17)


@pytest.mark.parametrize(
    "value", [b"", b"{bad", b"{}", b'{"specversion":"1.0"}', b"\xff", b"[1.5]"]
)
def test_what_is_no_notice_is_refused_by_name(value: bytes) -> None:
    """Any bytes give a reason, never an exception."""
    assert isinstance(read_attention(as_read(value)), Unreadable)


def test_a_notice_counts_once() -> None:
    """What is told again, after a crash of the inquirer, is known already."""
    window = AttentionWindow()
    assert window.add(raised(1))
    assert not window.add(raised(1))
    assert window.counts()[AttentionKind.BECAME_UNKNOWN] == 1


def test_the_window_moves_with_log_time() -> None:
    """What was decided more than the window ago is counted no more."""
    window = AttentionWindow(HOUR_MS)
    window.add(raised(1, at=1_000))
    window.add(raised(2, at=1_000 + HOUR_MS - 1, kind=AttentionKind.SETTLED))
    assert sum(window.counts().values()) == 2
    window.add(raised(3, at=1_000 + HOUR_MS, kind=AttentionKind.NEEDS_REVIEW))
    assert window.counts() == {
        AttentionKind.BECAME_UNKNOWN: 0,
        AttentionKind.SETTLED: 1,
        AttentionKind.NEEDS_REVIEW: 1,
        AttentionKind.APPROVAL_REQUESTED: 0,
        AttentionKind.APPROVAL_ESCALATED: 0,
    }


@given(
    st.lists(
        st.tuples(st.integers(0, 3 * HOUR_MS), st.sampled_from(list(AttentionKind))), max_size=60
    )
)
def test_the_counts_are_those_of_what_is_inside(told: list[tuple[int, AttentionKind]]) -> None:
    """In log order, the window holds exactly what its length covers."""
    window = AttentionWindow(HOUR_MS)
    in_order = sorted(told, key=lambda one: one[0])
    for offset, (at, kind) in enumerate(in_order):
        window.add(raised(offset, at=at, kind=kind))
    newest = in_order[-1][0] if in_order else 0
    inside = [kind for at, kind in in_order if at > newest - HOUR_MS]
    assert window.counts() == {kind: inside.count(kind) for kind in AttentionKind}


def test_a_window_takes_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is told within the hour, only so much is kept."""
    monkeypatch.setattr("streams.attention.ATTENTION_REMEMBERED_MAX", 10)
    window = AttentionWindow()
    for offset in range(100):
        window.add(raised(offset))
    assert window.counts()[AttentionKind.BECAME_UNKNOWN] == 10
