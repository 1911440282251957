"""`decide(stream, config, input, now, offer) -> Decided`: what may happen, as guards in order of
precedence and then the facts.

Pure: no I/O, no clock, no randomness; `now` is log time. Each rule of the ledger is a function here
that says its name: intake (`propose`, `cancel`), attempts (`report`, `decline`), evidence
(`weigh`), time (`tick`), and `schedule` for what an action does next by itself. Called by the
processor, the simulator and the tests, by nobody else.
"""

from ledger.core.decide.dispatch import decide
from ledger.core.decide.draft import Decided, Draft

__all__ = ["Decided", "Draft", "decide"]
