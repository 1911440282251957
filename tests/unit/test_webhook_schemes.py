"""Whether inbound bytes are believed by the schemes beside Standard Webhooks, whatever comes."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from ledger.core.limits import WEBHOOK_BYTES_MAX
from reconciler.declared_signature import BadSigned, DeclaredHmac, Slot, signed_pieces
from reconciler.schemes import STANDARD, STRIPE, Scheme
from reconciler.webhooks import TOLERANCE_MS, Verified, WebhookProblem, WebhookRejected
from tests.unit.test_webhook_verification import Pairs

NOW = 1_800_000_000_000
STAMP = str(NOW // 1000)
RAW = '{"id":"evt_1","text":"Zoë 😊"}'.encode()
SECRET = "whsec_of_the_endpoint_as_it_is_shown"
OTHER = "whsec_of_another_endpoint_altogether"
STANDARD_SECRET = "whsec_" + base64.b64encode(b"thirty-two bytes of pure secret!").decode()

GITHUB = DeclaredHmac(
    header="x-hub-signature-256",
    signed=(Slot("body"),),
    algorithm="sha256",
    encoding="hex",
    prefix="sha256=",
    keep=("x-github-delivery",),
)
SLACK = DeclaredHmac(
    header="x-slack-signature",
    signed=signed_pieces("v0:{timestamp}:{body}"),
    algorithm="sha256",
    encoding="hex",
    prefix="v0=",
    timestamp_header="x-slack-request-timestamp",
)
BANK = DeclaredHmac(
    header="x-signature",
    signed=signed_pieces("{id}.{timestamp}.{body}"),
    algorithm="sha512",
    encoding="base64",
    timestamp_header="x-time",
    timestamp_unit="milliseconds",
    tolerance_ms=60_000,
    id_header="x-id",
)
PAGER = DeclaredHmac(
    header="x-pager-signature",
    signed=(Slot("body"),),
    algorithm="sha256",
    encoding="hex",
    prefix="v1=",
    separator=",",
)
DECLARED = {"github": GITHUB, "slack": SLACK, "bank": BANK, "pager": PAGER}
ALL: Mapping[str, Scheme] = {"standard": STANDARD, "stripe": STRIPE, **DECLARED}


def secret_of(scheme: Scheme) -> str:
    """A secret in the form of a scheme."""
    return STANDARD_SECRET if scheme is STANDARD else SECRET


def signed(scheme: Scheme, raw: bytes = RAW, *, at: int = NOW) -> dict[str, str]:
    """What the scheme itself would send; `by_hand` tests are beside it, so that it is no judge."""
    return scheme.sign(raw, event_id="evt_1", secret=secret_of(scheme), now_ms=at)


def problem(
    scheme: Scheme,
    headers: Mapping[str, str],
    raw: bytes = RAW,
    *,
    secrets: tuple[str, ...] | None = None,
    now_ms: int = NOW,
) -> WebhookProblem | None:
    """Why this is refused, if it is."""
    known = (secret_of(scheme),) if secrets is None else secrets
    verdict = scheme.verify(raw, headers, known, now_ms)
    return verdict.code if isinstance(verdict, WebhookRejected) else None


def stripe_by_hand(raw: bytes, *secrets: str, stamp: str = STAMP) -> str:
    """Stripe's header as its documentation writes it."""
    made = [hmac.new(one.encode(), f"{stamp}.".encode() + raw, hashlib.sha256) for one in secrets]
    return ",".join([f"t={stamp}", *(f"v1={one.hexdigest()}" for one in made)])


def test_stripes_signature_is_believed() -> None:
    """The documented construction is believed; the event is named by the hash of its bytes, for
    the header names none.
    """
    verdict = STRIPE.verify(RAW, {"Stripe-Signature": stripe_by_hand(RAW, SECRET)}, [SECRET], NOW)
    assert verdict == Verified(f"sha256:{hashlib.sha256(RAW).hexdigest()}", NOW)


def test_stripe_signs_with_both_secrets_while_one_is_rolled() -> None:
    """Several `v1` are each held against every live secret; one that fits is enough."""
    both = {"stripe-signature": stripe_by_hand(RAW, OTHER, SECRET)}
    assert problem(STRIPE, both) is None
    assert problem(STRIPE, both, secrets=(OTHER,)) is None
    assert problem(STRIPE, both, secrets=("whsec_of_nobody_at_all",)) is (
        WebhookProblem.SIGNATURE_MISMATCH
    )


