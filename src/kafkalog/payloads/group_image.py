"""The groups and the committed offsets of a cluster, replayed from the records of `__consumer_offsets`.

The rules are those of Kafka's group coordinator when it loads a partition. A commit in a transaction is pending until the
marker of its producer: committed, it counts unless a later record of the log has committed the same partition; aborted, it is
dropped. A null value deletes what its key names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafkalog.format.quantities import plural, repr_text

from .internal_topics import CoordinatorRecord
from .messages import ZERO_UUID

CLASSIC, CONSUMER, SHARE, STREAMS = "Classic", "Consumer", "Share", "Streams"
PROTOCOLS: Final = {CONSUMER: "consumer", SHARE: "share", STREAMS: "streams"}
EMPTY, STABLE, ASSIGNING, RECONCILING, NOT_READY = "Empty", "Stable", "Assigning", "Reconciling", "NotReady"
COMMITTED, PENDING, ABORTED, DELETED = "committed", "pending", "aborted", "deleted"
STABLE_MEMBER = 0

TopicPartition = tuple[str, int]
Subject = tuple[str, str, int]  # group, topic, partition


@dataclass(frozen=True)
class Commit:
    """A committed offset. `record_offset` is that of its record in `__consumer_offsets`; a deleted one has no offset."""

    group_id: str
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None
    metadata: str | None
    commit_timestamp: int | None
    record_offset: int
    expire_timestamp: int | None = None
    topic_id: str | None = None
    producer_id: int | None = None
    state: str = COMMITTED

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True)
class Member:
    """A member of a group. `assigned` has topics by name in a classic group, by topic id in others."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    epoch: int | None = None
    state: int | None = None
    assignor: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


@dataclass
class GroupState:
    """A group; `epoch` is the generation of a classic one."""

    group_id: str
    type: str
    protocol: str = ""
    assignor: str | None = None
    epoch: int | None = None
    leader: str | None = None
    changed_timestamp: int | None = None
    assignment_epoch: int | None = None
    has_topology: bool = False
    members: dict[str, Member] = field(default_factory=dict)

    def __repr__(self) -> str:
        return repr_text("GroupState", self.group_id, self.type, self.state, plural(len(self.members), "member"))

    @property
    def state(self) -> str:
        """The state in which a coordinator loads the group."""
        if not self.members:
            return EMPTY
        if self.type in (CLASSIC, SHARE):
            return STABLE
        if self.type == STREAMS and not self.has_topology:
            return NOT_READY
        assigned_at = self.assignment_epoch if self.assignment_epoch is not None else -1
        if self.epoch is not None and self.epoch > assigned_at:
            return ASSIGNING
        settled = all(member.state == STABLE_MEMBER and member.epoch == assigned_at for member in self.members.values())
        return STABLE if settled else RECONCILING

    @property
    def chosen_assignor(self) -> str | None:
        """The assignor of a classic group's generation; of other groups the one that most members prefer."""
        if self.assignor:
            return self.assignor
        preferred = Counter(member.assignor for member in self.members.values() if member.assignor)
        return preferred.most_common(1)[0][0] if preferred else None


