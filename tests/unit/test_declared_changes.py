"""What two versions of files declare: the differences, what isn't read, and what is wrong input, with file and line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from spark_assign import ConfigError
from spark_assign.sources.files.declared_changes import MAX_BYTES, Mapped, read_changes
from spark_assign.tables.quoting import markdown_block, markdown_code
from tests.cases import cases

TOPIC = """\
# orders
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {{name: orders, labels: {{strimzi.io/cluster: shop}}}}
spec:
  replicas: {1}
  partitions: {0}
"""
DEPLOYMENT = """\
kind: Deployment
metadata:
  name: {1}
  annotations: {{spark-assign/group: orders-service}}
spec:
  replicas: {0}
"""
CONNECTOR = "kind: KafkaConnector\nmetadata: {{name: sink}}\nspec: {{tasksMax: {0}, state: {1}}}\n"
POOL = "kind: KafkaNodePool\nmetadata: {{name: pool}}\nspec: {{replicas: {0}, roles: [{1}]}}\n"
CONFLUENT = (
    '{{"format_version": "1.2", "planned_values": {{"root_module": {{"child_modules": [{{"resources": [{{'
    '"address": "module.a.confluent_kafka_topic.t", "mode": "managed", "type": "confluent_kafka_topic", "values": '
    '{{"topic_name": "t", "partitions_count": {0}, "kafka_cluster": [{{"id": "lkc-1"}}], "secret": "{1}"}}}}]}}]}}}}}}'
)
STATE = (
    '{{"format_version": "0.1", "values": {{"root_module": {{"resources": [{{"address": "x", "mode": "managed", '
    '"type": "{1}", "values": {{"name": "t", "topic_name": "t", "partitions": {0}, "partition_count": {0}}}}}]}}}}}}'
)
CLIENT = "group.id=g\npassword=hush\npartition.assignment.strategy={0}\nsession.timeout.ms={1}\n"
STREAMS = "application.id=a\n"
UNLABELED = DEPLOYMENT.format(3, "a").replace("spark-assign/", "")
OF_GROUP = "kind: KafkaConnector\nmetadata: {{name: sink}}\nspec: {{config: {{consumer.override.group.id: {0}}}}}\n"
UNNAMED = [STATE.format(6, "kafka_topic"), STATE.format(6, "kafka_topic").replace('"name": "t"', '"name": null')]
LIST = "kind: List\n---\nkind: List\nitems: "
JAVA = "org.apache.kafka.clients.consumer."


def changed(tmp_path: Path, name: str, before: str | bytes, after: str | bytes, mapped: Mapped | None = None):  # type: ignore[no-untyped-def]
    """The changes as tuples, and the notes, of one file in a folder."""
    for side, text in (("old", before), ("new", after)):
        (tmp_path / side).mkdir(exist_ok=True)
        (tmp_path / side / name).write_bytes(text.encode() if isinstance(text, str) else text)
    changes, notes = read_changes(str(tmp_path / "old"), str(tmp_path / "new"), mapped or Mapped())
    each = [(c.kind, c.cluster, c.name, c.setting, c.before, c.after, c.where) for c in changes]
    return each, notes


@cases(
    "name template before after expected",
    ("t.yaml", TOPIC, (12, 1), (24, 1), [("topic", "shop", "orders", "partitions", 12, 24, "t.yaml:7")]),
    ("t.yml", TOPIC, (12, 1), (12, 3), [("topic", "shop", "orders", "replicas", 1, 3, "t.yml:6")]),
    ("t.yaml", TOPIC, ("", 1), (24, 1), [("topic", "shop", "orders", "partitions", "not set", 24, "t.yaml:7")]),
    ("d.yaml", DEPLOYMENT, (3, "a"), (2, "a"), [("group", None, "orders-service", "replicas", 3, 2, "d.yaml:6")]),
    (  # a workload that is renamed
        *("d.yaml", DEPLOYMENT, (3, "a"), (2, "b")),
        [("group", None, "orders-service", "replicas", 3, 2, "d.yaml:6")],
    ),
    ("c.yaml", CONNECTOR, (2, "running"), (3, "running"), [("connector", None, "sink", "tasksMax", 2, 3, "c.yaml:3")]),
    ("c.yaml", CONNECTOR, (2, "running"), (2, "stopped"), [("connector", None, "sink", "tasksMax", 2, 0, "c.yaml:3")]),
    ("c.yaml", CONNECTOR, (2, "running"), ("", "running"), [("connector", None, "sink", "tasksMax", 2, 1, "c.yaml:3")]),
    ("p.yaml", POOL, (3, "broker"), (4, "broker"), [("node pool", None, "pool", "replicas", 3, 4, "p.yaml:3")]),
    ("p.yaml", POOL, (3, "controller"), (5, "controller"), []),
    (
        *("plan.json", CONFLUENT, (6, "a"), (9, "b")),
        [("topic", "lkc-1", "t", "partitions", 6, 9, "plan.json, module.a.confluent_kafka_topic.t")],
    ),
    *(
        ("s.json", STATE, (6, kind), (9, kind), [("topic", None, "t", "partitions", 6, 9, "s.json, x")])
        for kind in ("kafka_topic", "aws_msk_topic", "aiven_kafka_topic")
    ),
    (
        *("g.properties", CLIENT, (f"{JAVA}RangeAssignor", 45000), (f"{JAVA}CooperativeStickyAssignor", 10000)),
        [
            ("client", None, "g", "assignor", "range", "cooperative-sticky", "g.properties:3"),
            ("client", None, "g", "session.timeout.ms", 45000, 10000, "g.properties:4"),
        ],
    ),
)
def test_differences(tmp_path: Path, name: str, template: str, before: tuple, after: tuple, expected: list) -> None:  # type: ignore[type-arg]
    """Each with its place in the new version."""
    assert changed(tmp_path, name, template.format(*before), template.format(*after)) == (expected, [])
    assert changed(tmp_path, name, *[template.format(*after)] * 2) == ([], [])


@cases(
    "name text",
    ("t.yaml", TOPIC.format("{0}", 1) + "  state: stopped\n  roles: []\n"),
    ("d.yaml", DEPLOYMENT.format("{0}", "a") + "  state: stopped\n  roles: [controller]\n  topicName: x\n"),
    ("c.yaml", CONNECTOR.format("{0}", "running, roles: [], topicName: x")),
    ("p.yaml", POOL.format("{0}", "broker").replace("]}", "], state: stopped, topicName: x}")),
)
def test_a_field_of_another_kind_hides_no_change(tmp_path: Path, name: str, text: str) -> None:
    """Kubernetes drops it."""
    (change,), notes = changed(tmp_path, name, text.replace("{0}", "12"), text.replace("{0}", "24"))
    assert (change[2] != "x", *change[4:6], notes) == (True, 12, 24, [])


@cases("kind", "List", "KafkaTopicList")
def test_items_of_a_list_are_documents(tmp_path: Path, kind: str) -> None:
    """Of `kubectl get`, and of the API server, which leaves out the kind of items. A topic in a list isn't new."""
    text, own = TOPIC.format(12, 1), "" if kind == "List" else "kind: KafkaTopic\n"
    item = text.replace("# orders\n", "").replace(own, "", 1).replace("\n", "\n  ")
    listed = f"kind: {kind}\nitems:\n- {item}\n- kind: Job"
    assert changed(tmp_path, "t.yaml", text, listed)[0] == []
    change = ("topic", "shop", "orders", "partitions", 12, 24, f"t.yaml:{8 if own == '' else 7}")
    assert changed(tmp_path, "t.yaml", text, listed.replace("12", "24"))[0] == [change]
    assert changed(tmp_path, "t.yaml", f"kind: {kind}\nitems: null", f"kind: {kind}\nitems: []") == ([], [])
    named = listed.replace("name: orders", "name: ''")
    with pytest.raises(ConfigError, match=r"t.yaml:3: the KafkaTopic has no metadata.name"):
        changed(tmp_path, "t.yaml", text, named)
    nested = f"{'{kind: List, items: [' * 40}{']}' * 40}"
    with pytest.raises(ConfigError, match="nested more than 64 deep"):
        changed(tmp_path, "t.yaml", text, nested)


