"""Two processes under one member name: the older one ends by it, and nobody else ever does."""

import pytest

from ledger.core.records import EpochOpened
from ledger.log.fold import PartitionFold
from ledger.log.port import Appended
from streams.owner import Owner
from streams.taking_over import NameTakenError, check_name, nonce_of
from tests.examples import T0
from tests.ledgers import GENERATION, LedgerBuilder


def owner(nonce: str) -> Owner:
    """An owner that has folded its ledger and opened nothing yet."""
    fold = PartitionFold(0)
    for record in LedgerBuilder().records():
        fold.feed(record)
    return Owner(0, 1, GENERATION, nonce, checkpoint=fold)


def opened(nonce: str) -> EpochOpened:
    """An epoch of somebody's."""
    return EpochOpened(at=9, epoch=7, nonce=nonce)


def test_the_older_of_two_under_one_name_ends() -> None:
    """It finds an epoch that the other opened after its own, and is told what to do; the newer one
    found the older one's epochs before it opened any.
    """
    older = owner(nonce_of("twin"))
    newer = nonce_of("twin")
    check_name(older, opened(newer))
    older.opened(Appended(older.fold.next_offset, T0), 0)
    with pytest.raises(NameTakenError, match=r"member twin .*ACTIONLEDGER_MEMBER"):
        check_name(older, opened(newer))


@pytest.mark.parametrize(
    ("own", "other"),
    [("one", "two"), ("one", None), (None, "one"), (None, None)],
)
def test_who_has_another_name_or_none_takes_over_as_ever(
    own: str | None, other: str | None
) -> None:
    """Partitions go to other members and come back."""
    mine = nonce_of(own)
    one = owner(mine)
    one.opened(Appended(one.fold.next_offset, T0), 0)
    check_name(one, opened(nonce_of(other)))
    check_name(one, opened(mine))
