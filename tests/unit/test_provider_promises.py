"""What an adapter promises, in sentences, and a catalogue that relies on more than that."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.providers.adapter import ProviderSettings
from reconciler.providers.kinds import kind_of, read_adapter
from reconciler.providers.port import IMPOSSIBLE, Capabilities, Reliability, Remembered
from reconciler.providers.promises import beyond, promises
from reconciler.providers.simulated.capabilities import CAPABILITIES
from tests.examples import CHARGE, EMAIL, NOTE, PAYOUT, operation_of
from tests.tree import ROOT

EXAMPLES = ROOT / "examples" / "providers"
GOOD = replace(CAPABILITIES, settle_horizon_ms=1_000)
NOTHING = Capabilities(
    reliability=Reliability.NONE,
    finds_by_key=IMPOSSIBLE,
    finds_by_reference=IMPOSSIBLE,
    finds_by_marker=IMPOSSIBLE,
    lists_effects=IMPOSSIBLE,
    previews=IMPOSSIBLE,
    key_window_ms=IMPOSSIBLE,
    key_chars_max=IMPOSSIBLE,
    settle_horizon_ms=IMPOSSIBLE,
    search_lag_ms=IMPOSSIBLE,
    replay_proven=IMPOSSIBLE,
    remembers=frozenset(),
    sends_webhooks=IMPOSSIBLE,
    retries_webhooks=IMPOSSIBLE,
)


def test_every_question_is_answered_in_a_sentence() -> None:
    """Whatever a provider can, each answer is said, the bad ones too."""
    for can in (GOOD, NOTHING):
        told = promises(can)
        assert len({one.question for one in told}) == len(told) == 10
        assert all(one.sentence.endswith(".") for one in told)
    assert all(one.is_kept for one in promises(GOOD))
    assert [one.question for one in promises(NOTHING) if one.is_kept] == ["remembers"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "no second effect, for 1 day."),
        ({"key_window_ms": 7_200_000}, "for 2 hours."),
        ({"settle_horizon_ms": 1_500}, "within 1.5 s of its last byte"),
        ({"retries_webhooks": IMPOSSIBLE}, "once: one that is missed is missed"),
        ({"remembers": frozenset({Remembered.SERVER_ERROR})}, "A 500 is given again for ever"),
        ({"remembers": frozenset({Remembered.REFUSAL})}, "A refusal is given again"),
        ({"replay_proven": IMPOSSIBLE}, "is not proven"),
    ],
)
def test_a_promise_says_what_it_means(change: dict[str, object], sentence: str) -> None:
    """In the words of who has to decide whether to rely on it."""
    told = promises(replace(GOOD, **change))  # type: ignore[arg-type]
    assert any(sentence in one.sentence for one in told), [one.sentence for one in told]


@pytest.mark.parametrize(
    ("key", "change", "path"),
    [
        (CHARGE, {}, None),
        (CHARGE, {"key_window_ms": 100_000}, "key_window_ms"),
        (CHARGE, {"key_chars_max": 64}, "provider_key"),
        (CHARGE, {"settle_horizon_ms": 60_000}, "settle_horizon_ms"),
        (CHARGE, {"settle_horizon_ms": IMPOSSIBLE}, "settle_horizon_ms"),
        (CHARGE, {"search_lag_ms": 60_000}, "search_lag_ms"),
        (PAYOUT, {}, "reliability"),
        (NOTE, {}, None),
        (NOTE, {"finds_by_key": IMPOSSIBLE, "finds_by_marker": IMPOSSIBLE}, "lookups"),
        (EMAIL, {}, None),
    ],
)
def test_an_operation_that_relies_on_more_is_told_where(
    key: str, change: dict[str, object], path: str | None
) -> None:
    """By the key of the line that promises too much."""
    can = replace(GOOD, **change)  # type: ignore[arg-type]
    found = [place[0] for place, _ in beyond(operation_of(key), can)]
    assert found == ([] if path is None else [path])


def test_nothing_can_be_relied_on_where_nothing_is_kept() -> None:
    """The class, the lookups and the horizon are each told."""
    charge = operation_of(CHARGE)
    paths = [place[0] for place, _ in beyond(charge, NOTHING)]
    assert paths == ["reliability", "lookups", "settle_horizon_ms"]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_described_examples_are_whole(file: Path) -> None:
    """What users copy has no mistake, an address of its own and no credential in it."""
    read = read_adapter(ProviderSettings(file.stem, kind_of(file), adapter_file=file))
    assert not isinstance(read, tuple), read
    assert read.place is not None
    assert read.operations
    assert read.accounts
