"""What is wrong in a description though its forms are right.

Guarantees that a description without findings can be built and does not contradict itself: no
template makes a host, leaks a credential or asks for what is not known; no row turns an unknown
outcome into a known one; nothing is promised that is not described. Called by `parsing` only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from ledger.core.excerpt import excerpt
from ledger.core.toml_lines import TomlPath
from reconciler.providers.described import account_contradictions
from reconciler.providers.http.forms import (
    AdapterForm,
    CallForm,
    EventForm,
    FindForm,
    ListingForm,
    MoneyForm,
    PerformForm,
    PreviewForm,
    PullForm,
    RowForm,
    ShapeForm,
    WebhookForm,
)
from reconciler.providers.http.signature_checks import signature_contradictions
from reconciler.providers.http.templates import BadTemplate, Name, names_in, pieces_of
from reconciler.providers.http_exchange import AFTER_FIRST_BYTE, BEFORE_FIRST_BYTE
from reconciler.providers.limits import DESCRIBED_BODY_DEPTH_MAX
from reconciler.providers.settlement import settlement_contradictions

Found: TypeAlias = tuple[TomlPath, str]

_MARKS: Final = frozenset({"action_key", "provider_key", "account"})
_MONEY: Final = frozenset(
    {"money.minor", "money.currency", "money.currency_lower", "money.decimal"}
)
_REQUEST: Final = frozenset(
    {"operation", "version", "target", "request_hash", "original_reference", "params"}
)
_PERFORM: Final = _MARKS | _MONEY | _REQUEST | {"params.NAME"}
_PREVIEW: Final = _PERFORM - {"provider_key"}
_LISTING: Final = frozenset(
    {"account", "since_ms", "since_seconds", "since_rfc3339", "cursor", "limit"}
)
_CREDENTIAL: Final = "credential"

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_TEXT: Final = re.compile(r"[\x20-\x7e]*")
_PATH_TEXT: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
# These say where a request goes and where it ends; the exchange writes what is needed of them.
_FRAMING: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_DAY_SECONDS: Final = 86_400
_EMPTY: Final = 204
_NEEDS_CODE: Final = "needs errors.code, which says where an answer has its code"
_OK: Final = range(200, 300)
_VERDICTS: Final = {
    "before_first_byte": frozenset({"not_sent_later", "not_sent_never"}),
    "after_first_byte": frozenset({"unresolved"}),
    "answered": frozenset({"refused_later", "refused_never", "unresolved"}),
}


def contradictions(form: AdapterForm) -> Iterator[Found]:
    """Everything that is wrong, each with its path."""
    yield from _headers(("headers",), form.headers, frozenset({"account"}))
    yield from account_contradictions(form.credentials, form.shared_accounts)
    for name, perform in form.perform.items():
        path: TomlPath = ("perform", name)
        yield from _call(path, perform, _PERFORM, form)
        yield from _body((*path, "body"), perform.body, _PERFORM)
        for at, status in enumerate(perform.success.statuses):
            if status not in _OK:
                yield (*path, "success", "statuses", at), "must be 200 to 299"
    for name, preview in form.preview.items():
        yield from _preview(("preview", name), preview, form)
    for index, find in enumerate(form.find):
        yield from _call(("find", index), find, _find_names(find), form)
        yield from _find(("find", index), find, form)
    if form.listing is not None:
        yield from _call(("listing",), form.listing, _LISTING, form)
        yield from _listing(form)
    for name, shape in form.shape.items():
        yield from _money(("shape", name, "money"), shape.money)
        yield from _states(("shape", name), shape)
    for name, perform in form.perform.items():
        yield from _counterparts(name, perform, form)
    if form.webhook is not None:
        yield from _webhook(form)
        yield from signature_contradictions(form.webhook.signature)
    if form.settlement is not None:
        for place, said in settlement_contradictions(form.settlement):
            yield ("settlement", *place), said
    for index, row in enumerate(form.errors.row):
        yield from _row(("errors", "row", index), row, form)
    yield from _promises(form)


def _call(
    path: TomlPath, call: CallForm, known: frozenset[str], form: AdapterForm
) -> Iterator[Found]:
    yield from _target((*path, "path"), call.path, known)
    for name, text in call.query.items():
        yield from _texts((*path, "query", name), text, known)
    yield from _headers((*path, "headers"), call.headers, known)
    if call.shape not in form.shape:
        said = f"names {excerpt(call.shape, chars_max=60)}, which is no [shape.…] here"
        yield (*path, "shape"), said


def _target(path: TomlPath, text: str, known: frozenset[str]) -> Iterator[Found]:
    """A path begins at the address of the settings and can lead nowhere else."""
    try:
        pieces = pieces_of(text)
    except BadTemplate as bad:
        yield path, str(bad)
        return
    literal = "".join(piece if isinstance(piece, str) else "x" for piece in pieces)
    if not text.startswith("/") or "//" in text:
        yield path, "must begin with one / and have no //; the host comes from the settings"
    elif _PATH_TEXT.fullmatch(literal) is None:
        yield path, "must have only characters of a path; give what follows ? as query"
    elif any(segment in {".", ".."} for segment in literal.split("/")):
        yield path, "must not have . or .. as a step"
    yield from _texts(path, text, known)


def _texts(path: TomlPath, text: str, known: frozenset[str]) -> Iterator[Found]:
    """A template whose values have to be texts."""
    for name in _readable(path, text):
        if isinstance(name, tuple):
            yield name
        elif name.path == ("params",):
            yield path, "has {params}, which is a whole table; name one, as {params.order}"
        else:
            yield from _unknown(path, name, known)


def _headers(path: TomlPath, headers: Mapping[str, str], known: frozenset[str]) -> Iterator[Found]:
    for name, text in headers.items():
        place = (*path, name)
        lowered = name.lower()
        if _HEADER_NAME.fullmatch(name) is None:
            yield place, "is not the name of a header"
        elif lowered in _FRAMING or lowered.startswith("proxy-"):
            yield place, "is a header that only the connection itself may write"
        if _HEADER_TEXT.fullmatch(text) is None:
            yield place, "must be one line of printable ASCII"
        yield from _texts(place, text, known | {_CREDENTIAL})


def _body(path: TomlPath, body: object, known: frozenset[str], depth: int = 1) -> Iterator[Found]:
    if depth > DESCRIBED_BODY_DEPTH_MAX:
        yield path, f"is nested more than {DESCRIBED_BODY_DEPTH_MAX} levels deep"
        return
    match body:
        case None | bool() | int():
            return
        case str():
            whole = len(pieces_or_none(body) or ()) == 1
            for name in _readable(path, body):
                if isinstance(name, tuple):
                    yield name
                elif name.path == ("params",) and not whole:
                    yield path, "has {params} inside a text; it is a whole table"
                else:
                    yield from _unknown(path, name, known)
        case dict():
            for key, value in body.items():
                yield from _body((*path, key), value, known, depth + 1)
        case list():
            for index, value in enumerate(body):
                yield from _body((*path, index), value, known, depth + 1)
        case _:
            yield path, "must be a text, a whole number, true, false, a list or a table"


def pieces_or_none(text: str) -> tuple[str | Name, ...] | None:
    """The pieces of a template, or None where it cannot be read."""
    try:
        return pieces_of(text)
    except BadTemplate:
        return None


def _readable(path: TomlPath, text: str) -> Iterator[Name | Found]:
    """The names of a template, or the one finding that it cannot be read."""
    try:
        yield from tuple(names_in(text))
    except BadTemplate as bad:
        yield path, str(bad)


def _unknown(path: TomlPath, name: Name, known: frozenset[str]) -> Iterator[Found]:
    dotted = ".".join(name.path)
    if dotted in known or (name.path[0] == "params" and "params.NAME" in known):
        return
    if dotted == _CREDENTIAL:
        yield path, "has {credential}, which may stand in headers only"
        return
    shown, offered = excerpt(dotted, chars_max=60), ", ".join(sorted(known))
    yield path, f"has {{{shown}}}, which is not known here; known: {offered}"


def _states(path: TomlPath, shape: ShapeForm) -> Iterator[Found]:
    if shape.none and not (shape.exists or shape.parts):
        said = "needs exists beside it: without it every object is an effect"
        yield (*path, "none"), said
    for at, values in shape.exists.items():
        twice = [value for value in values if value in shape.none.get(at, ())]
        if twice:
            yield (*path, "none", at), f"has {excerpt(str(twice[0]), chars_max=60)} as exists has"


def _counterparts(name: str, perform: PerformForm, form: AdapterForm) -> Iterator[Found]:
    """What a call asks for beyond its status, lookups and the listing have to ask for as well: an
    object that failed would be found, and complete its action.
    """
    made = {one.shape for one in form.perform.values()}
    shown: list[tuple[TomlPath, FindForm | ListingForm]] = [
        (("find", index), find) for index, find in enumerate(form.find)
    ]
    if form.listing is not None:
        shown.append((("listing",), form.listing))
    for path, one in shown:
        shape = form.shape.get(one.shape)
        if shape is None or (one.shape != perform.shape and one.shape in made):
            continue
        success = perform.success
        is_said = all(one.equals.get(at) == value for at, value in success.equals.items())
        if not (is_said or shape.exists):
            said = f"{one.shape} needs exists: {name} asks for success.equals, else all is found"
            yield (*path, "shape"), said
        if success.parts is not None and shape.parts is None:
            said = f"{one.shape} needs parts: {name} asks for success.parts, else a part is found"
            yield (*path, "shape"), said


def _preview(path: TomlPath, preview: PreviewForm, form: AdapterForm) -> Iterator[Found]:
    """A preview is sent where no effect is made, and knows no key to make one under."""
    yield from _target((*path, "path"), preview.path, _PREVIEW)
    for name, text in preview.query.items():
        yield from _texts((*path, "query", name), text, _PREVIEW)
    yield from _headers((*path, "headers"), preview.headers, _PREVIEW)
    yield from _body((*path, "body"), preview.body, _PREVIEW)
    if preview.method == "GET" and preview.body is not None:
        yield (*path, "body"), "belongs to the method POST"
    for at, status in enumerate(preview.statuses):
        if status not in _OK:
            yield (*path, "statuses", at), "must be 200 to 299"
    if not (preview.effect or preview.target or preview.scope or preview.observed):
        yield path, "reads nothing of the answer: effect, target, scope or observed"
    if preview.method == "GET":
        return
    for name, perform in form.perform.items():
        if _may_meet(preview.path, perform.path):
            said = f"may be where {name} is performed; a preview needs an address of its own"
            yield (*path, "path"), said


def _may_meet(one: str, other: str) -> bool:
    """Whether two path templates can be filled to the same path."""
    steps, others = one.split("/"), other.split("/")
    return len(steps) == len(others) and all(
        "{" in a or "{" in b or a == b for a, b in zip(steps, others, strict=True)
    )


def _find_names(find: FindForm) -> frozenset[str]:
    return _MARKS | {"reference"} if find.by == "reference" else _MARKS


def _find(path: TomlPath, find: FindForm, form: AdapterForm) -> Iterator[Found]:
    mark = {"key": "provider_key", "reference": "reference", "marker": "action_key"}[find.by]
    if not _uses(mark, find.path, find.query, find.headers):
        yield path, f"searches by {find.by} and has no {{{mark}}} in its path, query or headers"
    if find.answers == "list" and find.absent_statuses:
        yield (*path, "absent_statuses"), "is for answers of one; an empty list says absent"
    if find.answers == "one" and find.more is not None:
        yield (*path, "more"), "is for answers with a list"
    for index, status in enumerate(find.absent_statuses):
        # 401, 429 or 500 in place of an answer are no absence, whoever writes them here.
        if status not in {_EMPTY, 404, 410}:
            yield (*path, "absent_statuses", index), "must be 204, 404 or 410"
    bare = set(find.absent_statuses) - {_EMPTY} and not find.absent_codes
    if bare and find.by != "reference":
        # Its absence can become "no effect", and a wrong address answers 404 as well.
        said = "needs absent_codes: a 404 alone may come from a wrong address"
        yield (*path, "absent_statuses"), said
    if find.absent_codes and form.errors.code is None:
        yield (*path, "absent_codes"), _NEEDS_CODE
    shape = form.shape.get(find.shape)
    if shape is not None and shape.action_key is None and shape.provider_key is None:
        said = "has neither action_key nor provider_key, so nothing found can be known as ours"
        yield ("shape", find.shape), said


def _listing(form: AdapterForm) -> Iterator[Found]:
    listing = form.listing
    if listing is None:
        return
    yield from _paging(("listing",), listing)
    shape = form.shape.get(listing.shape)
    if shape is not None and (shape.committed_at is None or shape.operation is None):
        yield ("shape", listing.shape), "must say operation and committed_at, for the listing"


def _pull(path: TomlPath, pull: PullForm) -> Iterator[Found]:
    yield from _target((*path, "path"), pull.path, _LISTING)
    for name, text in pull.query.items():
        yield from _texts((*path, "query", name), text, _LISTING)
    yield from _headers((*path, "headers"), pull.headers, _LISTING)
    yield from _paging(path, pull)
    late_seconds = pull.overlap_seconds + 2 * pull.interval_seconds
    if pull.kept_days is not None and pull.kept_days * _DAY_SECONDS <= late_seconds:
        why = "must be longer than overlap_seconds and two times interval_seconds"
        yield (*path, "kept_days"), f"{why}: what is shown late would be gone at each reading"


def _paging(path: TomlPath, paged: ListingForm | PullForm) -> Iterator[Found]:
    """What a request says of pages is what the description says of them."""
    asks = (paged.path, paged.query, paged.headers)
    if _uses("cursor", *asks) != (paged.next is not None):
        yield path, "needs both {cursor} in its request and next, or neither"
    if _uses("limit", *asks) != (paged.limit is not None):
        yield path, "needs both {limit} in its request and limit, or neither"
    if paged.limit is not None and paged.next is None:
        # What stands behind a full page would be missing, and nobody told.
        yield (*path, "limit"), "needs next: where a page is full there is no way to what follows"


def _money(path: TomlPath, money: MoneyForm | None) -> Iterator[Found]:
    if money is not None and (money.minor is None) == (money.decimal is None):
        yield path, "needs exactly one of minor and decimal"


def _webhook(form: AdapterForm) -> Iterator[Found]:
    webhook = form.webhook
    if webhook is None:
        return
    yield from _money(("webhook", "money"), webhook.money)
    if webhook.pull is not None:
        yield from _pull(("webhook", "pull"), webhook.pull)
    marks = (
        webhook.action_key,
        webhook.provider_key,
        webhook.reference,
        webhook.reverses,
        webhook.composite,
    )
    if all(one is None for one in marks):
        said = "names nothing to match by: action_key, provider_key, reference or composite"
        yield ("webhook",), said
    if webhook.composite is not None and webhook.money is None:
        said = "needs money: an equal amount and currency are part of what names the action"
        yield ("webhook", "composite"), said
    for name, rows in webhook.type.items():
        yield from _events(("webhook", "type", name), rows, webhook)


def _events(path: TomlPath, rows: Sequence[EventForm], webhook: WebhookForm) -> Iterator[Found]:
    for index, row in enumerate(rows):
        place = path if len(rows) == 1 else (*path, index)
        if (row.meaning == "final") == (row.effect == "pending"):
            said = "must have the effect exists, none or reversed if it is final, else pending"
            yield place, said
        if row.is_of_reversal and webhook.reverses is None:
            yield place, "is of a reversal, and webhook.reverses says not what was given back"
        if row.of_reversal and row.effect == "exists":
            yield place, "is of a reversal: where that is there, the effect is reversed"
        if not row.equals and index < len(rows) - 1:
            yield place, "fits everything, so that the rows behind it are never looked at"


def _row(path: TomlPath, row: RowForm, form: AdapterForm) -> Iterator[Found]:
    verdicts = _VERDICTS[row.phase]
    if row.verdict not in verdicts:
        said = f"must be {' or '.join(sorted(verdicts))} in the phase {row.phase}"
        yield (*path, "verdict"), said
    if row.phase == "answered":
        yield from _answered_row(path, row, form)
        return
    if row.statuses or row.codes or not row.troubles:
        yield path, f"must have troubles, and no statuses or codes, in the phase {row.phase}"
    phase = BEFORE_FIRST_BYTE if row.phase == "before_first_byte" else AFTER_FIRST_BYTE
    for index, trouble in enumerate(row.troubles):
        if trouble not in phase:
            yield (*path, "troubles", index), f"does not happen in the phase {row.phase}"


def _answered_row(path: TomlPath, row: RowForm, form: AdapterForm) -> Iterator[Found]:
    if row.troubles or not (row.statuses or row.codes):
        yield path, "must have statuses or codes, and no troubles, in the phase answered"
    if row.codes and form.errors.code is None:
        yield (*path, "codes"), _NEEDS_CODE
    bare = not row.codes and row.verdict != "unresolved"
    if bare and any(status in _OK for status in row.statuses):
        yield (*path, "statuses"), "needs codes beside a status of success to make it a refusal"


def _promises(form: AdapterForm) -> Iterator[Found]:
    """What the capabilities promise has to be described."""
    can = form.capabilities
    for by in ("key", "reference", "marker"):
        promised = getattr(can, f"finds_by_{by}") == "possible"
        if promised and not any(find.by == by for find in form.find):
            yield ("capabilities", f"finds_by_{by}"), f'is possible, and no [[find]] is by "{by}"'
    if can.lists_effects == "possible" and form.listing is None:
        yield ("capabilities", "lists_effects"), "is possible, and there is no [listing]"
    if (can.previews == "possible") != bool(form.preview):
        said = "there is no [preview.…]" if not form.preview else "[preview.…] is described"
        yield ("capabilities", "previews"), f"is {can.previews}, and {said}"
    if can.sends_webhooks == "possible" and form.webhook is None:
        yield ("capabilities", "sends_webhooks"), "is possible, and there is no [webhook]"
    yield from _unfindable(form)
    needed: dict[str, str] = {}
    if can.reliability in {"keyed", "reference"} or can.finds_by_key == "possible":
        needed["provider_key"] = "a key that is never sent protects nothing"
    if can.finds_by_marker == "possible":
        needed["action_key"] = "a marker that is never sent is never found"
    for name, perform in form.perform.items():
        for mark, why in needed.items():
            if not _uses(mark, perform.path, perform.query, perform.headers, perform.body):
                yield ("perform", name), f"has no {{{mark}}} anywhere; {why}"


def _unfindable(form: AdapterForm) -> Iterator[Found]:
    """A lookup knows no operation: what no search shows would pass for absent."""
    shown = {find.shape for find in form.find if find.by != "reference"}
    for name, perform in form.perform.items():
        if shown and perform.shape in form.shape and perform.shape not in shown:
            said = (
                "is a shape that no [[find]] by key or marker shows, so it would be called absent"
            )
            yield ("perform", name, "shape"), said


def _uses(mark: str, *templates: object) -> bool:
    try:
        names = list(chain.from_iterable(names_in(template) for template in templates))
    except BadTemplate:
        # It is told where it stands; that the mark is missing too would be a guess.
        return True
    return any(name.path == (mark,) for name in names)
