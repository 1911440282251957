"""CPU time and memory of processes and everything below them.

Guarantees that children which have ended are counted where their parent waited for them, and that a
process which ends in between counts for nothing instead of failing the run. Pages that processes
share count in each.
"""

import psutil

MEGABYTE = 1024 * 1024


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants, ended ones included."""
    total = 0.0
    for process in _tree(pid):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def rss_mb(pid: int) -> float:
    """Resident memory of a process and its descendants."""
    total = 0
    for process in _tree(pid):
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return round(total / MEGABYTE, 1)


def _tree(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []
