"""Which partitions a member of a group may work on."""

from aiokafka import TopicPartition

from streams.member import whole

TOPICS = ("t.intents", "t.attempts", "t.internal")


def test_a_partition_without_one_of_its_inboxes_has_no_owner() -> None:
    """Given while a broker that came back did not know all topics yet: an owner that cannot read
    the attempts would let every lease lapse.
    """
    given = [TopicPartition(topic, part) for topic in TOPICS for part in (0, 2, 5)]
    assert whole(given, TOPICS) == {0, 2, 5}
    given.remove(TopicPartition("t.attempts", 2))
    assert whole(given, TOPICS) == {0, 5}
    assert whole([], TOPICS) == frozenset()
