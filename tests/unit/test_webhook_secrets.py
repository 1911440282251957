"""Secrets of webhooks: the newest signs, older ones are accepted for a while, none is shown."""

import logging
import stat
import time
from pathlib import Path

import pytest

from gateway.cli.app import run
from gateway.cli.output import Exit
from gateway.private_files import LOOK_EVERY_S
from gateway.webhook_secrets import (
    SECRETS_PER_ACCOUNT_MAX,
    SecretsFile,
    SharedSecretError,
    TooManySecretsError,
    UnknownSecretError,
    WebhookSecretsError,
    read_secrets,
    revoke_secret,
    rotate_secret,
)
from reconciler.declared_signature import DeclaredHmac, Slot
from reconciler.schemes import STANDARD, STRIPE, Scheme
from reconciler.webhooks import Verified, is_usable_secret
from tests.tree import ROOT

HOUR_MS = 3_600_000
NOW = 1_767_225_600_000
OLD = "whsec_b2xkLCBhbmQgbG9uZyBlbm91Z2g="


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one secret of one account."""
    path = tmp_path / "webhooks.toml"
    path.write_text(f'[simulated.main]\nsecrets = ["{OLD}"]\n', encoding="utf-8")
    return path


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def test_the_new_secret_signs_and_the_old_one_is_accepted_until_its_time(file: Path) -> None:
    """Both are live for the time given, the new one first; then only the new one."""
    new = rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS)
    secrets = SecretsFile(file)
    now = now_ms()
    assert is_usable_secret(new)
    assert secrets.live("simulated", "main", now) == (new, OLD)
    assert secrets.live("simulated", "main", now + HOUR_MS) == (new,)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_rotating_again_shortens_no_time_and_lengthens_none(file: Path) -> None:
    """A secret that ends sooner keeps its end; what has ended is dropped."""
    rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS)
    rotate_secret(file, "simulated", "main", keep_ms=100 * HOUR_MS)
    third = read_secrets(file)["simulated", "main"]
    assert third[2].secret == OLD
    assert third[2].accepted_until is not None
    assert third[2].accepted_until <= now_ms() + HOUR_MS
    last = rotate_secret(file, "simulated", "main", keep_ms=0)
    assert SecretsFile(file).live("simulated", "main", now_ms()) == (last,)
    rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS)
    assert len(read_secrets(file)["simulated", "main"]) == 2


def test_no_secret_that_is_still_promised_is_dropped_for_room(file: Path) -> None:
    """One too many is refused with the file as it was; one that is revoked or ended makes room."""
    for _ in range(SECRETS_PER_ACCOUNT_MAX - 1):
        rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS)
    before = file.read_bytes()
    with pytest.raises(TooManySecretsError, match=r"simulated\.main has 8 secrets"):
        rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS)
    assert file.read_bytes() == before
    several = read_secrets(file)["simulated", "main"]
    assert several[-1].secret == OLD
    again = rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS, secret=several[0].secret)
    assert again == several[0].secret
    revoke_secret(file, "simulated", "main", several[-1].fingerprint)
    rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS)
    last = rotate_secret(file, "simulated", "main", keep_ms=0)
    assert SecretsFile(file).live("simulated", "main", now_ms()) == (last,)


def test_a_secret_of_the_provider_can_be_put_first(file: Path) -> None:
    """What the provider shows is taken as it is; other accounts stay as they are."""
    rotate_secret(file, "stripe", "eu.main", keep_ms=0, secret="whsec_bmV3")
    assert SecretsFile(file).live("stripe", "eu.main", now_ms()) == ("whsec_bmV3",)
    assert SecretsFile(file).live("simulated", "main", now_ms()) == (OLD,)


@pytest.mark.parametrize("other", [("simulated", "second"), ("bank", "main")])
def test_a_secret_of_another_account_is_not_taken(file: Path, other: tuple[str, str]) -> None:
    """Family hook-sec: what is signed for one account would be believed of the other, at its own
    address, however it is spelled. One that has ended there is nobody's any more.
    """
    before = file.read_text(encoding="utf-8")
    for spelled in (OLD, OLD.removeprefix("whsec_"), OLD.rstrip("=")):
        with pytest.raises(SharedSecretError, match=r"simulated\.main has this secret"):
            rotate_secret(
                file,
                *other,
                keep_ms=HOUR_MS,
                secret=spelled,
                key_of=lambda _, secret: STANDARD.key(secret),
            )
    assert file.read_text(encoding="utf-8") == before
    rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS)
    with pytest.raises(SharedSecretError):
        rotate_secret(file, *other, keep_ms=HOUR_MS, secret=OLD)
    rotate_secret(file, "simulated", "main", keep_ms=0)
    assert rotate_secret(file, *other, keep_ms=HOUR_MS, secret=OLD) == OLD


def test_only_a_replaced_secret_is_revoked(file: Path) -> None:
    """Without the newest nothing could be verified any more."""
    rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS)
    newest, old = read_secrets(file)["simulated", "main"]
    with pytest.raises(UnknownSecretError):
        revoke_secret(file, "simulated", "main", newest.fingerprint)
    revoke_secret(file, "simulated", "main", old.fingerprint)
    assert SecretsFile(file).live("simulated", "main", now_ms()) == (newest.secret,)


def test_a_running_process_takes_up_what_changed(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Within a second; a file that breaks, or holds what is no secret, changes nothing."""
    clock = [0.0]
    secrets = SecretsFile(
        file, is_usable=lambda _, secret: is_usable_secret(secret), clock_s=lambda: clock[0]
    )
    new = rotate_secret(file, "simulated", "main", keep_ms=HOUR_MS)
    clock[0] += LOOK_EVERY_S
    assert secrets.live("simulated", "main", now_ms()) == (new, OLD)
    for broken in ("[simulated", '[simulated.main]\nsecrets = ["whsec_?"]\n'):
        file.write_text(broken, encoding="utf-8")
        clock[0] += LOOK_EVERY_S
        assert secrets.live("simulated", "main", now_ms()) == (new, OLD)
    warnings = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == ["webhook_secrets_unusable"] * 2
    for record in caplog.records:
        assert not any(secret in str(vars(record)) for secret in (new, OLD, "whsec_?"))


