"""Java's own answer to which partition a key belongs to: Kafka's partitioner, run by Kafka's Java.

That Java has no compiler, so the class that asks it is put together here: for each of its arguments
it prints `BuiltInPartitioner.partitionForKey(argument in UTF-8, PARTITIONS)`, one number a line.
"""

import asyncio
import struct
from collections.abc import Sequence
from pathlib import Path

from gateway.local.java import Java

PARTITIONS = 24
NAME = "AskPartitioner"
_JAVA_5 = 49
"""The last version of the format that needs no map of the stack."""
_PUBLIC, _STATIC, _SUPER = 0x0001, 0x0008, 0x0020


class _Pool:
    """The constants of a class, numbered as they are asked for."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    def _number(self, entry: bytes) -> int:
        if entry not in self.entries:
            self.entries.append(entry)
        return self.entries.index(entry) + 1

    def text(self, value: str) -> int:
        raw = value.encode()
        return self._number(struct.pack(">BH", 1, len(raw)) + raw)

    def of_class(self, name: str) -> int:
        return self._number(struct.pack(">BH", 7, self.text(name)))

    def string(self, value: str) -> int:
        return self._number(struct.pack(">BH", 8, self.text(value)))

    def member(self, tag: int, owner: str, name: str, descriptor: str) -> int:
        pair = struct.pack(">BHH", 12, self.text(name), self.text(descriptor))
        return self._number(struct.pack(">BHH", tag, self.of_class(owner), self._number(pair)))

    def field(self, owner: str, name: str, descriptor: str) -> int:
        return self.member(9, owner, name, descriptor)

    def method(self, owner: str, name: str, descriptor: str) -> int:
        return self.member(10, owner, name, descriptor)


def class_file() -> bytes:
    """The class: a loop over its arguments."""
    pool = _Pool()
    out = pool.field("java/lang/System", "out", "Ljava/io/PrintStream;")
    to_bytes = pool.method("java/lang/String", "getBytes", "(Ljava/lang/String;)[B")
    ask = pool.method(
        "org/apache/kafka/clients/producer/internals/BuiltInPartitioner",
        "partitionForKey",
        "([BI)I",
    )
    tell = pool.method("java/io/PrintStream", "println", "(I)V")
    utf8 = pool.string("UTF-8")
    assert utf8 < 256
    body = b"".join(
        (
            struct.pack(">BH", 0xB2, out),  # getstatic System.out
            bytes((0x2A, 0x1B, 0x32)),  # aload_0, iload_1, aaload: the argument
            bytes((0x12, utf8)),  # ldc "UTF-8"
            struct.pack(">BH", 0xB6, to_bytes),  # invokevirtual getBytes
            bytes((0x10, PARTITIONS)),  # bipush
            struct.pack(">BH", 0xB8, ask),  # invokestatic partitionForKey
            struct.pack(">BH", 0xB6, tell),  # invokevirtual println
            bytes((0x84, 1, 1)),  # iinc 1 by 1
        )
    )
    begin = bytes((0x03, 0x3C))  # iconst_0, istore_1
    test = bytes((0x1B, 0x2A, 0xBE))  # iload_1, aload_0, arraylength
    leave = struct.pack(">Bh", 0xA2, 3 + len(body) + 3)  # if_icmpge to the end
    back = struct.pack(">Bh", 0xA7, -(len(test) + 3 + len(body)))  # goto the test
    code = begin + test + leave + body + back + bytes((0xB1,))  # return
    main = (
        struct.pack(
            ">HHHH", _PUBLIC | _STATIC, pool.text("main"), pool.text("([Ljava/lang/String;)V"), 1
        )
        + struct.pack(">HIHHI", pool.text("Code"), 12 + len(code), 4, 2, len(code))
        + code
        + struct.pack(">HH", 0, 0)
    )
    this, above = pool.of_class(NAME), pool.of_class("java/lang/Object")
    return b"".join(
        (
            struct.pack(">IHHH", 0xCAFEBABE, 0, _JAVA_5, len(pool.entries) + 1),
            *pool.entries,
            struct.pack(">HHHHHH", _PUBLIC | _SUPER, this, above, 0, 0, 1),
            main,
            struct.pack(">H", 0),
        )
    )


async def partitions_in_java(java: Java, keys: Sequence[str], folder: Path) -> list[int]:
    """Which of 24 partitions Kafka's own partitioner gives each key. None may hold a NUL."""
    (folder / f"{NAME}.class").write_bytes(class_file())
    process = await asyncio.create_subprocess_exec(
        *(str(java.program), "-Dsun.jnu.encoding=UTF-8"),
        *("-cp", f"{folder}:{java.class_path}", NAME, *keys),
        stdout=asyncio.subprocess.PIPE,
        env={"LC_ALL": "C.UTF-8"},
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return [int(line) for line in said.split()]
