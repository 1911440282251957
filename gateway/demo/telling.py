"""How the demonstration is told: short steps, the log's own records, 80 columns.

Guarantees that everything shown of the log is taken from its records. Writes nothing where only
JSON is wanted. Called by the story.
"""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from gateway.cli.reading import money_of, statement_of
from gateway.demo.claims import Claim

WIDTH: Final = 80
INDENT: Final = "   "


class Telling:
    """The teller; without a console it is silent."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._step = 0

    def title(self, text: str) -> None:
        """The headline."""
        self._print(f"\n[bold]{text}[/]")

    def step(self, text: str) -> None:
        """The next step of the story."""
        self._step += 1
        self._print(f"\n[bold]{self._step}  {text}[/]")

    def say(self, text: str) -> None:
        """A sentence."""
        self._wrapped(text, INDENT)

    def quote(self, text: str) -> None:
        """What somebody was told, word for word."""
        self._wrapped(f"“{text}”", INDENT + "  ", style="italic")

    def drawn(self, lines: Iterable[str]) -> None:
        """Lines that are drawn, and are not to be wrapped."""
        for line in lines:
            self._print(f"{INDENT}{escape(line)}")

    def records(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """What the log has."""
        for one in documents:
            place = f"{one['topic']} {one['partition']}:{one['offset']}"
            first, *rest = lines_of(one)
            self._print(f"{INDENT}[cyan]{place:<14}[/] {first}")
            for line in rest:
                self._print(f"{INDENT}{'':<14} {line}")

    def book(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """What the provider's book has."""
        for one in lines:
            effect = one["effect_id"] or "no effect"
            dropped = ", answer dropped" if one["answer"] == "dropped" else ""
            what = money_of(one["amount"]) or one.get("operation") or ""
            about = f"{what} for {one['target']}" if one.get("target") else what
            self._print(f"{INDENT}[magenta]{'provider':<14}[/] {effect}  {about}{dropped}")

    def claims(self, claims: Sequence[Claim], seconds: float) -> None:
        """The list at the end."""
        self._print("")
        for claim in claims:
            mark = "[green]✓[/]" if claim.held else "[red]✗[/]"
            seen = "" if claim.held else f"  [red]{claim.seen}[/]"
            self._print(f" {mark} {claim.text}{seen}")
        held = sum(claim.held for claim in claims)
        self._print(f"\n{held} of {len(claims)} claims held. Told in {seconds:.1f} s.")

    def _wrapped(self, text: str, indent: str, style: str = "") -> None:
        for line in wrap(text, WIDTH - len(indent)):
            self._print(f"{indent}[{style}]{escape(line)}[/]" if style else indent + escape(line))

    def _print(self, text: str) -> None:
        if self._console is not None:
            self._console.print(text, soft_wrap=True)


def lines_of(document: Mapping[str, Any]) -> list[str]:
    """What a record says, in lines that fit beside its place; the story's key is left out."""
    short = str(document["type"]).removeprefix("actionledger.").removesuffix(".v1")
    data = document["data"]
    match short:
        case "intent.propose":
            request = data["request"]
            money, target = money_of(request.get("money")), request.get("target")
            what = f"propose {request['operation']} {money}".rstrip()
            return [f"{what} for {target}" if target else what]
        case "approval.decide":
            said = statement_of(data["signed"])
            word = said.get("move") or said.get("decision")
            return [f"in the name of {said.get('approver')}: {word}"]
        case "approval.ask":
            return [f"{data['principal']} has people asked again"]
        case "preview.report":
            foreseen = data.get("foreseen") or {}
            return [f"preview {data['preview']}: {foreseen.get('effect') or data.get('code')}"]
        case "attempt.report":
            outcome = data["outcome"]
            told = outcome.get("reference") or outcome.get("code")
            return [f"attempt {data['attempt']} {outcome['kind']}: {told}"]
        case "evidence.report":
            parts = (data["meaning"], data.get("reference"), money_of(data.get("money")))
            return [f"{data['kind']}: {' '.join(part for part in parts if part)}"]
        case "webhook.received":
            body = document.get("body") or {}
            kind, effect = body.get("type"), (body.get("data") or {}).get("effect_id")
            return [f"{data['provider']}/{data['account']} {kind} {effect}, signature verified"]
        case "decision.recorded":
            return _decision(data)
        case _:
            return [short]


def _decision(data: Mapping[str, Any]) -> list[str]:
    cause = data["cause"]
    came = f"[dim]because of {cause['topic']} {cause['partition']}:{cause['offset']}[/]"
    if refused := data.get("refused"):
        return [f"{came}  [red]refused: {refused['code']}[/]"]
    if unchanged := data.get("unchanged"):
        return [f"{came}  nothing changed: {unchanged['reason']}, {unchanged.get('status')}"]
    facts = [*(data.get("gate") or ()), *(data.get("facts") or ())]
    return [came, *(_fact(fact, data["decided_at"]) for fact in facts)]


def _fact(fact: Mapping[str, Any], decided_at: int) -> str:
    match fact["type"]:
        case "attempt.started":
            left_s = (fact["lease_until"] - decided_at) / 1_000
            return f"attempt.started {fact['attempt']}, lease of {left_s:.0f} s"
        case "timer.set":
            left_s = (fact["due_at"] - decided_at) / 1_000
            return f"timer.set {fact['purpose']} in {left_s:.0f} s"
        case "intent.recorded":
            return f"intent.recorded {fact['request_hash'][:19]}…"
        case "action.completed":
            return f"action.completed {fact['reference']}, proven by {fact['proof']}"
        case "evidence.recorded":
            return f"evidence.recorded {fact['kind']}: {fact['meaning']}"
        case "policy.decided":
            return f"policy.decided {fact['row']}: {fact['outcome']}"
        case "approval.requested":
            left_s = (fact["expires_at"] - decided_at) / 1_000
            return f"approval.requested of {fact['quorum']}, for {left_s:.0f} s"
        case "approval.granted":
            return f"approval.granted by {fact['person']}"
        case "review.resolved":
            return f"review.resolved by {fact['person']}: {fact['move']}"
        case "gate.answered":
            about = fact.get("behind") or fact.get("like") or fact.get("reason") or ""
            return f"gate.answered {fact['gate']}: {fact['outcome']} {about}".rstrip()
        case "gate.asked" | "gate.kept" | "gate.closing" | "gate.closed":
            return f"{fact['type']} {fact['gate']}"
        case "reservation.granted" | "reservation.queued" | "reservation.closed":
            return f"{fact['type']} for {fact['action']}"
        case "preview.recorded":
            return f"preview.recorded {fact['preview_hash'][:19]}…"
        case kind:
            told = fact.get("code") or fact.get("row") or fact.get("reason")
            return f"{kind} {told}" if told else str(kind)
