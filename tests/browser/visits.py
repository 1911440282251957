"""A person's window: the machine's Chromium, with an authenticator that holds their passkey."""

import shutil
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from playwright.sync_api import (
    Browser,
    BrowserContext,
    CDPSession,
    ConsoleMessage,
    Page,
    sync_playwright,
)

from tests.browser.stage import Stage, passkey_of
from tests.patience import PATIENCE_MS

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
WIDE: Final = (1_600, 1_000)
NARROW: Final = (360, 780)
_AUTHENTICATOR: Final = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class NoBrowserError(Exception):
    """There is no Chromium on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "The pages are tried in a real browser, and this machine has none: install Chromium "
            "(Debian: apt-get install chromium)."
        )


@contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's Chromium, for as long as the block runs. Raises NoBrowserError."""
    path = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if path is None:
        raise NoBrowserError
    with sync_playwright() as playwright:
        # Its own sandbox wants rights that a container does not have; the pages are our own.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@dataclass
class Visit:
    """A window, and everything that its browser complained of."""

    page: Page
    context: BrowserContext
    devtools: CDPSession
    authenticator: str
    origin: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Go to a page of the console."""
        self.page.goto(f"{self.origin}{path}")
        return self.page

    def log_in(self, path: str = "/console/waiting") -> Page:
        """Go to a page by way of the log-in."""
        self.open(path)
        self.page.get_by_role("button", name="Log in with a passkey").click()
        self.page.wait_for_url(f"{self.origin}{path}")
        return self.page

    def give_passkey(self, name: str) -> None:
        """Put a person's passkey into the authenticator."""
        passkey = passkey_of(name, self.origin)
        private = passkey.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        credential = {
            "credentialId": b64encode(passkey.credential_id).decode(),
            "isResidentCredential": True,
            "rpId": "localhost",
            "privateKey": b64encode(private).decode(),
            "userHandle": b64encode(name.encode()).decode(),
            "signCount": 0,
        }
        self.devtools.send(
            "WebAuthn.addCredential",
            {"authenticatorId": self.authenticator, "credential": credential},
        )

    def cookies(self) -> dict[str, str]:
        """The cookies of the window, by name."""
        return {one["name"]: one["value"] for one in self.context.cookies()}

    def is_wider_than_window(self) -> bool:
        """Whether one has to scroll sideways. A click does not wait for the styles of a page."""
        self.page.wait_for_load_state("load")
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))

    def complained(self) -> str:
        """What its browser complained of first, once it has: a page may show it before that."""
        while not self.complaints:
            self.page.wait_for_event("console")
        return self.complaints[0]

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type in {"error", "warning"}:
            self.complaints.append(said.text)


def visit(
    browser: Browser,
    stage: Stage,
    name: str | None = None,
    *,
    size: tuple[int, int] = WIDE,
    scheme: Literal["light", "dark"] = "light",
    script: Literal["on", "off"] = "on",
) -> Visit:
    """A window for somebody, with their passkey or with none."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        java_script_enabled=script == "on",
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    made = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": _AUTHENTICATOR})
    one = Visit(page, context, devtools, made["authenticatorId"], stage.origin)
    page.on("console", one._heard)
    page.on("pageerror", lambda error: one.complaints.append(str(error)))
    if name is not None:
        one.give_passkey(name)
    return one
