"""What a soak found, as a page for people: what was tried, what befell it, each law by its number.

Holds no name of a machine and no path of one, so that it can be kept beside the code.
"""

import platform
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.crash.checker import LAWS, Report
from tests.crash.quiet import Kept

STATEMENTS: Mapping[str, str] = {
    "S1": "an action has one effect at most",
    "S2": "no request at the provider without a start in the log before it",
    "S3": "the start is read back before the first byte leaves",
    "S4": "nothing that people have to agree to starts without their signatures",
    "S5": "a final status stays",
    "S6": "every fact is allowed where it stands",
    "S7": "the facts of an action are numbered without a gap",
    "S8": "one provider key for all attempts of an action, and for no other",
    "S9": "after an unknown outcome only what the class of the operation allows",
    "S10": "an acknowledged intent, decision or webhook is recorded, what anybody was told is true",
    "S11": "nothing is recorded without its cause",
    "S12": "failed means no effect, completed means one, under its reference",
    "S13": "the tables are the fold of the log, byte for byte",
    "S14": "a rebuild gives the same bytes",
    "S15": "epochs grow, and what is of an old one counts for nothing",
    "S16": "every input has one decision, in order",
    "S17": "fencing tokens grow, one attempt at a time, outcomes from its holder",
    "S18": "tenants stay apart",
    "S19": "budgets hold",
    "S20": "tampering shows",
    "S21": "no secret in a record, a row, a log line or an answer",
    "S22": "the fold is pure",
    "Q": "what cannot be read is set aside whole, and nothing else is",
    "W": "every webhook is known, a matched one is evidence",
    "V1": "everything comes to rest",
    "V2": "what is accepted is shown soon, and nobody stays behind",
    "V3": "poison is set aside soon, and what is behind it goes on",
    "V4": "every door works again",
    "V5": "attempts are bounded, and partitions change hands seldom",
}
ELSEWHERE: Mapping[str, str] = {
    "S3": "not visible from outside; the provider's arrival is held against the append by S2",
    "S19": "there are no budgets yet",
    "S20": "there is no audit tree yet",
    "S22": "held by replays of kept logs in the tests",
}
SHARED: Mapping[str, str] = {"S11": "S16"}
"""Laws that are one check under two numbers."""


@dataclass(frozen=True, slots=True)
class Soaked:
    """A soak that is over."""

    seed: int
    seconds: int
    asked: int
    took_seconds: int
    struck: Counter[str]
    endings: Mapping[str, Sequence[int]]
    kept: Sequence[Kept]
    report: Report

    @property
    def is_right(self) -> bool:
        """Whether no law and no promise was broken."""
        return self.report.is_right and all(one.is_kept for one in self.kept)


def told(soaked: Soaked, commit: str) -> str:
    """The page."""
    verdict = "No law was broken." if soaked.is_right else "**Something was broken: see below.**"
    about = (
        f"{verdict} Commit {commit}, seed {soaked.seed}, {soaked.seconds} s of traffic and faults, "
        f"{soaked.took_seconds} s in all, {soaked.asked / soaked.seconds:.1f} actions a second, "
        f"Python {platform.python_version()}. Two processes of each kind, one Kafka, one Postgres. "
        f"Repeat with `make soak SEED={soaked.seed} SECONDS={soaked.seconds}`."
    )
    lines = [
        f"# Soak of {time.strftime('%Y-%m-%d', time.gmtime())}",
        "",
        about,
        "",
        "## What was done",
        "",
        f"{soaked.asked} actions were asked for.",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in soaked.report.seen.items()),
        "",
        "## What befell it",
        "",
        f"{sum(soaked.struck.values())} faults, one every 3 to 15 s.",
        "",
        "| fault | times |",
        "| --- | --- |",
        *(f"| {what} | {count} |" for what, count in sorted(soaked.struck.items())),
        "",
        f"Lives of processes that ended: {_ends(soaked.endings)}.",
        "",
        "## What was found",
        "",
        "| law | says | result |",
        "| --- | --- | --- |",
        *(f"| {law} | {says} | {result} |" for law, says, result in _results(soaked)),
        "",
    ]
    if soaked.report.findings:
        lines += ["```", *map(str, soaked.report.findings[:50]), "```", ""]
    return "\n".join(lines)


def _ends(endings: Mapping[str, Sequence[int]]) -> str:
    """How processes ended, over all of them: killed, at their own wish, or of trouble."""
    codes = Counter(code for own in endings.values() for code in own)
    words = {
        -9: "killed",
        -15: "asked to stop before it could hear it",
        0: "asked to stop or to make way",
        70: "ended at the deadline of its stop",
        75: "ended because what it needs was away",
    }
    return ", ".join(
        f"{count} {words.get(code, f'with code {code}')}" for code, count in sorted(codes.items())
    )


def _results(soaked: Soaked) -> Iterator[tuple[str, str, str]]:
    """Every law by number, with its sentence and what came of it."""
    checked = Counter(law.__name__.partition("_")[0].upper() for law in LAWS)
    broken = Counter(finding.law for finding in soaked.report.findings)
    for law, says in STATEMENTS.items():
        own = SHARED.get(law, law)
        results = []
        if law in ELSEWHERE:
            results.append(ELSEWHERE[law])
        elif checked[own]:
            found = f"**{broken[own]} findings**" if broken[own] else "held"
            results.append(f"{found} ({checked[own]} {'check' if checked[own] == 1 else 'checks'})")
        results += [
            f"{'held' if one.is_kept else '**broken**'}: {one.measured}"
            for one in soaked.kept
            if one.law == law
        ]
        yield law, says, "; ".join(results)