def test_a_malformed_end_is_refused(file: Path) -> None:
    """A time that is none would let an old secret live for ever."""
    for entry in ('{secret = "a"}', '{secret = "a", accepted_until = true}', "{}", '""'):
        file.write_text(f"[simulated.main]\nsecrets = [{entry}]\n", encoding="utf-8")
        with pytest.raises(WebhookSecretsError):
            read_secrets(file)


def test_secrets_are_not_in_the_representation(file: Path) -> None:
    """What ends up in a log line gives nothing away."""
    assert OLD not in repr(read_secrets(file))


@pytest.fixture
def commanded(file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, as the commands find it."""
    for name, value in {
        "ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file),
        "ACTIONLEDGER_KAFKA": "127.0.0.1:1",
        "ACTIONLEDGER_DATABASE": "postgresql://nobody@127.0.0.1:1/none",
        "ACTIONLEDGER_STATE": str(file.parent / "state"),
    }.items():
        monkeypatch.setenv(name, value)
    return file


HEX = DeclaredHmac("x-signature", (Slot("body"),), "sha256", "hex", key_as="hex")
RAW = DeclaredHmac("x-signature", (Slot("body"),), "sha256", "hex")


@pytest.mark.parametrize(
    ("scheme", "theirs", "ours", "is_shared"),
    [
        (RAW, "dollar-abc", "dollar-abc=", False),
        (RAW, "dollar-abc", "whsec_dollar-abc", False),
        (STRIPE, "whsec_dollar-abc", "whsec_dollar-abc=", False),
        (STANDARD, OLD, OLD.rstrip("="), True),
        (HEX, "00ff" * 8, "00FF" * 8, True),
    ],
)
def test_secrets_are_shared_where_their_scheme_makes_one_key_of_both(
    tmp_path: Path, scheme: Scheme, theirs: str, ours: str, *, is_shared: bool
) -> None:
    """Family hook-sec: of a text that is used as it stands, what looks like padding is a part. It
    was taken off, and an account's own secret refused as another account's.
    """
    path = tmp_path / "webhooks.toml"
    body = b"{}"
    signed = scheme.sign(body, event_id="e_1", secret=theirs, now_ms=NOW)
    believed = isinstance(scheme.verify(body, signed, [ours], NOW), Verified)
    assert believed is is_shared

    def put(account: str, secret: str) -> str:
        return rotate_secret(
            path, "bank", account, keep_ms=0, secret=secret, key_of=lambda _, text: scheme.key(text)
        )

    put("main", theirs)
    if is_shared:
        with pytest.raises(SharedSecretError, match=r"bank\.main has this secret"):
            put("second", ours)
    else:
        assert put("second", ours) == ours


def test_a_secret_that_differs_in_its_signs_is_put_in(
    commanded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command asks the scheme of each provider: of a description's text an equals sign is a
    part, and of Standard Webhooks it is padding.
    """
    described = commanded.parent / "bank.toml"
    text = (ROOT / "examples" / "providers" / "bank.toml").read_text(encoding="utf-8")
    signature = '[webhook.signature]\nscheme = "hmac"\nheader = "x"\nsigned = "{body}"\n'
    signature += 'algorithm = "sha256"\nencoding = "hex"\nsecret = "text"\n'
    described.write_text(f"{text}\n{signature}", encoding="utf-8")
    monkeypatch.setenv("ACTIONLEDGER_PROVIDER_FILES", str(described))
    given = commanded.parent / "given"
    for account, secret in (("main", "dollar-abc"), ("second", "dollar-abc=")):
        (commanded.parent / f"bank_{account}.key").write_text("sk_1\n", encoding="ascii")
        given.write_text(secret, encoding="utf-8")
        rotate = ["secrets", "rotate", "bank", account, "--secret-file", str(given)]
        assert run(rotate) == Exit.OK, capsys.readouterr().err
    given.write_text(OLD.rstrip("="), encoding="utf-8")
    rotate = ["secrets", "rotate", "simulated", "second", "--secret-file", str(given)]
    assert run(rotate) == Exit.TROUBLE
    assert "simulated.main has this secret" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["abc", "whsec_b2xk", "not base64 at all", "whsec_\u00fc"])