class GroupsImage:
    """Groups and committed offsets, replayed record by record; with `history` every commit is kept, in the order of the log.

    `unknown` counts records of types and versions that a later release writes: they change nothing.
    """

    def __init__(self, *, history: bool = False) -> None:
        self.offsets: dict[str, dict[TopicPartition, Commit]] = {}
        self.history: list[Commit] | None = [] if history else None
        self.unknown: Counter[str] = Counter()
        self._groups: dict[str, GroupState] = {}
        # Commits in open transactions by partition of the log and producer, and by what they commit: the last one, and the
        # places of all of them in the history.
        self._pending: dict[tuple[int, int], dict[Subject, tuple[Commit, list[int]]]] = {}

    def __repr__(self) -> str:
        commits = sum(map(len, self.offsets.values()))
        return f"GroupsImage({plural(len(self.groups), 'group')}, {plural(commits, 'committed offset')})"

    @property
    def groups(self) -> dict[str, GroupState]:
        """The groups in order of their names: with a record of their own, or only committed offsets (classic and empty)."""
        simple = {group_id: GroupState(group_id, CLASSIC) for group_id in self.offsets if group_id not in self._groups}
        return dict(sorted((self._groups | simple).items()))

    @property
    def pending(self) -> list[Commit]:
        """The commits in transactions that are still open."""
        return [commit for waiting in self._pending.values() for commit, _ in waiting.values()]

    def apply(self, record: CoordinatorRecord, partition: int, record_offset: int, producer_id: int | None = None) -> None:
        """Take a record of a partition of `__consumer_offsets` into account; `producer_id` only of a transaction."""
        handle = _HANDLERS.get(record.type)
        if record.type in (0, 1):
            self._commit(record, partition, record_offset, producer_id)
        elif handle is not None:
            handle(self, record.key, record.value)

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """Take a marker into account."""
        for pending, places in self._pending.pop((partition, producer_id), {}).values():
            done = replace(pending, state=COMMITTED if commit else ABORTED)
            self._settle(places, done.state)
            before = self.offsets.get(done.group_id, {}).get(done.key)
            if commit and (before is None or before.record_offset < done.record_offset):
                self.offsets.setdefault(done.group_id, {})[done.key] = done

    def skip(self, what: str) -> None:
        """Count a record that these schemas do not know."""
        self.unknown[what] += 1

    def _commit(self, record: CoordinatorRecord, partition: int, record_offset: int, producer_id: int | None) -> None:
        commit = _commit_of(record, record_offset, producer_id)
        place = len(self.history) if self.history is not None else -1
        if self.history is not None:
            self.history.append(commit)
        if commit.state == PENDING:
            assert producer_id is not None
            waiting = self._pending.setdefault((partition, producer_id), {})
            _, places = waiting.pop(_subject(commit), (commit, []))
            places.append(place)
            waiting[_subject(commit)] = commit, places
        elif commit.state == DELETED:
            self._delete(commit)
        else:
            self.offsets.setdefault(commit.group_id, {})[commit.key] = commit

    def _delete(self, commit: Commit) -> None:
        """A tombstone also ends what is pending for the same partition, as in the coordinator."""
        found = self.offsets.get(commit.group_id, {})
        found.pop(commit.key, None)
        if not found:
            self.offsets.pop(commit.group_id, None)
        for waiting in self._pending.values():
            _, places = waiting.pop(_subject(commit), (commit, []))
            self._settle(places, ABORTED)

    def _settle(self, places: list[int], state: str) -> None:
        """Commits of the history that were pending are so no longer."""
        if self.history is not None:
            for place in places:
                self.history[place] = replace(self.history[place], state=state)

    def group(self, group_id: str, type: str) -> GroupState:
        """The group of that name, made if there is none of that type."""
        found = self._groups.get(group_id)
        if found is None or found.type != type:
            found = self._groups[group_id] = GroupState(group_id, type, PROTOCOLS.get(type, ""))
        return found

    def remove_group(self, group_id: str, type: str) -> None:
        """Only one of that type: a group that was converted has records of both."""
        found = self._groups.get(group_id)
        if found is not None and found.type == type:
            del self._groups[group_id]

    def known_group(self, group_id: str, type: str) -> GroupState | None:
        found = self._groups.get(group_id)
        return found if found is not None and found.type == type else None


def _subject(commit: Commit) -> Subject:
    return commit.group_id, commit.topic, commit.partition


def _commit_of(record: CoordinatorRecord, record_offset: int, producer_id: int | None) -> Commit:
    key, value = record.key, record.value
    if value is None:
        return Commit(key["group"], key["topic"], key["partition"], None, None, None, None, record_offset, state=DELETED)
    epoch, expires, topic_id = value.get("leaderEpoch", -1), value.get("expireTimestamp", -1), value.get("topicId", ZERO_UUID)
    return Commit(
        key["group"],
        key["topic"],
        key["partition"],
        value["offset"],
        None if epoch < 0 else epoch,
        value["metadata"],
        value["commitTimestamp"],
        record_offset,
        None if expires < 0 else expires,
        None if topic_id == ZERO_UUID else topic_id,
        producer_id,
        COMMITTED if producer_id is None else PENDING,
    )


# What records other than commits do. Each takes the fields of key and value; the value of a tombstone is None.

Fields = dict[str, Any]
_Handler = Callable[[GroupsImage, Fields, Fields | None], None]


def _classic_group(image: GroupsImage, key: Fields, value: Fields | None) -> None:
    if value is None:
        image.remove_group(key["group"], CLASSIC)
        return
    group = image.group(key["group"], CLASSIC)
    changed = value.get("currentStateTimestamp", -1)
    group.protocol = value["protocolType"]
    group.assignor = value["protocol"]
    group.epoch = value["generation"]
    group.leader = value["leader"]
    group.changed_timestamp = None if changed < 0 else changed
    group.members = {member["memberId"]: _classic_member(member) for member in value["members"]}


def _classic_member(member: Fields) -> Member:
    assignment = member["assignment"]
    assigned = assignment.get("assignedPartitions", ()) if isinstance(assignment, dict) else ()
    return Member(
        member["memberId"],
        member.get("groupInstanceId"),
        member["clientId"],
        member["clientHost"],
        assigned=tuple((each["topic"], number) for each in assigned for number in each["partitions"]),
    )


def _group_of(type: str) -> _Handler:
    """A handler of the record that holds the epoch of a group of that type."""

    def handle(image: GroupsImage, key: Fields, value: Fields | None) -> None:
        if value is None:
            image.remove_group(key["groupId"], type)
        else:
            image.group(key["groupId"], type).epoch = value["epoch"]

    return handle


def _assignment_epoch_of(type: str) -> _Handler:
    def handle(image: GroupsImage, key: Fields, value: Fields | None) -> None:
        group = image.known_group(key["groupId"], type) if value is None else image.group(key["groupId"], type)
        if group is not None:
            group.assignment_epoch = None if value is None else value["assignmentEpoch"]
            group.changed_timestamp = _time_of(value) if value is not None else group.changed_timestamp

    return handle


def _time_of(value: Fields) -> int | None:
    stamp = value.get("assignmentTimestamp", 0)
    return stamp if isinstance(stamp, int) and stamp > 0 else None


def _member_of(type: str) -> _Handler:
    """A handler of the record that says who a member is."""

    def handle(image: GroupsImage, key: Fields, value: Fields | None) -> None:
        member_id = key["memberId"]
        if value is None:
            group = image.known_group(key["groupId"], type)
            if group is not None:
                group.members.pop(member_id, None)
            return
        group = image.group(key["groupId"], type)
        before = group.members.get(member_id, Member(member_id))
        group.members[member_id] = replace(
            before,
            instance_id=value.get("instanceId"),
            client_id=value["clientId"],
            client_host=value["clientHost"],
            assignor=value.get("serverAssignor"),
        )

    return handle


def _assignment_of(type: str) -> _Handler:
    """A handler of the record that holds a member's current assignment."""

    def handle(image: GroupsImage, key: Fields, value: Fields | None) -> None:
        group = image.known_group(key["groupId"], type)
        member = None if group is None else group.members.get(key["memberId"])
        if group is None or member is None:
            return
        if value is None:
            group.members[member.member_id] = replace(member, epoch=None, state=None, assigned=())
            return
        group.members[member.member_id] = replace(
            member, epoch=value["memberEpoch"], state=value["state"], assigned=_assigned(value)
        )

    return handle


def _assigned(value: Fields) -> tuple[TopicPartition, ...]:
    given = value.get("assignedPartitions") or ()
    return tuple((each["topicId"], number) for each in given for number in each["partitions"])


def _topology(image: GroupsImage, key: Fields, value: Fields | None) -> None:
    group = image.known_group(key["groupId"], STREAMS) if value is None else image.group(key["groupId"], STREAMS)
    if group is not None:
        group.has_topology = value is not None


_HANDLERS: Final[dict[int, _Handler]] = {
    2: _classic_group,
    3: _group_of(CONSUMER),
    5: _member_of(CONSUMER),
    6: _assignment_epoch_of(CONSUMER),
    8: _assignment_of(CONSUMER),
    10: _member_of(SHARE),
    11: _group_of(SHARE),
    12: _assignment_epoch_of(SHARE),
    14: _assignment_of(SHARE),
    17: _group_of(STREAMS),
    19: _member_of(STREAMS),
    20: _assignment_epoch_of(STREAMS),
    22: _assignment_of(STREAMS),
    23: _topology,
}