@pytest.mark.case("C067")
@pytest.mark.parametrize("offset", [-TOLERANCE_MS - 1000, TOLERANCE_MS + 1000, 3_600_000])
def test_c067_stripes_time_is_checked_on_both_sides(offset: int) -> None:
    """C067: too old and too far ahead are both named as the time; Stripe's package takes any
    future.
    """
    stamp = str((NOW + offset) // 1000)
    header = {"stripe-signature": stripe_by_hand(RAW, SECRET, stamp=stamp)}
    assert problem(STRIPE, header) is WebhookProblem.TIMESTAMP_OUT_OF_TOLERANCE


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("garbage", WebhookProblem.MALFORMED_SIGNATURE),
        ("t=1,", WebhookProblem.MALFORMED_SIGNATURE),
        (f"t={STAMP}", WebhookProblem.UNSUPPORTED_SIGNATURE),
        (f"t={STAMP},v0={'a' * 64}", WebhookProblem.UNSUPPORTED_SIGNATURE),
        (f"t={STAMP},v1={'A' * 64}", WebhookProblem.MALFORMED_SIGNATURE),
        (f"t={STAMP},v1=abc", WebhookProblem.MALFORMED_SIGNATURE),
        (f"t={STAMP},t={STAMP},v1={'a' * 64}", WebhookProblem.MALFORMED_TIMESTAMP),
        (f"v1={'a' * 64}", WebhookProblem.MALFORMED_TIMESTAMP),
        (f"t=0{STAMP},v1={'a' * 64}", WebhookProblem.MALFORMED_TIMESTAMP),
        (f"t={'9' * 200},v1={'a' * 64}", WebhookProblem.MALFORMED_TIMESTAMP),
        (f"t=soon,v1={'a' * 64}", WebhookProblem.MALFORMED_TIMESTAMP),
        (f"t={STAMP}" + f",v1={'a' * 64}" * 20, WebhookProblem.MALFORMED_SIGNATURE),
        (f"t={STAMP},v1={'ü' * 64}", WebhookProblem.MALFORMED_SIGNATURE),
        ("", WebhookProblem.MISSING_HEADER),
    ],
)
def test_stripes_header_is_refused_by_name(header: str, said: WebhookProblem) -> None:
    """Whatever is not the documented form is told apart from a wrong signature."""
    assert problem(STRIPE, {"stripe-signature": header}) is said


def test_githubs_signature_is_believed() -> None:
    """`sha256=` and hex over the body alone; what has no time is believed at any time."""
    made = "sha256=" + hmac.new(SECRET.encode(), RAW, hashlib.sha256).hexdigest()
    assert problem(GITHUB, {"X-Hub-Signature-256": made}) is None
    assert problem(GITHUB, {"X-Hub-Signature-256": made}, now_ms=NOW * 2) is None


@pytest.mark.case("C069")
def test_c069_an_id_that_is_not_signed_names_nothing() -> None:
    """C069: a captured webhook sent again under another delivery id is still the same event."""
    first = GITHUB.verify(RAW, signed(GITHUB) | {"x-github-delivery": "1"}, [SECRET], NOW)
    again = GITHUB.verify(RAW, signed(GITHUB) | {"x-github-delivery": "2"}, [SECRET], NOW + 1)
    assert isinstance(first, Verified)
    assert isinstance(again, Verified)
    assert first.event_id == again.event_id


def test_a_declared_template_is_believed_over_all_that_it_signs() -> None:
    """Time, id and body as declared, with another hash and encoding; none of it can be changed."""
    text = b"evt_1." + str(NOW).encode() + b"." + RAW
    made = base64.b64encode(hmac.new(SECRET.encode(), text, hashlib.sha512).digest()).decode()
    headers = {"x-signature": made, "x-time": str(NOW), "x-id": "evt_1"}
    assert BANK.verify(RAW, headers, [SECRET], NOW) == Verified("evt_1", NOW)
    for changed in ({"x-time": str(NOW + 1)}, {"x-id": "evt_2"}):
        assert problem(BANK, headers | changed) is WebhookProblem.SIGNATURE_MISMATCH
    assert problem(BANK, headers, now_ms=NOW + 60_001) is WebhookProblem.TIMESTAMP_OUT_OF_TOLERANCE