def test_what_is_no_secret_is_not_put_first(
    commanded: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """It would verify nothing, or be found by trying; what signed before goes on to."""
    given = commanded.parent / "given"
    given.write_text(text, encoding="utf-8")
    rotate = ["secrets", "rotate", "simulated", "main"]
    assert run([*rotate, "--secret-file", str(given)]) == Exit.USAGE
    assert "holds no webhook secret of simulated" in capsys.readouterr().err
    assert SecretsFile(commanded).live("simulated", "main", now_ms()) == (OLD,)
    assert run(rotate) == Exit.OK


def test_a_secret_of_another_form_is_not_drawn(
    commanded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A description that takes hex is told to name the provider's own."""
    (commanded.parent / "bank_main.key").write_text("sk_1\n", encoding="ascii")
    described = commanded.parent / "bank.toml"
    text = (ROOT / "examples" / "providers" / "bank.toml").read_text(encoding="utf-8")
    signature = '[webhook.signature]\nscheme = "hmac"\nheader = "x"\nsigned = "{body}"\n'
    signature += 'algorithm = "sha256"\nencoding = "hex"\nsecret = "hex"\n'
    described.write_text(f"{text}\n{signature}", encoding="utf-8")
    monkeypatch.setenv("ACTIONLEDGER_PROVIDER_FILES", str(described))
    assert run(["secrets", "rotate", "bank", "main"]) == Exit.USAGE
    assert "No secret is drawn for bank" in capsys.readouterr().err
    assert ("bank", "main") not in read_secrets(commanded)


def test_a_test_under_a_secret_that_signs_nothing_has_a_name(
    commanded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that somebody wrote by hand."""
    commanded.write_text('[simulated.main]\nsecrets = ["whsec_A"]\n', encoding="utf-8")
    assert run(["webhook", "test", "simulated", "main"]) == Exit.TROUBLE
    told = capsys.readouterr().err
    assert "signs nothing" in told
    assert "whsec_A" not in told
