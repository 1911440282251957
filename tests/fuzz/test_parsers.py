"""Every parser over a fixed number of mutated inputs; `make fuzz` does it for a minute each."""

import pytest

from tests.fuzz.mutating import Mutator
from tests.fuzz.parsers import Target, targets

SEEDS = (1, 2)
TARGETS = tuple(targets())


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_parser_takes_what_is_genuine_and_anything_else(target: Target) -> None:
    """Whatever comes has a named answer; the genuine inputs are among what comes."""
    for case in target.corpus:
        target.run(*case)
    for seed in SEEDS:
        mutator = Mutator(target.corpus, seed)
        for number in range(target.rounds):
            case = mutator.draw()
            try:
                target.run(*case)
            except Exception as broken:
                raise AssertionError(f"seed {seed}, round {number}: {case!r}") from broken


FOUND = (
    ("mapping-http", b'{"id":"evt_2","type":"effect.refused","created_at":1e9999991800000000000}'),
    ("mapping-stripe", b'{"type":"refund.updated","data":{"object":{"id":"\\ud800"}}}'),
    ("catalogue", b"[[operation]]\nname = []\n"),
)
"""What broke a parser once."""


@pytest.mark.parametrize(("name", "raw"), FOUND)
def test_what_broke_a_parser_once_has_a_named_answer(name: str, raw: bytes) -> None:
    """Found by the fuzzer, mended, and tried for ever."""
    (target,) = [one for one in TARGETS if one.name == name]
    target.run(raw)


def test_a_seed_repeats_its_inputs() -> None:
    """What was found is found again."""
    first, again, other = (Mutator(TARGETS[0].corpus, seed) for seed in (7, 7, 8))
    drawn = [first.draw() for _ in range(50)]
    assert drawn == [again.draw() for _ in range(50)]
    assert drawn != [other.draw() for _ in range(50)]


def test_a_parser_that_breaks_is_found() -> None:
    """A fuzzer that finds nothing in a broken parser would prove nothing."""
    corpus = [(b'{"amount": 4990, "currency": "EUR"}',)]
    mutator = Mutator(corpus, 1)

    def careless() -> None:
        for _ in range(TARGETS[0].rounds):
            for field in mutator.draw():
                field.decode()

    with pytest.raises(UnicodeDecodeError):
        careless()
