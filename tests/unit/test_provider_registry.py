"""The registry builds what settings name, keeps secrets out of sight, and the null provider."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.providers import http
from reconciler.providers.port import (
    Deadlines,
    Declined,
    Inconclusive,
    ListingFailed,
    NotSent,
    ProviderRequest,
    Reliability,
    Retry,
    Succeeded,
    Unrecognised,
)
from reconciler.providers.registry import (
    ProviderSettings,
    UnusableProvider,
    capabilities,
    finders,
    performers,
    shared_accounts,
    webhook_mappings,
)

SIMULATED = ProviderSettings(
    "payments",
    "simulated",
    base_url="http://127.0.0.1:1",
    api_keys={"main": "sk_sim_main"},
    webhook_secrets=("whsec_c2VjcmV0",),
)
NULL = ProviderSettings("nothing", "null")
EXAMPLE = Path(http.__file__).with_name("example.toml")
DESCRIBED = replace(SIMULATED, name="described", kind="http", adapter_file=EXAMPLE)
STRIPE = """
kind = "stripe"
format = 1
settle_horizon_ms = 1
replay_proven = "possible"
[perform.charge]
makes = "payment"
"""
REQUEST = ProviderRequest("charge:v1:a:b", "charge", 1, None, {}, None, "main", "sha256:00")
DEADLINES = Deadlines(connect_ms=100, response_ms=100)


async def test_every_provider_is_built_under_its_name() -> None:
    """Performers, finders, mappings and capabilities come by the name that the catalogue uses."""
    both = [SIMULATED, NULL, DESCRIBED]
    names = {"payments", "nothing", "described"}
    assert capabilities(both).keys() == webhook_mappings(both).keys() == names
    assert capabilities(both)["payments"].reliability is Reliability.KEYED
    assert capabilities(both)["described"] == capabilities(both)["payments"]
    assert capabilities(both)["nothing"].reliability is Reliability.NONE
    for performer in performers(both).values():
        await performer.close()
    for finder in finders(both).values():
        await finder.close()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("http", EXAMPLE.read_text(encoding="utf-8")),
        ("stripe", STRIPE),
    ],
)
def test_accounts_that_others_write_to_are_known_with_their_provider(
    tmp_path: Path, kind: str, text: str
) -> None:
    """An account of this name at another provider is another account."""
    file = tmp_path / "shop.toml"
    file.write_text(
        text.replace("format = 1", 'format = 1\nshared_accounts = ["main"]', 1), "utf-8"
    )
    shop = ProviderSettings("shop", kind, adapter_file=file)
    assert shared_accounts([SIMULATED, NULL, DESCRIBED, shop]) == {("shop", "main")}


def test_secrets_are_not_shown() -> None:
    """Settings that end up in a log line give nothing away."""
    assert "sk_sim" not in repr(SIMULATED)
    assert "whsec" not in repr(SIMULATED)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ([ProviderSettings("payments", "simulated")], "no base URL"),
        ([ProviderSettings("payments", "simulated", base_url="ftp://x")], "unusable base URL"),
        ([SIMULATED, SIMULATED], "configured twice"),
        ([ProviderSettings("payments", "http")], "no adapter file"),
        ([ProviderSettings("payments", "http", adapter_file=EXAMPLE)], "no base URL"),
        ([replace(DESCRIBED, name="payments", base_url="x")], "unusable base URL"),
        ([replace(DESCRIBED, name="payments", adapter_file=EXAMPLE.parent)], "cannot be read"),
    ],
)
def test_unusable_settings_name_the_provider(
    settings: list[ProviderSettings], problem: str
) -> None:
    """A mistake is told with the provider's name and what to do, for either kind of client."""
    for build in (performers, finders):
        with pytest.raises(UnusableProvider, match=problem) as raised:
            build(settings)
        assert raised.value.name == "payments"
        assert raised.value.hint


