"""What one exchange proves about the effect that was asked for.

Guarantees that a success needs the status, the words and the reference that the description asks
for, and names our action, account and amount where it names any; that only a row or the usual
statuses make a refusal; and that an answer which says both proves neither. Called by the performer.
"""

from ledger.core.inputs import OTHER_AMOUNT
from reconciler.providers.error_table import ErrorTable, Verdict, judge
from reconciler.providers.http.answers import (
    UnreadableAnswer,
    code_at,
    kept,
    list_at,
    read_json,
    recorded,
    value_at,
)
from reconciler.providers.http.description import Errors, Parts, Perform, Row
from reconciler.providers.http.effects import holds, is_ours, read_effect
from reconciler.providers.http_exchange import Answered, Broken, Trouble
from reconciler.providers.port import (
    NotSent,
    Outcome,
    Partial,
    ProviderRequest,
    Refused,
    Succeeded,
    Unresolved,
)


def outcome_of(
    request: ProviderRequest,
    provider_key: str,
    exchanged: Answered | Broken,
    perform: Perform,
    errors: Errors,
) -> Outcome:
    """Say what is known of the effect after this exchange."""
    if isinstance(exchanged, Broken):
        return judge(exchanged, errors.table, None)
    try:
        answer = read_json(exchanged.body)
    except UnreadableAnswer:
        answer = None
    code = code_at(answer, errors.code)
    row = next((row for row in errors.rows if row.fits(exchanged.status, code)), None)
    if exchanged.status not in perform.statuses:
        return _failed(exchanged, errors, row, code)
    if answer is None:
        return Unresolved(Trouble.ANSWER_INVALID.value)
    says_so = holds(answer, perform.equals)
    succeeded = _succeeded(request, provider_key, answer, perform) if says_so else None
    if isinstance(succeeded, Succeeded | Partial):
        if row is not None and row.verdict is Verdict.UNRESOLVED:
            return _failed(exchanged, errors, row, code)
        # A refusal that shows an effect, or an effect with a refusal: a person has to look.
        return succeeded if row is None else Unresolved("answer_contradicts_itself")
    if row is not None:
        return _failed(exchanged, errors, row, code)
    return succeeded or Unresolved(recorded(code) or "answer_not_recognised")


def _succeeded(
    request: ProviderRequest, provider_key: str, answer: object, perform: Perform
) -> Succeeded | Partial | Unresolved | None:
    shape = perform.call.shape
    try:
        effect = read_effect(value_at(answer, perform.call.at), shape)
    except UnreadableAnswer:
        return Unresolved(Trouble.ANSWER_INVALID.value)
    if not is_ours(
        effect,
        shape,
        account=request.account,
        action_key=request.action_key,
        provider_key=provider_key,
    ):
        return Unresolved("answer_for_another_action")
    if shape.money is not None and effect.money != request.money:
        return Unresolved(OTHER_AMOUNT)
    whole = Succeeded(effect.reference, effect.result)
    told = whole if perform.parts is None else _of_parts(whole, answer, perform.parts)
    # An object that failed, or is still at work, is what a lookup would say of it as well.
    return None if isinstance(told, Succeeded) and effect.state != "exists" else told


def _of_parts(whole: Succeeded, answer: object, parts: Parts) -> Succeeded | Partial | None:
    """What the parts say of the whole: all of it, some of it, or none. Without parts it is none."""
    try:
        items = list_at(answer, parts.at)
    except UnreadableAnswer:
        return None
    exist = [holds(item, parts.equals) for item in items]
    if not any(exist):
        return None
    if all(exist):
        return whole
    told = dict(whole.result)
    for number, (one, item) in enumerate(zip(exist, items, strict=True), start=1):
        of_part = {name: kept(value_at(item, path)) for name, path in parts.result}
        told[f"part_{number}"] = {"exists": one, **of_part}
    return Partial(whole.reference, told)


def _failed(
    answered: Answered, errors: Errors, row: Row | None, code: str | None
) -> Refused | NotSent | Unresolved:
    if row is None and answered.status in range(200, 300):
        return Unresolved(recorded(code) or f"http_{answered.status}")
    table = errors.table
    if row is not None:
        table = ErrorTable({answered.status: row.verdict}, table.troubles)
    return judge(answered, table, recorded(code))
