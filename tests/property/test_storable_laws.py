"""Laws of what an owner accepts: the projector can store it, whatever was said and however deep
inside another text it stood.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from ledger.core import inputs as i
from ledger.core.decide import Decided, decide
from ledger.core.facts import ActionCancelled
from ledger.core.holds import order_hash
from ledger.core.limits import TEXT_CHARS_MAX
from ledger.core.people import NOBODY, people_hash
from ledger.core.people_text import written
from ledger.core.policy import policy_hash
from ledger.core.records import Decision
from ledger.core.rejections import Rejection
from ledger.core.statement import Move, Signable, Signed
from ledger.log.envelope import outgoing
from ledger.log.fold import PartitionFold
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.topics import Topic
from ledger.signing.keys import sign
from projections.fold import fold_batch, read_batch
from projections.rows import ACTIONS, REFERENCES
from streams import deciding
from streams.owner import Owner
from tests import examples as x
from tests.examples import CHARGE, EMAIL, STREAM, T0
from tests.examples_of_people import resolution, statement
from tests.ledgers import GENERATION, LedgerBuilder
from tests.unit.signing.decisions import ADA_KEY, ADA_PASSKEY, person, registered

NUL: Final = "\0"
TEXTS = st.lists(
    st.sampled_from([NUL, "a", "\\", "\\u0000", "u0000", '"', "é", "\U0001f44b"]),
    min_size=1,
    max_size=5,
).map("".join)
PEOPLE: Final = written(NOBODY, (person("ada", registered(ADA_KEY), ADA_PASSKEY.registered()),))
SIGNERS: Final[dict[str, Callable[[Signable], Signed]]] = {
    "key": lambda said: sign(said, ADA_KEY),
    "passkey": ADA_PASSKEY.sign,
}
real_decide = decide


class Run:
    """One owner of the only partition, and all that landed in its ledger: what was taken before,
    and then who may decide and the table under which `CHARGE` waits for Ada.
    """

    def __init__(self, *before: i.Propose | i.Report) -> None:
        builder = LedgerBuilder()
        for one in before:
            builder.take(one)
        self.ledger = builder.records()
        self.owner = Owner(0, 1, GENERATION, "nonce")
        for record in self.ledger:
            self.owner.feed(record)
        self._land(self.owner.barrier())
        self.owner.opened(Appended(self.owner.fold.next_offset, T0), 0)
        self.publishes("people", PEOPLE, people_hash(PEOPLE))

    def _land(self, sent: Outgoing) -> None:
        place = len(self.ledger)
        self.ledger.append(
            Record(Topic.LEDGER.value, 0, place, T0, sent.key, sent.value, sent.headers)
        )

    def decides(self, topic: Topic, sent: Outgoing) -> Decision:
        """Decide one input and take over what landed."""
        offset = self.owner.position(topic)
        record = Record(topic.value, 0, offset, T0, sent.key, sent.value, sent.headers)
        batch = self.owner.take([record], 0)
        for one in batch.records:
            self._land(one)
        self.owner.landed(batch, [Appended(batch.first_at, T0)], 0)
        (decision,) = batch.read
        return decision

    def says(
        self, topic: Topic, given_input: i.Propose | i.Report | i.Judge | i.Cancel
    ) -> Decision:
        """Decide what somebody says about an action."""
        return self.decides(
            topic,
            outgoing(given_input, stream=STREAM, subject=None, event_id="e", source="/tests"),
        )

    def publishes(self, kind: str, content: str, content_hash: str) -> Decision:
        """Decide a configuration."""
        fields = {"kind": kind, "content": content, "content_hash": content_hash}
        sent = outgoing(
            i.Publish.model_validate(fields),
            stream="config",
            subject=None,
            event_id="e",
            source="/tests",
        )
        return self.decides(Topic.CONFIG, sent)

    def is_asked(self, name: str = "all", reason: str = "x") -> bool:
        """Whether the table was adopted; then Ada is asked about a charge."""
        # A JSON text without characters beyond ASCII is a TOML text as well.
        policy = f'[[row]]\nname = {quoted(name)}\noutcome = "people"\nreason = {quoted(reason)}\n'
        is_adopted = self.publishes("policy", policy, policy_hash(policy)).adopted is not None
        assert self.says(Topic.INTENTS, x.propose()).facts
        return is_adopted

    def is_stored(self) -> None:
        """Every record becomes rows, an owner that comes later opens an epoch, and no text of any
        row is one that no column can hold.
        """
        self._land(self.owner.barrier())
        batch = fold_batch(read_batch({0: PartitionFold(0)}, self.ledger), {})
        assert batch.stopped == []
        assert batch.folds[0].next_offset == len(self.ledger)
        for rows in batch.rows.values():
            assert not any(NUL in cell for row in rows for cell in row if isinstance(cell, str))


def quoted(text: str) -> str:
    """A text as TOML and JSON alike write it."""
    return to_json(text).decode()


def of_charge(run: Run, comment: str) -> Signable:
    """What Ada says of the charge that she is asked about."""
    action = run.owner.memory.stream(STREAM).action(CHARGE)
    assert action is not None
    asked = action.approval
    assert asked is not None
    return statement(
        request_hash=action.request_hash,
        nonce=asked.nonce,
        preview_hash=asked.preview_hash,
        policy_hash=asked.policy_hash,
        row=asked.row,
        expires_at=asked.expires_at,
        comment=comment,
    )


@given(TEXTS, st.sampled_from(sorted(SIGNERS)))
@settings(max_examples=20)
def test_a_signed_comment_is_kept_or_refused_by_name(comment: str, how: str) -> None:
    """What travels inside a signature is read as strictly as what travels bare."""
    run = Run()
    assert run.is_asked()
    judge = i.Judge(key=CHARGE, signed=SIGNERS[how](of_charge(run, comment)))
    decision = run.says(Topic.APPROVALS, judge)
    if NUL in comment:
        assert decision.refused is not None
        assert decision.refused.code is Rejection.SIGNATURE_INVALID
    else:
        assert decision.facts
    run.is_stored()


@given(TEXTS, TEXTS, st.sampled_from(sorted(SIGNERS)))
@settings(max_examples=20)
def test_what_settles_a_case_is_kept_or_refused_by_name(
    comment: str, reference: str, how: str
) -> None:
    """Neither a person's reason nor the name that they give an effect stops a reader."""
    run = Run(x.propose(EMAIL), x.report(x.no_answer(), key=EMAIL))
    action = run.owner.memory.stream(STREAM).action(EMAIL)
    assert action is not None
    assert action.case is not None
    said = resolution(
        Move.EFFECT_EXISTS,
        case=action.case.opened_version,
        moved=action.case.moved_version,
        key=EMAIL,
        comment=comment,
        reference=reference,
    )
    decision = run.says(Topic.APPROVALS, i.Judge(key=EMAIL, signed=SIGNERS[how](said)))
    if NUL in comment + reference:
        assert decision.refused is not None
        assert decision.refused.code is Rejection.SIGNATURE_INVALID
    else:
        assert decision.facts
    run.is_stored()


