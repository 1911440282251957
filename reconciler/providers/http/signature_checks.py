"""What is wrong in `[webhook.signature]` though its form is right.

Guarantees that a scheme without findings verifies something: it signs the body, reads what it
signs, and counts on no id and no time stamp that anybody could change. Called by `checks`.
"""

from collections.abc import Iterator
from typing import Final

from ledger.core.toml_lines import TomlPath
from reconciler.declared_signature import ID, TIMESTAMP, BadSigned, Slot, signed_pieces
from reconciler.providers.http.forms import SignatureForm

_AT: Final = ("webhook", "signature")
_NEEDED: Final = ("header", "signed", "algorithm", "encoding")
_ALONE: Final = "belongs to the scheme hmac; the others say themselves how they sign"


def signature_contradictions(form: SignatureForm | None) -> Iterator[tuple[TomlPath, str]]:
    """Everything that is wrong, each with its path."""
    if form is None:
        return
    if form.scheme != "hmac":
        for name in sorted(form.model_fields_set - {"scheme"}):
            yield (*_AT, name), _ALONE
        return
    for name in _NEEDED:
        if getattr(form, name) is None:
            yield (*_AT, name), "is missing: the scheme hmac needs it"
    named = [form.header, form.timestamp_header, form.id_header]
    if len(present := [name for name in named if name is not None]) != len(set(present)):
        yield _AT, "names one header for two things"
    if form.separator is not None and form.separator in (form.prefix or ""):
        yield (*_AT, "separator"), "stands in prefix too, so that no signature could be read"
    if form.timestamp_header is None:
        for name in ("timestamp_unit", "tolerance_seconds"):
            if getattr(form, name) is not None:
                yield (*_AT, name), "needs timestamp_header, which says where the time stands"
    if form.signed is not None:
        yield from _signed(form, form.signed)


def _signed(form: SignatureForm, signed: str) -> Iterator[tuple[TomlPath, str]]:
    try:
        pieces = signed_pieces(signed)
    except BadSigned as bad:
        yield (*_AT, "signed"), str(bad)
        return
    slots = {piece.name for piece in pieces if isinstance(piece, Slot)}
    headers = {TIMESTAMP: ("timestamp_header", form.timestamp_header)}
    headers[ID] = ("id_header", form.id_header)
    for slot, (name, header) in headers.items():
        if header is None and slot in slots:
            yield (*_AT, "signed"), f"has {{{slot}}} and there is no {name}"
        if header is not None and slot not in slots:
            # Else whoever caught one webhook could repeat it under another id, at any time.
            said = f"is not among what is signed ({{{slot}}}), so anybody could change it"
            yield (*_AT, name), said
