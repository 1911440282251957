"""What `docs/SIMULATED.md` says of the simulated provider happens, row by row and line by line."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import httpx
import pytest

from reconciler.providers.port import Deadlines, Finder, Performer
from reconciler.providers.simulated.faults import Fault, Personality, Plain, WebhookStep
from tests.contract.calls import Call
from tests.contract.stage import Behaviour, ProviderProcess, SimulatedStage
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.tree import ROOT

PAGE = (ROOT / "docs" / "SIMULATED.md").read_text(encoding="utf-8")
PATIENT = Deadlines(connect_ms=PATIENCE_MS, response_ms=PATIENCE_MS)
SHORT = Deadlines(connect_ms=PATIENCE_MS, response_ms=200)
LATE_MS = "3000"
"""What comes so late on the page comes when nobody waits any more."""
REPORTED = {
    "Succeeded": "succeeded",
    "Refused": "refused",
    "NotSent": "not sent",
    "Unresolved": "unresolved",
}
_CODE = re.compile(r"`([^`]*)`")


def rows(section: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    _, _, below = PAGE.partition(f": `{section}`\n")
    lines = [line for line in below.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def said(cell: str) -> Any:  # noqa: ANN401 - JSON of any kind
    """The JSON that a cell holds, or None."""
    found = _CODE.search(cell)
    return None if found is None else json.loads(found[1])


FAULTS, PERSONALITIES, WEBHOOKS = rows("fault"), rows("personality"), rows("webhooks")


class Asking:
    """A fresh account of the provider that behaves as it is told."""

    def __init__(self, process: ProviderProcess, personality: object) -> None:
        """Set it up, with clients for it."""
        stage = SimulatedStage(process)
        self.call = Call.on(stage, Behaviour.HONOURS_KEYS)
        told = {"account": self.call.account, "personality": personality}
        process.control("personality", told)
        self.performer: Performer = stage.performer()
        self.finder: Finder = stage.finder()
        self._process = process

    def script(self, **script: object) -> None:
        """Queue something for the next request."""
        match = {"action_key": self.call.action_key}
        self._process.control("script", {"scripts": [{"match": match, **script}]})

    async def reported(self, deadlines: Deadlines = PATIENT) -> str:
        """What an executor would report of the request."""
        outcome = await self.call.perform(self.performer, deadlines=deadlines)
        return REPORTED[type(outcome).__name__]

    async def looked_up(self) -> str:
        """What a lookup says."""
        return type(await self.call.find(self.finder)).__name__.lower()

    async def close(self) -> None:
        """Close both clients."""
        await self.performer.close()
        await self.finder.close()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """The provider, for all rows."""
    running = ProviderProcess(tmp_path_factory.mktemp("provider"))
    running.start()
    yield running
    running.stop()


@pytest.mark.parametrize("row", FAULTS, ids=lambda row: row[0])
async def test_what_befalls_a_request_is_as_the_page_says(
    process: ProviderProcess, row: list[str]
) -> None:
    """Reported, made and looked up, each as in its column."""
    fault, _, reported, made, looked_up = row
    asking = Asking(process, {})
    asking.script(fault=said(fault))
    assert await asking.reported(SHORT if LATE_MS in fault else PATIENT) == reported
    assert len(asking.call.effects) == ["no", "yes"].index(made)
    assert await asking.looked_up() == looked_up
    await asking.close()


@pytest.mark.parametrize("row", PERSONALITIES, ids=lambda row: row[0])
async def test_what_an_account_is_like_is_as_the_page_says(
    process: ProviderProcess, row: list[str]
) -> None:
    """The same request twice: reported, how many effects, and looked up."""
    personality, _, first, reported, effects, looked_up = row
    asking = Asking(process, said(personality))
    if said(first) is not None:
        asking.script(fault=said(first))
    assert f"{await asking.reported()}, {await asking.reported()}" == reported
    assert len(asking.call.effects) == int(effects)
    assert await asking.looked_up() == looked_up
    await asking.close()


@pytest.mark.parametrize("row", WEBHOOKS, ids=lambda row: row[0])
async def test_every_plan_of_webhooks_is_taken(process: ProviderProcess, row: list[str]) -> None:
    """And the request itself goes well; what arrives is tried in `test_simulated_webhooks.py`."""
    asking = Asking(process, {})
    asking.script(webhooks=said(row[0]))
    assert await asking.reported() == "succeeded"
    await asking.close()


def test_the_page_leaves_nothing_out() -> None:
    """Every fault, every word of a personality that is not the usual one, every kind of webhook."""
    kinds = {said(row[0])["kind"] for row in FAULTS}
    members = get_args(get_args(Fault)[0])
    assert kinds == {kind for member in members for kind in _words(member, "kind")}
    assert Plain in members
    told = {(name, word) for row in PERSONALITIES for name, word in said(row[0]).items()}
    usual = Personality().model_dump()
    for name in Personality.model_fields:
        unusual = {word for word in _words(Personality, name) if word != usual[name]}
        assert unusual <= {word for named, word in told if named == name}, name
        assert name in {named for named, _ in told}
    steps = {step["kind"] for row in WEBHOOKS for step in said(row[0])}
    assert steps == set(_words(WebhookStep, "kind"))


def _words(form: type, name: str) -> tuple[str, ...]:
    """The words that a field may have, where they are named."""
    return tuple(word for word in get_args(get_type_hints(form)[name]) if isinstance(word, str))


COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("curl ")
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[-1])
def test_every_command_is_taken_as_it_stands(process: ProviderProcess, command: list[str]) -> None:
    """With the address in its place, and the type of content that curl sends."""
    *options, url = command[1:]
    headers = {"content-type": "application/x-www-form-urlencoded"}
    body = options[options.index("-d") + 1] if "-d" in options else ""
    method = "POST" if options else "GET"
    address = url.replace("$PROVIDER", process.url)
    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        answer = client.request(method, address, content=body, headers=headers)
        assert answer.status_code == 200, answer.text
        client.post(f"{process.url}/control/reset").raise_for_status()


async def test_the_steps_of_a_lost_answer_lead_where_the_page_says(
    process: ProviderProcess,
) -> None:
    """The first command alone: the next request is carried out and not answered."""
    body = COMMANDS[0][COMMANDS[0].index("-d") + 1]
    asking = Asking(process, {})
    process.control("script", json.loads(body))
    assert await asking.reported() == "unresolved"
    assert (len(asking.call.effects), await asking.looked_up()) == (1, "found")
    await asking.close()
