"""The stage of the contract suite: an adapter, and a provider that does wrong what it is told to.

A new adapter joins the suite with a class that satisfies `Stage`, and a line in `STAGES`. The suite
itself never names a provider.
"""

import contextlib
import dataclasses
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Protocol

import httpx

from reconciler.providers.http.description import Description
from reconciler.providers.http.parsing import parse_description
from reconciler.providers.port import Capabilities, Finder, Performer, Previewer
from reconciler.providers.registry import ProviderSettings, finders, performers, previewers
from reconciler.providers.simulated.api import API_KEY_PREFIX
from reconciler.providers.simulated.capabilities import capabilities_of
from reconciler.providers.simulated.faults import Personality
from tests.patience import PATIENCE_SECONDS

POLL_SECONDS = 0.02
KEY_WINDOW_MS = 2_000
SEARCH_LAG_MS = 2_000
EXAMPLE = Path(__file__).parents[2] / "reconciler" / "providers" / "http" / "example.toml"


class Behaviour(StrEnum):
    """How an account's provider is by nature."""

    HONOURS_KEYS = "honours_keys"
    FORGETS_KEYS = "forgets_keys"
    LOSES_KEYS_ON_RESTART = "loses_keys_on_restart"
    IGNORES_KEYS = "ignores_keys"
    UNIQUE_REFERENCES = "unique_references"
    REMEMBERS_SERVER_ERRORS = "remembers_server_errors"
    LAGGING_SEARCH = "lagging_search"
    SEARCH_DOWN = "search_down"
    NOTHING_AT_ALL = "nothing_at_all"


@dataclass(frozen=True, slots=True)
class Entry:
    """What the suite reads of one request in the provider's own book."""

    key: str | None
    action_key: str | None
    request_hash: str | None
    account: str
    arrived_at: int
    effect: str | None


class Stage(Protocol):
    """What an adapter brings to the suite."""

    def account(self, behaviour: Behaviour) -> str:
        """Name a fresh account that behaves so."""
        ...

    def capabilities(self, behaviour: Behaviour) -> Capabilities:
        """Say what the adapter declares for such an account."""
        ...

    def performer(self) -> Performer:
        """Build a performer for every account of this stage."""
        ...

    def finder(self) -> Finder:
        """Build a finder for every account of this stage."""
        ...

    def previewer(self) -> Previewer:
        """Build a previewer for every account of this stage."""
        ...

    def observe(self, account: str, **facts: int | str) -> None:
        """Let previews of an account tell these volatile facts from now on."""
        ...

    def script_preview(
        self, action_key: str, kind: str | None, times: int = 1, **facts: int | str
    ) -> None:
        """Let the next previews of an action meet a fault, or tell other facts."""
        ...

    def script(self, action_key: str, kind: str, **parameters: int | str) -> None:
        """Let the next request for this action meet a fault."""
        ...

    def word(self, code: str) -> str:
        """Say what this provider calls what the suite calls `code`."""
        ...

    def strange_effect(self, account: str) -> None:
        """Let somebody make an effect on an account past the ledger."""
        ...

    def book(self, account: str) -> Sequence[Entry]:
        """Read the account's lines in the provider's book, oldest first."""
        ...


