"""For programs without an event loop: every asynchronous call of the client as a plain one.

There is one implementation, and this is a way into it: a loop in a thread of its own. Guarantees
that a call returns what the asynchronous one returns and raises what it raises, and that everything
entered is left in reverse when the portal closes. Must never be used from inside a running loop. A
forked process has no such thread: a portal that it inherits raises RuntimeError, and never waits.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from actionledger.performing import ENDING_S

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Portal:
    """Use it as `with Portal() as portal`; it can be called from any number of threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="actionledger-portal", daemon=True)
        self._entered = AsyncExitStack()
        self._process = os.getpid()

    def call(
        self,
        function: Callable[_P, Coroutine[Any, Any, _T]],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Wait for what an asynchronous function returns. An interrupt cancels it, and waits a
        little for what it still says to the ledger. Raises RuntimeError in a forked process,
        inside the portal's own thread, and where the portal is not open.
        """
        if self._process != os.getpid():
            raise RuntimeError("This portal was opened before the fork; open another one here.")
        if threading.current_thread() is self._thread:
            raise RuntimeError("The portal's own loop cannot wait for itself; await the function.")
        if not self._thread.is_alive():
            raise RuntimeError("The portal is not open; use it as `with Portal() as portal`.")
        over = threading.Event()

        async def run() -> _T:
            try:
                return await function(*args, **kwargs)
            finally:
                over.set()

        running = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            over.wait(ENDING_S + 1)
            raise

    def enter(self, context: AbstractAsyncContextManager[_T]) -> _T:
        """Enter an asynchronous context for as long as the portal is open."""
        return self.call(self._entered.enter_async_context, context)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process != os.getpid():
            return
        try:
            self.call(self._entered.aclose)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
