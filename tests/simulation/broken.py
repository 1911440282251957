"""A law that does not hold: how every judge of a history says so."""


class BrokenLawError(AssertionError):
    """A history that must not be."""


def law(holds: object, name: str, why: object) -> None:
    """Say which law is broken, and by what: a text, or things that are put into words only then."""
    if not holds:
        raise BrokenLawError(f"{name}: {why}")