class ProviderProcess:
    """A provider in a process of its own, on a free port of the loopback interface."""

    def __init__(
        self, folder: Path, *options: str, module: str = "reconciler.providers.simulated"
    ) -> None:
        """Build it; `start` runs it, as often as it was stopped or killed."""
        self.folder = folder
        self._module = module
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        # It speaks without TLS: nobody reads for it what the machine trusts.
        nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = httpx.Client(trust_env=False, verify=nobody, timeout=PATIENCE_SECONDS)
        self.url = ""

    def start(self) -> None:
        """Start and wait until it takes requests."""
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", self._module]
        arguments = ["--book", str(self.folder / "book"), "--port-file", str(port_file)]
        self._process = subprocess.Popen(
            [*command, *arguments, *self._options], stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not port_file.exists():
            assert self._process.poll() is None, "the provider ended before it took requests"
            assert time.monotonic() < deadline, "the provider takes no requests"
            time.sleep(POLL_SECONDS)
        self.url = f"http://127.0.0.1:{port_file.read_text().strip()}"

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator would; the last thing done with it."""
        self._end(signal.SIGTERM)
        self._client.close()

    def control(self, path: str, body: object) -> object:
        """Steer it."""
        answer = self._client.post(f"{self.url}/control/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def lines(self) -> list[dict[str, object]]:
        """Read its book from disk."""
        with contextlib.suppress(FileNotFoundError):
            raw = (self.folder / "book" / "book.jsonl").read_bytes()
            return [json.loads(line) for line in raw.splitlines()]
        return []

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            os.kill(self._process.pid, number)
            self._process.wait(PATIENCE_SECONDS)
            self._process = None


class SimulatedStage:
    """The simulated provider, in its own process."""

    def __init__(self, process: ProviderProcess) -> None:
        """Use a process that runs."""
        self.process = process
        self._accounts = 0
        self._api_keys: dict[str, str] = {}

    def account(self, behaviour: Behaviour) -> str:
        """Name a fresh account that behaves so."""
        self._accounts += 1
        account = f"{behaviour.value}.{self._accounts}"
        self._api_keys[account] = API_KEY_PREFIX + account
        personality = _PERSONALITIES[behaviour].model_dump(mode="json")
        self.process.control("personality", {"account": account, "personality": personality})
        return account

    def capabilities(self, behaviour: Behaviour) -> Capabilities:
        """Say what the adapter declares for such an account."""
        return capabilities_of(_PERSONALITIES[behaviour])

    def performer(self) -> Performer:
        """Build a performer for every account of this stage."""
        return performers([self.settings()])["simulated"]

    def finder(self) -> Finder:
        """Build a finder for every account of this stage."""
        return finders([self.settings()])["simulated"]

    def previewer(self) -> Previewer:
        """Build a previewer for every account of this stage."""
        return previewers([self.settings()])["simulated"]

    def observe(self, account: str, **facts: int | str) -> None:
        """Let previews of an account tell these volatile facts from now on."""
        self.process.control("observed", {"match": {"account": account}, "observed": facts})

    def script_preview(
        self, action_key: str, kind: str | None, times: int = 1, **facts: int | str
    ) -> None:
        """Let the next previews of an action meet a fault, or tell other facts."""
        fault = None if kind is None else {"kind": kind, "delay_ms": facts.pop("delay_ms", 0)}
        script = {
            "match": {"action_key": action_key},
            "times": times,
            "fault": fault,
            "observed": facts,
        }
        self.process.control("previews", {"scripts": [script]})

    def script(self, action_key: str, kind: str, **parameters: int | str) -> None:
        """Let the next request for this action meet a fault."""
        fault = {"kind": kind, **parameters}
        script = {"match": {"action_key": action_key}, "fault": fault}
        self.process.control("script", {"scripts": [script]})

    def book(self, account: str) -> Sequence[Entry]:
        """Read the account's lines in the provider's book, oldest first."""
        return [_entry(line) for line in self.process.lines() if line["account"] == account]

    def word(self, code: str) -> str:
        """Say what this provider calls what the suite calls `code`: the suite has its words."""
        return code

    def strange_effect(self, account: str) -> None:
        """Let somebody make an effect on an account past the ledger."""
        answer = httpx.post(
            f"{self.process.url}/v1/effects/charge",
            headers={"Authorization": f"Bearer {API_KEY_PREFIX}{account}"},
            json={"amount": {"minor": 4_990, "currency": "USD"}},
            trust_env=False,
            timeout=PATIENCE_SECONDS,
        )
        assert answer.status_code == 200

    def settings(self) -> ProviderSettings:
        """Configure the adapter for every account named so far."""
        return ProviderSettings("simulated", "simulated", self.process.url, self._api_keys)


class DescribedStage(SimulatedStage):
    """The same provider through the adapter `http`, by the description that comes with it."""

    def capabilities(self, behaviour: Behaviour) -> Capabilities:
        """Say what a description of such an account declares."""
        described = parse_description(with_capabilities(super().capabilities(behaviour)))
        assert isinstance(described, Description), described
        return described.capabilities

    def settings(self) -> ProviderSettings:
        """Configure the adapter for every account named so far."""
        simulated = super().settings()
        return dataclasses.replace(simulated, kind="http", adapter_file=EXAMPLE)


def with_capabilities(declared: Capabilities) -> str:
    """The example with these answers to its questions."""
    text = EXAMPLE.read_text(encoding="utf-8")
    for question in dataclasses.fields(Capabilities):
        value = getattr(declared, question.name)
        match value:
            case Enum():
                answer = json.dumps(value.value)
            case frozenset():
                answer = json.dumps(sorted(value))
            case _:
                answer = json.dumps(value)
        text, count = re.subn(rf"(?m)^({question.name} = )[^#\n]*", rf"\g<1>{answer} ", text)
        assert count == 1, question.name
    return text


def _entry(line: dict[str, object]) -> Entry:
    def text(name: str) -> str | None:
        value = line[name]
        assert value is None or isinstance(value, str)
        return value

    arrived_at = line["arrived_at"]
    assert isinstance(arrived_at, int)
    return Entry(
        key=text("key"),
        action_key=text("action_key"),
        request_hash=text("request_hash"),
        account=str(line["account"]),
        arrived_at=arrived_at,
        effect=text("effect_id"),
    )


_PERSONALITIES = {
    Behaviour.HONOURS_KEYS: Personality(),
    Behaviour.FORGETS_KEYS: Personality(key_window_ms=KEY_WINDOW_MS),
    Behaviour.LOSES_KEYS_ON_RESTART: Personality(key_memory="lost_on_restart"),
    Behaviour.IGNORES_KEYS: Personality(keys="ignored"),
    Behaviour.UNIQUE_REFERENCES: Personality(keys="unsupported", references="unique"),
    Behaviour.REMEMBERS_SERVER_ERRORS: Personality(server_errors="remembered"),
    Behaviour.LAGGING_SEARCH: Personality(search_lag_ms=SEARCH_LAG_MS),
    Behaviour.SEARCH_DOWN: Personality(search="unavailable"),
    Behaviour.NOTHING_AT_ALL: Personality(keys="unsupported", search="none"),
}


@contextlib.contextmanager
def simulated_stage(folder: Path) -> Iterator[SimulatedStage]:
    """A running simulated provider with an empty book."""
    with running(folder) as process:
        yield SimulatedStage(process)


@contextlib.contextmanager
def described_stage(folder: Path) -> Iterator[SimulatedStage]:
    """A running simulated provider with an empty book, described."""
    with running(folder) as process:
        yield DescribedStage(process)


@contextlib.contextmanager
def running(
    folder: Path, module: str = "reconciler.providers.simulated"
) -> Iterator[ProviderProcess]:
    """A provider that takes requests, ended at the end."""
    process = ProviderProcess(folder, module=module)
    process.start()
    try:
        yield process
    finally:
        process.stop()


STAGES: dict[str, Callable[[Path], contextlib.AbstractContextManager[Stage]]] = {
    "http": described_stage,
    "simulated": simulated_stage,
}