def test_replicas_of_a_group_are_summed(tmp_path: Path) -> None:
    """Also those of workloads that don't change; the mapping file names groups and members per replica."""
    texts = ["---\n".join(DEPLOYMENT.format(*each) for each in ((3, "a"), (n, "b"))) for n in (2, 4)]
    found, _ = changed(tmp_path, "d.yaml", *texts)
    assert found == [("group", None, "orders-service", "replicas", 5, 7, "d.yaml:13")]
    mapped = Mapped.model_validate({"consumers": {"b": {"group": "mail", "cluster": "c", "members_per_replica": 4}}})
    assert changed(tmp_path, "d.yaml", *texts, mapped)[0] == [("group", "c", "mail", "replicas", 8, 16, "d.yaml:13")]


@cases(
    "name before after note",
    (
        "x.yaml",
        "kind: ConfigMap\nmetadata: {name: a}",
        "kind: ConfigMap\nmetadata: {name: a}\nb: 1",
        "`ConfigMap` isn't",
    ),
    ("x.yaml", "a: 1", "a: 2", "`a document without kind` isn't read: 1 change, the first at `x.yaml:1`."),
    ("x.yaml", f"{LIST}a", f"{LIST}b", "`List` isn't read: 1 change, the first at `x.yaml:3`."),
    (
        "x.json",
        '{"kind": "Kustomization"}',
        '{"kind": "Kustomization", "a": 1}',
        "`Kustomization` isn't read: 1 change",
    ),
    ("x.yaml", "", "kind: Job\nmetadata: {name: [a], generateName: b}", "`Job` isn't read: 1 change, the first at"),
    ("x.md", "a", "b", "`x.md` changed, but files of this kind aren't read."),
    ("x.yaml", DEPLOYMENT.format(1, "a").replace("spark-", "x-"), "", "`a` changed, but its group isn't known"),
    ("x.yaml", "", DEPLOYMENT.format("", "a"), "`replicas` isn't set"),
    ("x.yaml", DEPLOYMENT.format(3, "a"), DEPLOYMENT.format("", "a"), "in group `orders-service` isn't known"),
    ("g.properties", "a=1\n", "group.protocol=consumer\n", "its group isn't known: map the file."),
    *(
        ("g.properties", before, after, f"`g.properties`: `{before or after}"[: 16 + (before or after).index("=")])
        for before, after in (("group.id=a", "group.id=b"), ("application.id=a", ""), ("", "client.id=b"))
    ),
    ("g.properties", "group.id=" + 999 * "a", "group.id=" + 998 * "a", "So members leave their group"),
    ("g.properties", "group.id=a", r"group.id=a\u0000b", r"`group.id` changes from `a` to `a\u0000b`"),
    ("g.properties", CLIENT.format("", 1), "group.id=h", "`group.id` changes from `g` to `h`"),
    ("x.yaml", OF_GROUP.format("a"), OF_GROUP.format("b"), "`consumer.override.group.id` changes from `a` to `b`"),
    ("x.yaml", DEPLOYMENT.format(3, "a"), UNLABELED, "only one version has `spark-assign/group`. Its group `orders-"),
    (
        "g.properties",
        STREAMS,
        f"{STREAMS}group.protocol=Streams",
        "`group.protocol` changes from `classic` to `streams`",
    ),
    (
        "g.properties",
        f"{STREAMS}group.protocol=streams",
        STREAMS,
        "`group.protocol` changes from `streams` to `classic`",
    ),
    ("g.properties", STREAMS, f"{STREAMS}group.protocol=consumer", "So members join by another protocol, which isn't"),
    ("s.json", *UNNAMED, "topic `t` (`s.json, x`): its name isn't known in one of the versions"),
    ("s.json", *UNNAMED[::-1], "`kafka_topic without a known name` isn't read: 1 change"),
)
def test_what_is_not_read_is_named(tmp_path: Path, name: str, before: str, after: str, note: str) -> None:
    """Kinds, files, and workloads without a group."""
    changes, notes = changed(tmp_path, name, before, after)
    assert note in "".join(notes)
    assert changes == []
    assert changed(tmp_path, name, after, after) == ([], [])


