"""A whole ledger in the memory of one process: the product's own rules on a simulated log, with a
clock moved by hand and a provider that does wrong on demand. For tests of agents.
"""

from gateway.memory.installation import Installation, open_installation

__all__ = ["Installation", "open_installation"]
