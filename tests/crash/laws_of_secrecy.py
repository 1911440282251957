"""Laws about what must be nowhere: secrets in anything that is kept, one tenant in another's."""

from collections.abc import Iterator

import orjson

from tests.crash.evidence import Finding, Run
from tests.crash.plain_fold import Folded


def s18_tenants_are_apart(run: Run, folded: Folded) -> Iterator[Finding]:
    """Nothing that a tenant's action says, has or is told names another tenant."""
    tenants = {_tenant(key) for key in folded.actions}
    others = {tenant: [f":{one}:" for one in tenants - {tenant}] for tenant in tenants}
    for action in folded.actions.values():
        tenant = _tenant(action.key)
        if not action.stream.startswith(f"{tenant}/"):
            yield Finding("S18", action.key, f"is in the stream {action.stream}")
        said = orjson.dumps([told.fact for told in action.history]).decode()
        named = [one for one in others[tenant] if one in said]
        if named:
            yield Finding("S18", action.key, f"its facts name {named}")
    for line in run.clients:
        if _tenant(line["key"]) != line.get("tenant", _tenant(line["key"])):
            yield Finding("S18", line["key"], f"was told to {line['tenant']}")
    for row in run.tables.get("webhooks", ()):
        action_key = row.get("action_key")
        if action_key is not None and action_key not in folded.actions:
            yield Finding("S18", action_key, "a webhook is matched to it and it is nobody's")


def s21_no_secret_is_told(run: Run, _folded: Folded) -> Iterator[Finding]:
    """No planted secret stands in a record, a row, a log line or an answer."""
    kept = {
        **{
            f"{topic}/{partition}": b"\n".join(raw.value for raw in records)
            for (topic, partition), records in run.log.items()
        },
        **{name: orjson.dumps(list(rows)) for name, rows in run.tables.items()},
        **{name: text.encode() for name, text in run.words.items()},
        "answers": orjson.dumps(list(run.clients)),
    }
    for name, secret in run.secrets.items():
        for place, content in kept.items():
            if secret.encode() in content:
                yield Finding("S21", place, f"holds the {name}")


def _tenant(action_key: str) -> str:
    return action_key.split(":")[2]