def test_a_group_id_is_trimmed(tmp_path: Path) -> None:
    """As Kafka does. A workload whose label is removed still counts, and a mapped file is of its group."""
    assert changed(tmp_path, "g.properties", "group.id=g", "group.id=g \t\\u0000") == ([], [])
    mapped = Mapped.model_validate({"consumers": {"g.properties": {"group": "mail"}}})
    found, notes = changed(
        tmp_path, "g.properties", CLIENT.format("", 1), CLIENT.format("", 2).replace("=g", "=h"), mapped
    )
    assert [each[2:6] for each in found] == [("mail", "session.timeout.ms", 1, 2)]
    assert "`group.id` changes from `g` to `h`" in notes[0]
    change = ("group", None, "orders-service", "replicas", 3, 2, "d.yaml:6")
    after = UNLABELED.replace("replicas: 3", "replicas: 2")
    assert changed(tmp_path, "d.yaml", DEPLOYMENT.format(3, "a"), after)[0][-1] == change


@cases(
    "settings assignor",
    ("group.protocol=Consumer", "uniform"),
    ("group.protocol=consumer\ngroup.remote.assignor=range", "server-range"),
    ("group.protocol=consumer\ngroup.remote.assignor=mine", "mine"),
    ("group.protocol=consumer\ngroup.remote.assignor=sticky", "group.remote.assignor=sticky"),
    ("group.protocol=CLASSIC\npartition.assignment.strategy=roundrobin", "roundrobin"),
    ("partition.assignment.strategy=com.example.Mine", "com.example.Mine"),
    ("partition.assignment.strategy=uniform", "partition.assignment.strategy=uniform"),
)
def test_an_assignor_is_one_of_its_protocol(tmp_path: Path, settings: str, assignor: str) -> None:
    """A name of the other protocol's assignors isn't known, with its key before it."""
    (change,), _ = changed(tmp_path, "g.properties", "group.id=g", f"group.id=g\n{settings}")
    assert change[3:6] == ("assignor", "range", assignor)


