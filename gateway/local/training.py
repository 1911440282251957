"""A training run of Kafka: once per machine, and every later start takes half the time.

A broker of its own is started on data that is thrown away, used as the ledger uses one, and
stopped; Java then assembles the AOT cache from what was loaded. Takes about 8 s of one processor.
Guarantees: the cache appears in one step, two runs do not do the work twice, and no other broker is
touched. Called by `prepare`, and by the supervisor when nothing else is going on.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from pathlib import Path

from gateway.local import limits
from gateway.local.java import Java
from gateway.local.kafka import Admission, KafkaServer
from gateway.local.processes import Command, run_once
from gateway.local.progress import Progress, Report, silent
from gateway.local.state import StateFolder, lock

STEP = "prepare Kafka"
RECORDS = 100


async def train(java: Java, report: Report = silent) -> None:
    """Make the AOT cache unless it is there or being made. Idempotent.

    Raises:
        LocalError: the training broker did not run; nothing depends on that.

    """
    if java.aot_cache.exists():
        return
    held = lock(java.aot_cache.with_suffix(".lock"))
    if held is None:
        return
    folder = Path(tempfile.mkdtemp(prefix=".training-", dir=java.aot_cache.parent))
    try:
        await _train_in(folder, java, report)
    finally:
        os.close(held)
        shutil.rmtree(folder, ignore_errors=True)


async def _train_in(folder: Path, java: Java, report: Report) -> None:
    recording, output = folder / "recording", folder / "kafka.aot"
    state = StateFolder.hold(folder)
    try:
        kafka = KafkaServer(
            state,
            java.to_record(recording),
            admission=Admission.EVERYBODY,
            death_signal=signal.SIGKILL,
        )
        report(Progress(STEP, 0, 3, "start"))
        try:
            await kafka.start()
            await kafka.wait_ready()
            report(Progress(STEP, 1, 3, "use"))
            await _use(state.state.kafka_admin_bootstrap)
        finally:
            await kafka.stop()
    finally:
        state.release()
    report(Progress(STEP, 2, 3, "assemble"))
    await run_once(
        Command(
            name="Java",
            argv=java.assemble_command(recording, output),
            log=folder / "assemble.log",
            death_signal=signal.SIGKILL,
            nice=limits.TRAINING_NICE,
        ),
        lambda _: None,
    )
    output.replace(java.aot_cache)
    _drop_old(java.aot_cache)
    report(Progress(STEP, 3, 3))


async def _use(bootstrap: str) -> None:
    """Load the classes of what the ledger does: topics, idempotent appends, groups, commits."""
    # 30 MB that the supervisor need not carry.
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # noqa: PLC0415
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # noqa: PLC0415

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        settings = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
        await admin.create_topics([NewTopic("training", 2, 1, topic_configs=settings)])
        await admin.describe_cluster()
    finally:
        await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all")
    consumer = AIOKafkaConsumer(
        "training", bootstrap_servers=bootstrap, group_id="training", auto_offset_reset="earliest"
    )
    await producer.start()
    try:
        await asyncio.gather(
            *[producer.send_and_wait("training", b"x" * 700) for _ in range(RECORDS)]
        )
    finally:
        await producer.stop()
    async with asyncio.timeout(limits.TRAINING_USE_SECONDS_MAX):
        await consumer.start()
        try:
            seen = 0
            while seen < RECORDS:
                batches = await consumer.getmany(timeout_ms=200)
                seen += sum(map(len, batches.values()))
            await consumer.commit()
        finally:
            await consumer.stop()


def _drop_old(current: Path) -> None:
    """Keep the newest few: each is 70 MB, and a new Java or class path leaves one behind."""
    caches = sorted(current.parent.glob("kafka-*.aot"), key=lambda path: path.stat().st_mtime)
    for path in caches[: -limits.AOT_CACHES_MAX]:
        path.unlink(missing_ok=True)
        for beside in (".lock", ".checkpoint"):
            path.with_suffix(beside).unlink(missing_ok=True)
