"""The pages without a browser: what somebody can send who speaks HTTP and has a passkey, or not."""

import re
from dataclasses import dataclass, field
from html import unescape

import httpx

from gateway.console.login import challenge_of
from ledger.core.public_keys import decoded
from tests.browser.stage import Stage, passkey_of
from tests.passkeys import SoftwarePasskey
from tests.patience import PATIENCE_SECONDS


@dataclass
class Knocking:
    """A client of the pages, logged in as somebody or not."""

    stage: Stage
    name: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(
            base_url=self.stage.origin,
            headers={"Origin": self.stage.origin},
            timeout=PATIENCE_SECONDS,
        )

    @property
    def passkey(self) -> SoftwarePasskey:
        """The person's passkey."""
        return passkey_of(self.name, self.stage.origin)

    def log_in(self) -> "Knocking":
        """Answer the challenge of the log-in."""
        once = hidden(self.http.get("/console/login").text, "once")
        credential = self.passkey.assertion_json(challenge_of(once))
        answer = self.http.post("/console/login", data={"once": once, "credential": credential})
        assert answer.status_code == 303, answer.text
        return self

    def form(self, key: str) -> dict[str, str]:
        """What the form of a sheet carries."""
        page = self.http.get(f"/console/approve/{key}").text
        return {name: hidden(page, name) for name in ("form", "shown")}

    def statement(self, key: str, decision: str = "approve", **fields: str) -> httpx.Response:
        """Ask for the statement of a decision."""
        form = {**self.form(key), "decision": decision, "comment": "", **fields}
        return self.http.post(f"/console/approve/{key}/statement", data=form)

    def signed(
        self, key: str, decision: str = "approve", *, by: SoftwarePasskey | None = None
    ) -> dict[str, str]:
        """The form of a decision that a passkey has signed, by itself the person's own."""
        said = self.statement(key, decision).json()
        challenge = decoded(said["options"]["challenge"])
        assert challenge is not None
        return {
            **self.form(key),
            "once": said["once"],
            "credential": (by or self.passkey).assertion_json(challenge),
        }

    def hand_in(self, key: str, form: dict[str, str], **headers: str) -> httpx.Response:
        """Hand in a decision."""
        return self.http.post(f"/console/approve/{key}", data=form, headers=headers)


def hidden(page: str, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', page)
    assert found is not None, f"no field {name} in {page[:2_000]}"
    return unescape(found[1])


def code_of(answer: httpx.Response) -> str:
    """The name under which a page says no."""
    found = re.search(r'<span class="label">Code</span> <code>([a-z_]+)</code>', answer.text)
    assert found is not None, answer.text[:2_000]
    return found[1]


def outcome_of(answer: httpx.Response) -> str:
    """The name of what the ledger decided."""
    found = re.search(r'<code class="outcome-name">([a-z_.]+)</code>', answer.text)
    assert found is not None, answer.text[:2_000]
    return found[1]