def test_properties_of_java(tmp_path: Path) -> None:
    """They are UTF-8, or else ISO-8859-1, as Java reads them: a comment can have any byte."""
    texts = [f"# Größe\n{CLIENT.format('', number)}".encode("latin-1") for number in (1, 2)]
    found, _ = changed(tmp_path, "g.properties", *texts)
    assert found == [("client", None, "g", "session.timeout.ms", 1, 2, "g.properties:5")]


LAUGHS = "a0: &a0 1\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20))


@cases(
    "name after message",
    ("x.yaml", "kind: KafkaTopic\nkind: X", r"x.yaml:2: the key is set twice: 'kind'"),
    ("x.yaml", "a: 1\nb: [}", r"x.yaml:2: isn't valid YAML: .*helm template"),
    ("x.yaml", "a: {{ .Values.a }}", r"x.yaml:1: a key isn't a plain value"),
    ("x.yaml", "a: 1\nb: \x07", r"x.yaml:2: isn't valid YAML: control characters"),
    ("x.yaml", "a: !!python/object/apply:os.system [x]\nb: !!python/name:x y", r"x.yaml:2: isn't valid YAML"),
    ("x.yaml", "a: 2024-13-01", r"x.yaml:1: isn't valid YAML: the value isn't of its type"),
    *(
        ("x.yaml", f"a:\n  !!{tag}", r"x.yaml:2: isn't valid YAML: the value")
        for tag in ("bool x", "int ''", "timestamp x")
    ),
    ("x.yaml", "a: &a {b: 1}\nc:\n  <<: *a", r"x.yaml:3: a key isn't a plain value, or merges a mapping"),
    ("x.yaml", "a: &a [*a]", r"x.yaml:1: nested more than 64 deep"),
    ("x.yaml", "[" * 100_000, r"x.yaml:1: nested more than 64 deep"),
    ("x.yaml", LAUGHS, r"x.yaml:\d+: more than 500,000 values, counting each alias"),
    ("x.yaml", b"a: 1\nb: \xff", r"x.yaml:2: isn't UTF-8"),
    ("x.yaml", TOPIC.format("many", 1), r"x.yaml:7: partitions isn't a whole number from 1 to 100,000\.$"),
    ("x.yaml", TOPIC.format(0, 1), r"x.yaml:7: partitions isn't a whole number from 1 to 100,000\.$"),
    ("x.yaml", "kind: KafkaTopic", r"x.yaml:1: the KafkaTopic has no metadata.name"),
    ("x.yaml", f"{TOPIC.format(1, 1)}---\n{TOPIC.format(2, 1)}", r"x.yaml:2 and x.yaml:10 declare the topic 'orders'"),
    ("x.json", '{"a": 1,\n"b"}', r"x.json:2: isn't valid JSON"),
    ("x.json", '{"a": 1, "a": 2}', r"x.json:1: the key is set twice"),
    ("x.json", "[" * 100_000, r"x.json: values are nested"),
    ("x.json", f"[{'9' * 5_000}]", r"x.json: isn't valid JSON: a number is too long"),
    ("x.json", '{"format_version": "2.0"}', r"x.json: format_version 2.0 isn't known"),
    *(
        ("x.json", f'{{"format_version": "1.2", "planned_values": {text}}}', rf"x.json.*: {key} isn't (an|a list)")
        for key, text in {
            "planned_values": "5",
            "root_module": '{"root_module": []}',
            "child_modules": '{"root_module": {"child_modules": "x"}}',
            "resources": '{"root_module": {"child_modules": [{"resources": {"a": 1}}]}}',
            "values": '{"root_module": {"resources": [{"address": "a", "type": "x", "values": "hush"}]}}',
        }.items()
    ),
    ("x.yaml", "kind: KafkaTopic\nmetadata: {name: a}\nspec: hush", r"x.yaml:1: spec isn't an object"),
    *(
        ("x.properties", f"group.id=g\ngroup.protocol={value}", r"x.properties:2: group.protocol isn't classic or cons")
        for value in ("range", "share", "", "classic1", "streams")
    ),
    ("x.properties", f"{STREAMS}group.protocol=share", r"x.properties:2: group.protocol isn't classic or consumer"),
    (
        "x.properties",
        "a=1\ngroup.remote.assignor=",
        r"x.properties:2: group.remote.assignor is empty. Name an assignor",
    ),
    ("x.properties", "session.timeout.ms=2147483648", r"x.properties:1: session.timeout.ms isn't a number of millisec"),
    ("x.properties", "group.id=g\nsession.timeout.ms=hush", r"x.properties:2: session.timeout.ms isn't a number of"),
    ("x.yaml", TOPIC.format("12:30", 1), r"x.yaml:7: partitions isn't a whole number from 1 to 100,000\.$"),
    ("x.yaml", "".join(f"%TAG !a{n}! x\n" for n in range(100_000)), r"x.yaml: more than 100 lines start with %"),
    ("x.json", f"[{'{},' * 4_000_000}", r"x.json:1: more than 4,000,000 values in all files"),
    ("x.json", r'{"kind": "KafkaTopic", "metadata": {"name": "\ud800"}}', r"x.json: a name has half of a surrogate"),
    ("x.properties", "a\n" * 600_000, r"x.properties: more than 1,048,576 bytes"),
    ("x.properties", r"group.id=\ud800", r"x.properties: a name has half of a surrogate"),
    ("x.properties", r"a=\u12", r"x.properties: line 1: expected four"),
    ("x.yaml", b" " * (MAX_BYTES + 1), r"x.yaml: more than 33,554,432 bytes"),
)
def test_wrong_input(tmp_path: Path, name: str, after: str | bytes, message: str) -> None:
    """Is named with its line, at once; in both versions, it changes nothing."""
    started = time.process_time()
    with pytest.raises(ConfigError, match=message) as raised:
        changed(tmp_path, name, "{}" if name == "x.json" else "", after)
    assert "hush" not in str(raised.value)
    assert time.process_time() - started < 5
    changes, notes = changed(tmp_path, name, after, after)
    assert changes == []
    note = f"1 file without a change can't be read, the first is `{name}`. Workloads of a group in them don't count."
    assert notes == ([] if " declare " in str(raised.value) else [note])