def test_a_mistake_in_an_adapter_file_is_told_with_its_line(tmp_path: Path) -> None:
    """Whichever client is built, the file, the line and the mistake are named."""
    path = tmp_path / "adapter.toml"
    path.write_text(EXAMPLE.read_text(encoding="utf-8").replace('"POST"', '"GET"'))
    line = path.read_text(encoding="utf-8").partition('"GET"')[0].count("\n") + 1
    for build in (performers, finders, webhook_mappings, capabilities):
        with pytest.raises(UnusableProvider, match=f"line {line}: perform.*method") as raised:
            build([replace(DESCRIBED, adapter_file=path)])
        assert str(path) in raised.value.hint


async def test_the_settings_say_the_address_before_the_adapter_file(tmp_path: Path) -> None:
    """The file's own address is for installations whose settings name none."""
    path = tmp_path / "adapter.toml"
    text = EXAMPLE.read_text(encoding="utf-8")
    # A name that no host can have is found out when the client is built.
    path.write_text(text.replace("format = 1", f'format = 1\nbase_url = "http://{"x" * 64}"', 1))
    one = replace(DESCRIBED, adapter_file=path)
    await performers([one])["described"].close()
    with pytest.raises(UnusableProvider, match="unusable base URL"):
        performers([replace(one, base_url=None)])


def described_with(folder: Path, credentials: str) -> ProviderSettings:
    """A provider whose description names these credentials."""
    path = folder / "bank.toml"
    text = EXAMPLE.read_text(encoding="utf-8")
    path.write_text(f"{text}\n[credentials]\n{credentials}\n", encoding="utf-8")
    return replace(DESCRIBED, name="bank", adapter_file=path, api_keys={})


async def test_a_credential_is_read_from_the_file_that_the_description_names(
    tmp_path: Path,
) -> None:
    """Beside the description or anywhere else; whoever only reads webhooks needs none."""
    (tmp_path / "main.key").write_text("sk_live_9\n", encoding="ascii")
    one = described_with(tmp_path, 'main = "main.key"\nother = "/nowhere/at/all"')
    assert webhook_mappings([one])["bank"].map(b"{}") == Unrecognised("no_event_type")
    with pytest.raises(UnusableProvider, match="account other"):
        performers([one])
    one = described_with(tmp_path, 'main = "main.key"')
    for client in (performers([one])["bank"], finders([one])["bank"]):
        assert client._api_keys == {"main": "sk_live_9"}  # type: ignore[union-attr]
        await client.close()


@pytest.mark.parametrize(
    "content", [b"", b"two\nlines", "päss".encode(), b"x" * 9_000], ids=range(4)
)
def test_a_file_that_holds_no_credential_is_refused_without_quoting_it(
    tmp_path: Path, content: bytes
) -> None:
    """It could not be put into a header, and perhaps it is another secret."""
    (tmp_path / "main.key").write_bytes(content)
    with pytest.raises(UnusableProvider, match="not one line of printable ASCII") as refused:
        performers([described_with(tmp_path, 'main = "main.key"')])
    assert not content or content.decode() not in str(refused.value)


async def test_the_null_provider_succeeds_behind_its_guard() -> None:
    """It asks the guard first, and succeeds with the key as its reference."""
    performer = performers([NULL])["nothing"]

    def decline() -> None:
        raise Declined("lease_over")

    declined = await performer.perform(
        REQUEST, provider_key="k", deadlines=DEADLINES, before_first_byte=decline
    )
    done = await performer.perform(
        REQUEST, provider_key="k", deadlines=DEADLINES, before_first_byte=lambda: None
    )
    assert declined == NotSent("lease_over", Retry.LATER)
    assert done == Succeeded("k", {})


async def test_the_null_provider_can_look_nothing_up() -> None:
    """A lookup proves nothing, a listing fails, and no webhook has a meaning."""
    finder = finders([NULL])["nothing"]
    found = await finder.find(
        account="main", provider_key="k", action_key="a", reference=None, timeout_ms=1
    )
    assert found == Inconclusive("lookup_impossible")
    with pytest.raises(ListingFailed):
        async for _ in finder.list_effects(account="main", since_at=0, timeout_ms=1):
            pass
    assert webhook_mappings([NULL])["nothing"].map(b"{}") == Unrecognised("no_webhooks")
