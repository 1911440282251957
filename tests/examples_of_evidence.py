"""What is kept of a report that comes when the attempt has its end already."""

from ledger.core import facts as f
from ledger.core import inputs as i
from tests.examples import CHARGE


def kept_report(
    kind: str,
    meaning: i.Meaning,
    *,
    attempt: int = 1,
    reference: str | None = None,
    code: str | None = None,
) -> f.EvidenceRecorded:
    """A late report, kept as evidence; a refusal for good."""
    is_none = meaning is i.Meaning.NO_EFFECT
    return f.EvidenceRecorded(
        action=CHARGE,
        version=0,
        kind=i.EvidenceKind.REPORT,
        source_id=f"report:{attempt}:{kind}",
        meaning=meaning,
        attempts_upto=attempt,
        reference=reference,
        code=code,
        denies=(attempt,) if is_none else None,
        for_good=True if is_none else None,
    )