def test_all_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same small file many times, each with many values by its aliases; equal files are read once."""
    monkeypatch.setattr("spark_assign.sources.files.declared_changes.MAX_ALL", 20_000)
    for side in ("old", "new"):
        (tmp_path / side).mkdir()
        for number in range(10):
            (tmp_path / side / f"{number}.yaml").write_text(f"{LAUGHS.partition('a5:')[0]}---\na: .nan")
    _, notes = read_changes(str(tmp_path / "old"), str(tmp_path / "new"), Mapped())
    assert notes[0].startswith("8 files without a change can't be read, the first is `2.yaml`.")
    assert len(notes) == 1


def test_a_long_number_is_not_parsed(tmp_path: Path) -> None:
    """Base 60 of YAML 1.1 takes time quadratic in its digits."""
    started = time.process_time()
    assert changed(tmp_path, "x.yaml", "", f"a: 1{':1' * 500_000}")[0] == []
    assert time.process_time() - started < 5


def test_a_file_name_fakes_no_line(tmp_path: Path) -> None:
    """Such as a command in the log of GitHub."""
    with pytest.raises(ConfigError, match=r"^x\\n::error::\\u202e.yaml:2: isn't valid YAML"):
        changed(tmp_path, "x\n::error::\u202e.yaml", "", "[")


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A repository can have links to any file of the machine."""
    (tmp_path / "secret.yaml").write_text(TOPIC.format(1, 1))
    for side in ("old", "new"):
        (tmp_path / side).mkdir()
    (tmp_path / "new" / "x.yaml").symlink_to(tmp_path / "secret.yaml")
    assert read_changes(str(tmp_path / "old"), str(tmp_path / "new"), Mapped()) == ([], [])
    with pytest.raises(ConfigError, match="no such file or folder"):
        read_changes(str(tmp_path / "none"), str(tmp_path / "new"), Mapped())


@cases(
    "text shown",
    ("orders.created", "`orders.created`"),
    ("a`b``c", "```a`b``c```"),
    ("`", "`` ` ``"),
    ("", "` (empty) `"),
    (" a", "`  a `"),
    ("a|b\n<img src=x> @you\u202e", r"`a\x7cb\n<img src=x> @you\u202e`"),
    ("x" * 200, f"`{'x' * 100}…`"),
)
def test_a_name_in_markdown(text: str, shown: str) -> None:
    """Stays inside its code span, on one line, in one cell."""
    assert markdown_code(text) == shown.replace(r"\x7c", "\\x7c")
    assert markdown_block("a\n```\nb\x1b") == ["````text", "a", "```", "b\\u001b", "````"]


def test_a_path_that_cannot_be_read(tmp_path: Path) -> None:
    """A name that is too long is wrong input."""
    with pytest.raises(ConfigError, match="can't be read: file name too long"):
        read_changes("x" * 300, str(tmp_path), Mapped())