@pytest.mark.parametrize("reference", ["\U0001f44b" * TEXT_CHARS_MAX, "r" * TEXT_CHARS_MAX])
def test_an_action_is_found_by_a_name_of_any_length(reference: str) -> None:
    """A thousand wide characters are longer than an entry of a B-tree may be: its hash stands
    there.
    """
    run = Run(x.propose())
    assert run.says(Topic.ATTEMPTS, x.report(x.success(reference))).facts
    batch = fold_batch(read_batch({0: PartitionFold(0)}, run.ledger), {})
    assert batch.stopped == []
    (named,) = batch.rows[REFERENCES.name]
    assert named[REFERENCES.columns.index("reference")] == reference
    assert any(reference in str(row) for row in batch.rows[ACTIONS.name])


@given(TEXTS, TEXTS)
@settings(max_examples=20)
def test_an_order_is_kept_or_refused_by_name(by: str, reason: str) -> None:
    """Who holds and why stands in every opening of an epoch: it is looked at before."""
    run = Run()
    content = to_json({"scope": {}, "by": by, "reason": reason}).decode()
    decision = run.publishes("hold", content, order_hash(content))
    assert (decision.adopted is None) == (NUL in by + reason)
    run.is_stored()


@given(TEXTS, TEXTS)
@settings(max_examples=20)
def test_a_table_is_kept_or_refused_by_name(name: str, reason: str) -> None:
    """The name of a row stands in every decision under it."""
    run = Run()
    is_adopted = run.is_asked(name, reason)
    assert not (is_adopted and NUL in name + reason)
    run.is_stored()


@given(TEXTS)
@settings(max_examples=20)
def test_what_an_executor_reports_is_kept_or_set_aside(reference: str) -> None:
    """A name from a provider's answer is read as strictly as everything else."""
    run = Run(x.propose())
    decision = run.says(Topic.ATTEMPTS, x.report(x.success(reference)))
    assert (decision.quarantined is not None) == (NUL in reference)
    run.is_stored()


def test_a_decision_that_could_not_be_stored_is_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A door that forgets to look stops one input and not the partition; text that only looks like
    the character is text.
    """

    def decide_by(*arguments: Any) -> Decided:  # noqa: ANN401 - passed on as they came
        made = real_decide(*arguments)
        return Decided(facts=tuple(_by(fact) for fact in made.facts))

    def _by(fact: Any) -> Any:  # noqa: ANN401 - any fact
        return fact.model_copy(update={"reason": by}) if isinstance(fact, ActionCancelled) else fact

    run = Run()
    assert run.is_asked()
    monkeypatch.setattr(deciding, "decide", decide_by)
    by = "ops\0"
    set_aside = run.says(Topic.INTENTS, x.cancel())
    assert set_aside.quarantined is not None
    assert set_aside.quarantined.reason == "nul_character"
    by = "ops\\u0000"
    assert run.says(Topic.INTENTS, x.cancel()).facts
    run.is_stored()