def test_a_declared_header_may_hold_a_signature_of_each_secret_while_one_is_rolled() -> None:
    """In any order, with spaces or without; what another version signed is passed over, and a
    header that holds none of ours, or more than anybody means, is refused by name.
    """
    ours, other, strange = (
        signed_with(PAGER, secret) for secret in (SECRET, OTHER, "a secret that nobody here has")
    )
    for header in (
        ours,
        f"{other},{ours}",
        f"{ours},{other}",
        f"{strange}, {ours} ",
        f"v0=ff,{ours},v2={'0' * 128}",
    ):
        verdict = PAGER.verify(RAW, {"x-pager-signature": header}, [SECRET], NOW)
        assert isinstance(verdict, Verified), header
    for header, said in (
        (f"{other},{strange}", WebhookProblem.SIGNATURE_MISMATCH),
        (f"v2={ours[3:]}", WebhookProblem.MALFORMED_SIGNATURE),
        (f"{ours};{other}", WebhookProblem.MALFORMED_SIGNATURE),
        (",".join([strange] * 16 + [ours]), WebhookProblem.MALFORMED_SIGNATURE),
    ):
        verdict = PAGER.verify(RAW, {"x-pager-signature": header}, [SECRET], NOW)
        assert verdict == WebhookRejected(said), header


def signed_with(scheme: DeclaredHmac, secret: str) -> str:
    """The value of a declared header over the body alone."""
    made = scheme.sign(RAW, event_id="evt_1", secret=secret, now_ms=NOW)
    return made[scheme.header]


def test_borders_cannot_be_moved() -> None:
    """An id with the character that ends it is refused, so no byte passes from the body to it."""
    headers = signed(BANK) | {"x-id": "evt_1.1"}
    assert problem(BANK, headers) is WebhookProblem.MALFORMED_ID


@pytest.mark.parametrize(
    ("key_as", "secret"),
    [
        ("hex", b"sixteen bytes ok".hex()),
        ("base64", base64.b64encode(b"sixteen bytes ok").decode()),
        ("text", "sixteen bytes ok"),
    ],
)
def test_a_secret_becomes_the_key_as_declared(key_as: str, secret: str) -> None:
    """The same key, written in three ways."""
    scheme = DeclaredHmac(
        header="x",
        signed=(Slot("body"),),
        algorithm="sha256",
        encoding="hex",
        key_as=key_as,  # type: ignore[arg-type]
    )
    made = hmac.new(b"sixteen bytes ok", RAW, hashlib.sha256).hexdigest()
    assert problem(scheme, {"x": made}, secrets=(secret,)) is None
    assert not scheme.is_usable_secret("ü" * 20)
    assert not scheme.is_usable_secret("short")


def test_standard_webhooks_under_other_header_names_are_declared() -> None:
    """What docs/WEBHOOKS.md says of Svix, with the secret as it is shown and as it is bare."""
    svix = DeclaredHmac(
        header="svix-signature",
        signed=signed_pieces("{id}.{timestamp}.{body}"),
        algorithm="sha256",
        encoding="base64",
        prefix="v1,",
        separator=" ",
        key_as="base64",
        timestamp_header="svix-timestamp",
        id_header="svix-id",
    )
    named = STANDARD.sign(RAW, event_id="msg_1", secret=STANDARD_SECRET, now_ms=NOW)
    headers = {name.replace("webhook", "svix"): value for name, value in named.items()}
    headers["svix-signature"] += " v1a,hnO3f9T8Ytu9HwrXslvumg=="
    for secret in (STANDARD_SECRET, STANDARD_SECRET.removeprefix("whsec_")):
        assert svix.verify(RAW, headers, [secret], NOW) == Verified("msg_1", NOW)
        assert problem(svix, headers, RAW + b" ", secrets=(secret,)) is (
            WebhookProblem.SIGNATURE_MISMATCH
        )


