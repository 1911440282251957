"""People in memory: who may decide, each with a key of their own, and what they sign.

Guarantees that a decision of theirs is a real signature over a real statement, read by the same
rules as everybody's. Must never be used outside a test: their keys are nobody's secret. Called by
the installation.
"""

import random
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.core.ids import ActionKey
from ledger.core.inputs import Judge
from ledger.core.state import Action
from ledger.core.statement import Say, Statement
from ledger.signing.keys import SigningKey, sign


class MemoryPeople:
    """Everybody by name, with the groups they are in; all may decide for every tenant."""

    def __init__(self, groups: Mapping[str, Sequence[str]], chance: random.Random) -> None:
        self._groups = {name: list(of_person) for name, of_person in groups.items()}
        self._keys = {
            name: SigningKey.of(Ed25519PrivateKey.from_private_bytes(chance.randbytes(32)))
            for name in self._groups
        }

    @property
    def document(self) -> str:
        """Who they are, as it is published."""
        return "\n".join(
            f'[[person]]\nname = "{name}"\ngroups = {groups}\ntenants = ["*"]\n'
            f'keys = [{{ id = "{key.id}", kind = "ed25519", public = "{key.public}" }}]\n'
            for (name, groups), key in zip(self._groups.items(), self._keys.values(), strict=True)
        )

    def signed(
        self, action: Action, say: Say, *, by: str, comment: str | None, ledger: str, now_ms: int
    ) -> Judge:
        """What a person says about an action as it is asked about now. Raises ValueError where
        nobody is asked, and for somebody who is nobody.
        """
        if by not in self._keys:
            raise ValueError(f"nobody here is called {by}: there are {', '.join(self._keys)}")
        asked = action.approval
        if asked is None:
            raise ValueError(f"nobody is asked about {action.key}")
        void = (one.void_until for one in asked.withdrawals if one.person == by)
        statement = Statement(
            ledger=ledger,
            decision=say,
            approver=by,
            tenant=ActionKey.parse(action.key).tenant,
            environment=action.request.environment,
            key=action.key,
            request_hash=action.request_hash,
            preview_hash=asked.preview_hash,
            policy_hash=asked.policy_hash,
            row=asked.row,
            nonce=asked.nonce,
            # As the command line signs it: apart from what its person took back a moment ago.
            issued_at=max(now_ms, 1 + max(void, default=-1)),
            expires_at=asked.expires_at,
            comment=comment,
        )
        return Judge(key=action.key, signed=sign(statement, self._keys[by]))
