"""The pages' file: one origin, one secret, and no silent move."""

from pathlib import Path

import pytest

from gateway.console.pages import headers
from gateway.console.site_file import ConsoleFileError, read_site
from gateway.settings import Settings, SettingsError

HERE = "http://localhost:8788"
THERE = "https://ledger.example.com"


def test_the_file_is_made_once_and_is_private(tmp_path: Path) -> None:
    """Every gateway of an installation reads the same secret, and nobody else does."""
    path = tmp_path / "state" / "console.toml"
    site = read_site(path, HERE)
    assert read_site(path, HERE) == site
    assert path.stat().st_mode & 0o777 == 0o600
    assert (site.rp_id, site.authority, site.is_secure) == ("localhost", "localhost:8788", False)
    assert repr(site.secret) not in repr(site)


def test_pages_do_not_move_away_from_passkeys(tmp_path: Path) -> None:
    """Another origin is refused by name while somebody has a passkey for the old one."""
    path = tmp_path / "console.toml"
    site = read_site(path, HERE)
    with pytest.raises(ConsoleFileError, match="no passkey would work there") as refused:
        read_site(path, THERE, in_use={HERE})
    assert HERE in str(refused.value.hint)
    moved = read_site(path, THERE, in_use={"https://elsewhere.example.com"})
    assert (moved.origin, moved.is_secure) == (THERE, True)
    assert moved.secret != site.secret


@pytest.mark.parametrize(
    "text",
    [
        "origin",
        f'origin = "{HERE}"',
        f'origin = "{HERE}"\nsecret = "c2hvcnQ="',
        f'origin = "{HERE}"\nsecret = 1',
    ],
)
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    """It is neither repaired nor replaced: sessions would end without anybody knowing why."""
    path = tmp_path / "console.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(ConsoleFileError):
        read_site(path, HERE)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """Who reads the secret can make sessions."""
    path = tmp_path / "console.toml"
    read_site(path, HERE)
    path.chmod(0o644)
    with pytest.raises(ConsoleFileError, match="others can read it"):
        read_site(path, HERE)


def test_a_browser_is_told_what_it_may_load(tmp_path: Path) -> None:
    """Our three files by their path, connections to the two addresses that make statements."""
    site = read_site(tmp_path / "console.toml", THERE)
    said = headers(site)["Content-Security-Policy"]
    policy = dict(part.split(" ", 1) for part in said.split("; "))
    assert policy == {
        "default-src": "'none'",
        "style-src": f"{THERE}/console/static/console.css",
        "script-src": f"{THERE}/console/static/console.js",
        "img-src": f"{THERE}/console/static/icon.svg",
        "connect-src": f"{THERE}/console/approve/ {THERE}/console/review/",
        "form-action": f"{THERE}/console/",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert headers(site)["Strict-Transport-Security"] == "max-age=31536000"


@pytest.mark.parametrize(
    "text",
    [
        "http://ledger.example.com",
        "https://Ledger.example.com",
        "https://ledger.example.com/",
        "https://ledger.example.com:443",
        "http://localhost:80",
        "http://127.0.0.1:8788",
        "https://a b",
    ],
)
def test_an_origin_is_written_as_browsers_write_it(text: str) -> None:
    """A passkey is bound to it letter by letter, so only one way of writing it is taken."""
    with pytest.raises(SettingsError, match="ACTIONLEDGER_CONSOLE_ORIGIN"):
        Settings.from_environment({"ACTIONLEDGER_CONSOLE_ORIGIN": text})


def test_the_origin_follows_the_port_by_itself() -> None:
    """On one machine nothing has to be set."""
    assert Settings.from_environment({}).console_origin == HERE
    told = Settings.from_environment({"ACTIONLEDGER_HTTP_PORT": "80"})
    assert told.console_origin == "http://localhost"
    told = Settings.from_environment({"ACTIONLEDGER_CONSOLE_ORIGIN": f"{THERE}:8443"})
    assert told.console_origin == f"{THERE}:8443"