@pytest.mark.parametrize("scheme", ALL.values(), ids=ALL)
def test_every_scheme_refuses_by_name(scheme: Scheme) -> None:
    """What every scheme has in common: too large, missing, twice, another body, no secret."""
    genuine = signed(scheme)
    assert problem(scheme, genuine) is None
    assert problem(scheme, {name.upper(): value for name, value in genuine.items()}) is None
    assert problem(scheme, genuine, b" " * (WEBHOOK_BYTES_MAX + 1)) is WebhookProblem.TOO_LARGE
    assert problem(scheme, genuine, RAW + b" ") is WebhookProblem.SIGNATURE_MISMATCH
    assert problem(scheme, genuine, secrets=()) is WebhookProblem.NO_USABLE_SECRET
    assert problem(scheme, genuine, secrets=("", "\ud800")) is WebhookProblem.NO_USABLE_SECRET
    for name in genuine:
        less = {one: value for one, value in genuine.items() if one != name}
        assert problem(scheme, less) is WebhookProblem.MISSING_HEADER
        twice = Pairs([*genuine.items(), (name.title(), genuine[name])])
        assert problem(scheme, twice) is WebhookProblem.REPEATED_HEADER


@pytest.mark.parametrize("scheme", ALL.values(), ids=ALL)
def test_every_scheme_takes_either_secret_of_a_rotation(scheme: Scheme) -> None:
    """The newest and the one before it are both believed while both are live."""
    other = "whsec_" + base64.b64encode(b"another secret of some length...").decode()
    assert problem(scheme, signed(scheme), secrets=(other, secret_of(scheme))) is None
    assert problem(scheme, signed(scheme), secrets=(other,)) is WebhookProblem.SIGNATURE_MISMATCH


@pytest.mark.parametrize("scheme", DECLARED.values(), ids=DECLARED)
@pytest.mark.parametrize("value", ["", "x", "sha256=", "sha256=zz", "v0=" + "é" * 64, "a" * 9_000])
def test_a_malformed_declared_signature_is_refused(scheme: DeclaredHmac, value: str) -> None:
    """What would raise inside a decoder is a named refusal."""
    said = problem(scheme, signed(scheme) | {scheme.header: value})
    assert said in {WebhookProblem.MALFORMED_SIGNATURE, WebhookProblem.MISSING_HEADER}


@pytest.mark.parametrize("scheme", ALL.values(), ids=ALL)
@given(raw=st.binary(max_size=64), data=st.data())
@settings(max_examples=150, deadline=None)
def test_nothing_that_is_sent_makes_a_scheme_raise(
    scheme: Scheme, raw: bytes, data: st.DataObject
) -> None:
    """Whatever comes, the answer is a named rejection."""
    names = st.sampled_from([*scheme.headers, "other"])
    pairs = data.draw(st.lists(st.tuples(names, st.text(max_size=90)), max_size=5))
    secrets = data.draw(st.lists(st.text(max_size=20), max_size=2))
    verdict = scheme.verify(raw, Pairs(pairs), [secret_of(scheme), *secrets], NOW)
    assert isinstance(verdict, WebhookRejected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{timestamp}", "must have {body} once"),
        ("{body}.{body}", "must have {body} once"),
        ("{timestamp}{body}", "needs a character such as"),
        ("{timestamp}v0{body}", "needs a character such as"),
        ("{id}.{id}.{body}", "a value twice"),
        ("{body}.{secret}", "has {secret}"),
        ("{body", "a brace"),
    ],
)
def test_what_is_signed_is_refused_with_the_reason(text: str, said: str) -> None:
    """A template whose borders could be moved, or that leaves the body out, is none."""
    with pytest.raises(BadSigned, match=said.replace("{", r"\{").replace("}", r"\}")):
        signed_pieces(text)


@pytest.mark.parametrize("scheme", ALL.values(), ids=ALL)
def test_bytes_that_are_no_text_are_signed_and_believed(scheme: Scheme) -> None:
    """What was signed is believed; what it means is another question."""
    raw = b"\xff\xfe\x00"
    assert problem(scheme, signed(scheme, raw), raw) is None


def test_standard_webhooks_are_signed_as_their_package_does() -> None:
    """Byte for byte, with a text that is not ASCII."""
    made = Webhook(STANDARD_SECRET).sign(
        "evt_1", datetime.fromtimestamp(NOW / 1000, UTC), RAW.decode()
    )
    assert signed(STANDARD)["webhook-signature"] == made


def test_signing_with_what_is_no_secret_is_refused() -> None:
    """The command that sends a test says so before it sends."""
    for scheme in ALL.values():
        with pytest.raises(ValueError, match="the secret is none"):
            scheme.sign(RAW, event_id="e", secret="ü", now_ms=NOW)
