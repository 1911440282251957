"""Says whether a run was right, from the log, the provider's book and the projections alone.

    python -m tests.crash.checker --kafka HOST:PORT --prefix PREFIX --database URL \
        --provider FOLDER [--clients FILE] [--people FILE] [--save FILE]
    python -m tests.crash.checker --saved FILE

Its rules are its own: it shares no code with what decides and folds in the product. Prints a short
report; ends with 1 when a law is broken. `--save` keeps what was gathered, `--saved` judges it.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.crash import laws_of_book as book
from tests.crash import laws_of_desk as desk
from tests.crash import laws_of_gates as gates
from tests.crash import laws_of_log as log
from tests.crash import laws_of_people as people
from tests.crash import laws_of_rows as rows
from tests.crash import laws_of_secrecy as secrecy
from tests.crash.evidence import Finding, Run
from tests.crash.gathering import Sources, gather
from tests.crash.plain_fold import Folded, fold

Law = Callable[[Run, Folded], Iterator[Finding]]
LAWS: Final[tuple[Law, ...]] = (
    book.s1_one_effect,
    book.s2_every_request_has_its_cause,
    people.s4_authorised,
    people.s4_denied_never_begins,
    log.s5_final_stays,
    desk.s5_settled_by_a_person,
    desk.s5_a_persons_word_is_signed,
    log.s6_transitions,
    log.s7_versions,
    log.s8_one_key,
    log.s9_unknown_is_not_repeated_blindly,
    log.s9_absence_is_late_enough,
    book.s10_acknowledged_intents,
    book.s10_told_is_true,
    people.s10_told_decisions,
    book.s10_taken_webhooks,
    book.s12_status_and_book_agree,
    book.s12_failed_means_nothing_open,
    rows.s13_projected_to_the_end,
    rows.s13_streams,
    rows.s13_actions,
    rows.s13_events,
    log.s15_epochs,
    log.s16_every_input_once_in_order,
    log.s16_causes_exist,
    log.s17_tokens,
    gates.s19_accounts,
    gates.s19_ceilings,
    gates.s19_nothing_left,
    rows.s19_rows_of_gates,
    secrecy.s18_tenants_are_apart,
    secrecy.s21_no_secret_is_told,
    log.v1_everything_ends,
    log.v5_attempts_are_bounded,
    rows.q_quarantine_is_complete,
    rows.q_unreadable_is_set_aside,
    rows.w_every_webhook_is_known,
)
SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, law by law, and what the run had in it."""

    findings: tuple[Finding, ...]
    seen: Mapping[str, str]

    @property
    def is_right(self) -> bool:
        """Whether no law was broken."""
        return not self.findings

    def __str__(self) -> str:
        lines = [f"{name:<11} {value}" for name, value in self.seen.items()]
        lines += [f"BROKEN {finding}" for finding in self.findings[:SHOWN_MAX]]
        if len(self.findings) > SHOWN_MAX:
            lines.append(f"… and {len(self.findings) - SHOWN_MAX} more")
        verdict = "right" if self.is_right else f"{len(self.findings)} finding(s)"
        return "\n".join([*lines, f"{len(LAWS)} laws: {verdict}"])


def check(run: Run) -> Report:
    """Hold every law against a run."""
    folded = fold(run)
    findings = tuple(finding for law in LAWS for finding in law(run, folded))
    return Report(findings, _seen(run, folded))


def _seen(run: Run, folded: Folded) -> dict[str, str]:
    """What a reader wants to know first: a run without faults in it proves little."""
    statuses = Counter(action.status for action in folded.actions.values())
    facts = Counter(
        told.fact["type"] for action in folded.actions.values() for told in action.history
    )
    effects = sum(line["effect_id"] is not None for line in run.book)
    answers = Counter(line["answer"] for line in run.clients)
    epochs = [partition.epoch for partition in folded.partitions.values()]
    void = sum(partition.void for partition in folded.partitions.values())
    reviews = Counter(
        told.fact["reason"]
        for action in folded.actions.values()
        for told in action.told("review.opened")
    )
    unknowns = Counter(
        action.status for action in folded.actions.values() if action.told("attempt.unresolved")
    )
    aside = sum(len(run.records("quarantine", number)) for number in folded.partitions)
    matched = Counter(row["classification"] for row in run.tables.get("webhooks", ()))
    return {
        "actions": f"{len(folded.actions)}: {_told(statuses)}",
        "facts": _told(facts),
        "unknowns": f"{sum(unknowns.values())} actions were unknown once: {_told(unknowns)}",
        "reviews": _told(reviews),
        "decisions": f"{len(folded.decisions)}, {void} void records, epochs {epochs}",
        "gates": f"{len(folded.gates)}, {_given(folded)} reservations granted",
        "quarantine": f"{aside} records",
        "book": f"{len(run.book)} requests, {effects} effects",
        "webhooks": _told(matched),
        "clients": _told(answers),
        "people": _told(Counter(f"{one['decision']} {one['answer']}" for one in run.people)),
    }


def _given(folded: Folded) -> int:
    return sum(gate.state["next_grant"] - 1 for gate in folded.gates.values())


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def main(arguments: list[str]) -> int:
    """Gather, judge, report; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.checker", description=__doc__)
    for name in ("kafka", "prefix", "database"):
        parser.add_argument(f"--{name}")
    for name in ("provider", "clients", "people", "save", "saved"):
        parser.add_argument(f"--{name}", type=Path)
    given = parser.parse_args(arguments)
    if given.saved is not None:
        run = Run.load(given.saved)
    elif None in (given.kafka, given.prefix, given.database, given.provider):
        parser.error("name --kafka, --prefix, --database and --provider, or --saved")
    else:
        sources = Sources(
            given.kafka, given.prefix, given.database, given.provider, given.clients, given.people
        )
        run = asyncio.run(gather(sources))
    if given.save is not None:
        run.save(given.save)
    report = check(run)
    sys.stdout.write(f"{report}\n")
    return 0 if report.is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
