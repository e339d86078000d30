"""Reads what two versions of files declare about Kafka, and returns the differences.

- Manifests of Kubernetes (`.yaml`, `.yml`, `.json`): Strimzi's KafkaTopic, KafkaConnector, and KafkaNodePool; replicas
  of Deployments and StatefulSets; also as items of a List.
- `terraform show -json` (`.json`): topics of the providers Mongey/kafka, confluent, aws, and aiven; the planned values
  of a plan, or the values of a state.
- Java properties (`.properties`): assignor, protocol, and timeouts of the clients of a group.

Only what differs counts: a file that is equal in both versions changes nothing, and isn't an error but a note if it
can't be read. The consumer group of a Deployment is in its label or annotation `spark-assign/group`, or in a mapping
file.

Strangers write these files. Size, depth, aliases and the number of files are bounded before anything is expanded.
Nothing of a file is executed, links aren't followed, and values that can be secrets are never repeated.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS
from spark_assign.assignors.server import SERVER_ASSIGNORS, SERVER_RANGE, UNIFORM
from spark_assign.comparison.declared_changes import MAX_NAME, UNSET, DeclaredChange, Kind
from spark_assign.comparison.what_if import MAX_COUNT
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.sources.auth import properties
from spark_assign.stores.locations import MAX_FILE_BYTES, problem_of
from spark_assign.tables.errors import ConfigError, count
from spark_assign.tables.quoting import comment_text
from spark_assign.tables.quoting import markdown_code as code

MAX_FILES, MAX_BYTES, MAX_NODES, MAX_DEPTH, MAX_SCALAR = 5_000, 32 << 20, 500_000, 64, 1_000
"""Maximum number of files, of bytes of a file, of values of a YAML file with each alias expanded, of nesting, and of
characters of a number."""
MAX_ALL, MAX_DIRECTIVES = 4_000_000, 100
"""Maximum number of values of all files of both versions, and of lines of a YAML file with `%`, for which libyaml takes
quadratic time."""

GROUP_LABEL, CLUSTER_LABEL = "spark-assign/group", "spark-assign/cluster"
"""Labels or annotations of a Deployment or StatefulSet: the consumer group of its replicas, and the cluster."""

_WORKLOAD = "workload"
_KINDS = {
    "KafkaTopic": (Kind.TOPIC, "partitions", "replicas"),
    "KafkaConnector": (Kind.CONNECTOR, "tasksMax"),
    "KafkaNodePool": (Kind.POOL, "replicas"),
    "Deployment": (_WORKLOAD, "replicas"),
    "StatefulSet": (_WORKLOAD, "replicas"),
}
"""What each kind of resource declares, and the settings of `spec` that are read."""

_TERRAFORM = {
    "kafka_topic": ("name", "partitions", "replication_factor", ""),
    "confluent_kafka_topic": ("topic_name", "partitions_count", "", "kafka_cluster"),
    "aws_msk_topic": ("name", "partition_count", "replication_factor", "cluster_arn"),
    "aiven_kafka_topic": ("topic_name", "partitions", "replication", "service_name"),
}
"""Attributes of each type of topic: name, partitions, replicas, and the cluster."""

_PROTOCOL = "group.protocol"
_ASSIGNOR = ("partition.assignment.strategy", _PROTOCOL, "group.remote.assignor")
_TIMES = ("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms")
_IDS = ("group.id", "application.id", "client.id", "group.instance.id")
"""Client properties of which the members of a group get other IDs, or another group."""
_CONNECTOR_GROUP = "consumer.override.group.id"
_TRIMMED = "".join(map(chr, range(33)))
"""What Kafka removes from both ends of a value (Java's `String.trim`)."""
_PLAIN = re.compile(r"[A-Za-z0-9._$, -]{0,1000}")
_CORRECT = "Correct it; render templates first, for example with helm template"


class Consumer(BaseModel):
    """An entry of the mapping file: the group of a workload or of a properties file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    group: str
    cluster: str | None = None
    members_per_replica: int | None = Field(None, ge=1, le=10_000)


class Mapped(BaseModel):
    """The mapping file: the fleet's name of each cluster by its name in the files; consumers by `NAME` or
    `NAMESPACE/NAME` of a workload, or by the path of a properties file."""

    model_config = ConfigDict(extra="forbid", strict=True)
    clusters: dict[str, str] = {}
    consumers: dict[str, Consumer] = {}


@dataclass(frozen=True)
class _Declared:
    """What a file declares of one thing: its settings, file and line, lines of settings, group and cluster, the IDs
    that decide about members (`_IDS`; of Kafka Streams, also the protocol), and file and address of a resource of
    Terraform."""

    values: Mapping[str, Any]
    where: str
    lines: Mapping[str, int] = field(default_factory=dict)
    group: str = ""
    cluster: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)
    resource: str = ""

    def place(self, setting: str) -> str:
        line = self.lines.get(setting)
        return f"{self.where.rpartition(':')[0]}:{line}" if line else self.where

    @property
    def content(self) -> tuple[Any, ...]:
        return self.values, self.group, self.cluster, self.ids


_Key = tuple[str, str, str]
"""Kind, cluster or namespace as the file names it, and name."""

_Found = dict[_Key, list[_Declared]]
_Read = Iterator[tuple[_Key, _Declared]]


def read_changes(old: str, new: str, mapped: Mapped) -> tuple[list[DeclaredChange], list[str]]:
    """Returns the changes between two versions of a file or folder, and what was not read, as Markdown.

    Args:
        old, new: files or folders. Files of folders are paired by their relative paths.
        mapped: the mapping file.

    Raises:
        ConfigError: a file that differs can't be read, isn't valid, or declares the same thing twice with different
            values; there are too many files. The message has file and line.
    """
    sides: tuple[_Found, _Found] = ({}, {})
    files, notes, faulty = (_files(old), _files(new)), list[str](), dict[str, None]()
    values = _Values()
    for name in sorted({*files[0], *files[1]}):
        (old_file, new_file), shown = (each.get(name) for each in files), comment_text(name or Path(new).name)
        contents = [None if path is None else _content(path) for path in (old_file, new_file)]
        is_equal = old_file is not None and new_file is not None and contents[0] == contents[1]
        is_equal = is_equal and filecmp.cmp(str(old_file), str(new_file), shallow=False)  # what is beyond the limit
        once = [(contents[0], sides)] if is_equal else zip(contents, [sides[:1], sides[1:]], strict=True)
        for content, having in once:
            try:
                read = () if content is None else _declarations(shown, content, values)
            except ConfigError:
                if not is_equal:
                    raise
                faulty[shown] = None
                continue
            if read is None and not is_equal:
                notes.append(f"{code(shown)} changed, but files of this kind aren't read.")
            for side in having:
                for key, declared in read or ():
                    side.setdefault(key, []).append(declared)
    if faulty:
        text = f"can't be read, the first is {code(next(iter(faulty)))}. Workloads of a group in them don't count."
        notes.append(f"{count(len(faulty), 'file')} without a change {text}")
    changes, unread = list(_group_changes(sides, mapped, notes)), dict[str, list[str]]()
    unnamed = [{each.resource for key in side if key[0] != Kind.TOPIC for each in side[key]} - {""} for side in sides]
    for key in sorted({*sides[0], *sides[1]}):
        found = [side.get(key, []) for side in sides]
        one = (found[0] or found[1])[0]
        if key[0] == Kind.TOPIC and not all(found) and one.resource in unnamed[bool(found[0])]:
            text = "its name isn't known in one of the versions, so what changes isn't known"
            notes.append(f"topic {code(key[2])} ({code(one.where)}): {text}.")
            continue
        if [each.content for each in found[0]] == [each.content for each in found[1]] or key[0] == _WORKLOAD:
            continue
        if key[0] in (Kind.TOPIC, Kind.CONNECTOR, Kind.POOL, Kind.CLIENT):
            changes += _changes(key, _one(key, found[0]), _one(key, found[1]), mapped, notes)
        else:
            pairs = zip_longest(*found)
            place = next(new or old for old, new in pairs if not (old and new and old.content == new.content))
            unread.setdefault(key[0], []).append(place.where)
    for kind, places in unread.items():
        notes.append(f"{code(kind)} isn't read: {count(len(places), 'change')}, the first at {code(places[0])}.")
    return changes, list(dict.fromkeys(notes))


def _files(location: str) -> dict[str, Path]:
    """Returns the regular files of a folder by relative path, without hidden ones; a file alone has an empty name."""
    root = Path(location)
    try:
        is_file, is_folder = root.is_file(), root.is_dir()
    except OSError as error:  # a name can be too long
        raise ConfigError(f"--changes {location}: can't be read: {problem_of(error)}.") from error
    if is_file:
        return {"": root}
    if not is_folder:
        raise ConfigError(f"--changes {location}: no such file or folder. For a version without files, give a folder.")

    def refuse(error: OSError) -> None:
        raise ConfigError(f"{error.filename}: can't be read: {error.strerror}.") from error

    found: dict[str, Path] = {}
    for folder, folders, names in os.walk(root, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(folder) / name for name in names if not name.startswith(".")]
        found |= {path.relative_to(root).as_posix(): path for path in paths if path.is_file() and not path.is_symlink()}
        if len(found) > MAX_FILES:
            raise ConfigError(f"--changes {location}: more than {MAX_FILES:,} files. Give the folder of the manifests.")
    return found


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}.") from error


class _Values:
    """Number of values that were read, each alias counted: of one file, and of all files of both versions."""

    def __init__(self) -> None:
        self.of_file = self.of_all = 0

    def add(self, name: str, line: int, depth: int = 0, number: int = 1) -> None:
        """Counts a value, or a file with `number` values. Raises ConfigError beyond the bounds."""
        self.of_file, self.of_all = self.of_file + 1, self.of_all + number
        if depth > MAX_DEPTH or self.of_file > MAX_NODES or self.of_all > MAX_ALL:
            values = f"{MAX_NODES:,} values" if self.of_file > MAX_NODES else f"{MAX_ALL:,} values in all files"
            limit = f"nested more than {MAX_DEPTH} deep" if depth > MAX_DEPTH else f"more than {values}"
            raise ConfigError(f"{name}:{line}: {limit}, counting each alias.")


def _declarations(name: str, content: bytes, values: _Values) -> list[tuple[_Key, _Declared]] | None:
    """Returns what a file declares; None if it isn't of a format that is read. Raises ConfigError."""
    found = _READERS.get(Path(name).suffix.lower())
    if found is None:
        return None
    reader, most = found
    if len(content) > most:
        raise ConfigError(f"{name}: more than {most:,} bytes. Compare only files about Kafka.")
    values.of_file = 0
    try:
        text = properties.decode(content) if reader is _client else content.decode("utf-8-sig")
        declarations = list(reader(name, text, values))
        for key, each in declarations:
            "".join((*key, each.group, each.cluster, *each.ids.values())).encode()
        return declarations
    except UnicodeEncodeError:
        raise ConfigError(f"{name}: a name has half of a surrogate pair, which isn't a character.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}:{content.count(10, 0, error.start) + 1}: isn't UTF-8 text.") from None
    except RecursionError:
        raise ConfigError(f"{name}: values are nested more than {MAX_DEPTH} deep.") from None


# --- YAML: documents of nodes, bounded, with lines ---------------------------------------------------------------


class _Fields(dict[str, Any]):
    """A mapping, with the line of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}

    def put(self, key: str, value: Any, name: str, line: int) -> None:
        """Adds a key. Raises ConfigError if it is there."""
        if key in self:
            raise ConfigError(f"{name}:{line}: the key is set twice: {key[:MAX_NAME]!r}. Keep one of them.")
        self[key], self.lines[key] = value, line

    def fields(self, key: str) -> _Fields:
        """Returns the mapping of a key; an empty one if there is none."""
        value = self.get(key)
        return value if isinstance(value, _Fields) else _Fields()

    def object(self, key: str, where: str) -> _Fields:
        """Returns the mapping of a key; an empty one if there is none. Raises ConfigError for any other value."""
        if not isinstance(self.get(key), _Fields | None):
            raise ConfigError(f"{where}: {key} isn't an object. Correct it, or write the file again.")
        return self.fields(key)

    def objects(self, key: str, where: str) -> list[_Fields]:
        """Returns the mappings in the list of a key; none if there is no list. Raises ConfigError for other values."""
        value = self.get(key)
        found = [] if value is None else value
        if not isinstance(found, list) or not all(isinstance(each, _Fields) for each in found):
            raise ConfigError(f"{where}: {key} isn't a list of objects. Correct it, or write the file again.")
        return found

    def text(self, key: str, where: str) -> str:
        """Returns the text of a key; an empty one if there is none. Raises ConfigError for a list or mapping."""
        value = self.get(key)
        if isinstance(value, list | dict):
            raise ConfigError(f"{where}: {key} isn't a text.")
        return "" if value is None else str(value)


_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader, whose nodes are expanded within bounds."""

    def plain(self, node: yaml.Node, name: str, values: _Values, depth: int = 0) -> Any:
        """Returns the value of a node. An alias counts each time. Raises ConfigError beyond the bounds."""
        line = node.start_mark.line + 1
        values.add(name, line, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(each, name, values, depth + 1) for each in node.value]
        # A long number, which Python would parse for hours, stays a text, and so does 12:30, as in Kubernetes.
        if not isinstance(node, yaml.MappingNode):
            is_text = len(node.value) > MAX_SCALAR or (node.tag in _NUMBERS and ":" in node.value)
            try:
                return str(node.value) if is_text else self.construct_object(node)
            except (ValueError, LookupError, AttributeError, ArithmeticError):  # PyYAML's, for 2024-13-01, or !!bool x
                raise ConfigError(f"{name}:{line}: isn't valid YAML: the value isn't of its type.") from None
        fields = _Fields()
        for key, value in node.value:
            at = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                raise ConfigError(f"{name}:{at}: a key isn't a plain value, or merges a mapping. {_CORRECT}.")
            fields.put(str(key.value), self.plain(value, name, values, depth + 1), name, at)
        return fields


_DIRECTIVE = re.compile("(?:^|[\n\r\x85\u2028\u2029])%")


def _yaml(name: str, text: str, values: _Values) -> _Read:
    if next(islice(_DIRECTIVE.finditer(text), MAX_DIRECTIVES, None), None):
        raise ConfigError(f"{name}: more than {MAX_DIRECTIVES} lines start with %. {_CORRECT}.")
    try:
        depth = 0
        for event in yaml.parse(text, _Loader):  # before any node is made
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            values.add(name, event.start_mark.line + 1, depth)
        values.of_file, loader = 0, _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            yield from _manifest(f"{name}:{node.start_mark.line + 1}", loader.plain(node, name, values))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = text.count("\n", 0, getattr(error, "position", 0)) if mark is None else mark.line
        problem = str(getattr(error, "problem", None) or getattr(error, "reason", ""))[:MAX_NAME]
        raise ConfigError(f"{name}:{at + 1}: isn't valid YAML: {problem}. {_CORRECT}.") from None


def _manifest(where: str, document: Any) -> _Read:
    """Yields what a resource of Kubernetes declares."""
    if document is None:
        return
    if not isinstance(document, _Fields) or not isinstance(document.get("kind"), str):
        yield ("a document without kind", "", where), _Declared({"": document}, where)
        return
    kind, meta = document["kind"], document.fields("metadata")
    items = document.get("items", ...)
    if kind.endswith("List") and isinstance(items, list | None):  # of kubectl get, or of the API server
        for item in items or ():
            line = min(item.lines.values(), default=0) if isinstance(item, _Fields) else 0
            if isinstance(item, _Fields) and kind != "List":  # its items can lack a kind
                item.setdefault("kind", kind.removesuffix("List"))
            yield from _manifest(f"{where.rpartition(':')[0]}:{line}" if line else where, item)
        return
    if kind not in _KINDS:  # such as a Kustomization, which needs no name
        title, space = (str(meta.get(key) or "") for key in ("name", "namespace"))
        yield (kind, space, title or where.rpartition(":")[0]), _Declared({"": document}, where)
        return
    spec = document.object("spec", where)
    labels = {**meta.fields("labels"), **meta.fields("annotations")}
    title, space = meta.text("name", where), meta.text("namespace", where)
    if not title:
        raise ConfigError(f"{where}: the {kind[:MAX_NAME]} has no metadata.name.")
    declares, *settings = _KINDS[kind]
    shown = _Declared({}, where, spec.lines)
    values = {key: _count(shown.place(key), key, spec.get(key)) for key in settings}
    roles = spec.get("roles") if kind == "KafkaNodePool" else None
    is_connector = kind == "KafkaConnector"
    if (is_connector and spec.get("state") == "stopped") or (isinstance(roles, list) and "broker" not in roles):
        values = dict.fromkeys(values, 0)  # a connector without tasks, a pool without brokers
    cluster = str(labels.get(CLUSTER_LABEL if declares == _WORKLOAD else "strimzi.io/cluster") or "")
    if declares == _WORKLOAD:
        title, group = f"{space}/{title}".lstrip("/"), str(labels.get(GROUP_LABEL) or "")
        yield (_WORKLOAD, kind, title), _Declared(values, where, spec.lines, group, cluster)
    else:
        title = (spec.text("topicName", where) if kind == "KafkaTopic" else "") or title
        group = spec.fields("config").text(_CONNECTOR_GROUP, where) if is_connector else ""
        ids = {_CONNECTOR_GROUP: group} if group else {}
        yield (declares, cluster, title), _Declared(values, where, spec.lines, cluster=cluster, ids=ids)


def _count(where: str, key: str, value: Any) -> int | None:
    """Returns a whole number; a message doesn't repeat anything else."""
    value = 1 if value is None and key == "tasksMax" else value  # Kafka Connect: ConnectorConfig
    value = int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_COUNT else value
    least = int(key == "partitions")
    if value is not None and (type(value) is not int or not least <= value <= MAX_COUNT):
        raise ConfigError(f"{where}: {key} isn't a whole number from {least} to {MAX_COUNT:,}.")
    return value


# --- JSON: `terraform show -json`, or a manifest -----------------------------------------------------------------


def _json(name: str, text: str, values: _Values) -> _Read:
    def unique(pairs: list[tuple[str, Any]]) -> _Fields:
        fields = _Fields()
        for key, value in pairs:
            fields.put(key, value, name, 1)
        return fields

    values.add(name, 1, number=sum(map(text.count, "[{,")))  # before any value is made
    try:
        document = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name}:{error.lineno}: isn't valid JSON: {error.msg}.") from None
    except ValueError:
        raise ConfigError(f"{name}: isn't valid JSON: a number is too long.") from None
    if not isinstance(document, _Fields) or "kind" in document or "format_version" not in document:
        yield from _manifest(f"{name}:1", document)
        return
    version = document.text("format_version", name)
    if not re.match(r"[01]\.", version):
        raise ConfigError(
            f"{name}: format_version {version[:20]} isn't known. Use terraform show -json of Terraform 1."
        )
    planned = document.object("planned_values", name) or document.object("values", name)
    yield from _module(name, planned.object("root_module", name))


def _module(name: str, module: _Fields) -> _Read:
    """Yields the resources of a module and its child modules. Terraform's data sources declare nothing."""
    for resource in module.objects("resources", name):
        kind, address = resource.text("type", name), resource.text("address", name)
        where = f"{name}, {address[:MAX_NAME]}"
        values = resource.object("values", where)
        title, partitions, factor, home = _TERRAFORM.get(kind, ("", "", "", ""))
        if resource.get("mode", "managed") != "managed":
            continue
        if not isinstance(values.get(title), str):  # another kind, or a name that is known after apply
            unread = f"{kind} without a known name" if title else kind
            yield (unread, "", address), _Declared({"": values}, where, resource=f"{name}, {address}")
            continue
        counts = {"partitions": values.get(partitions), "replicas": values.get(factor)}
        block = next(iter(_mappings(values, home)), _Fields())
        cluster = block.text("id", where) or ("" if home in block else str(values.get(home) or ""))
        read = {key: _count(where, key, value) for key, value in counts.items()}
        declared = _Declared(read, where, cluster=cluster, resource=f"{name}, {address}")
        yield (Kind.TOPIC, cluster, values[title]), declared
    for child in module.objects("child_modules", name):
        yield from _module(name, child)


def _mappings(fields: _Fields, key: str) -> list[_Fields]:
    values = fields.get(key)
    return [each for each in values if isinstance(each, _Fields)] if isinstance(values, list) else []


# --- Java properties: settings of a group's clients ----------------------------------------------------------------


def _client(name: str, text: str, _: _Values) -> _Read:
    """Yields the settings of a client that decide about its group. All other values can be secrets, and stay unread."""
    try:
        found = properties.parse(text, name)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    rows = re.split("\r\n|[\r\n]", text)
    keys = [key for key in (*_ASSIGNOR, *_TIMES) if key in found]
    lines = {key: next((n for n, row in enumerate(rows, 1) if row.lstrip().startswith(key)), 1) for key in keys}
    given = {key: str.__str__(found[key]).strip() for key in keys}
    for key, value in given.items():
        is_time = re.fullmatch(r"[0-9]{1,10}", value) and int(value) < 1 << 31
        if not _PLAIN.fullmatch(value) or (key in _TIMES and not is_time):
            expected = "a number of milliseconds" if key in _TIMES else "a name"
            raise ConfigError(f"{name}:{lines[key]}: {key} isn't {expected}.")
    ids = {key: str.__str__(found[key]).strip(_TRIMMED) for key in _IDS if key in found}
    protocol, is_streams = given.get(_PROTOCOL, "classic").lower(), "application.id" in ids
    if protocol not in ("classic", "consumer", *(["streams"] if is_streams else [])):
        text = "isn't classic or consumer, nor streams with an application.id. Correct it, or remove it for classic"
        raise ConfigError(f"{name}:{lines[_PROTOCOL]}: {_PROTOCOL} {text}.")
    if given.get("group.remote.assignor") == "":
        text = "is empty. Name an assignor of the brokers, such as uniform, or remove the key"
        raise ConfigError(f"{name}:{lines['group.remote.assignor']}: group.remote.assignor {text}.")
    if is_streams:  # which has its own assignors
        given, ids = {**given, _PROTOCOL: "classic"}, {**ids, _PROTOCOL: protocol}
    times = {key: int(given[key]) if key in given else None for key in _TIMES}
    lines["assignor"] = next((lines[key] for key in keys if key in _ASSIGNOR), 1)
    values = {"assignor": _assignor(given), **times}
    yield (Kind.CLIENT, "", name), _Declared(values, f"{name}:1", lines, ids.get("group.id", ""), ids=ids)


def _assignor(given: Mapping[str, str]) -> str:
    """Returns the assignor that these settings choose (Kafka's ConsumerConfig): the first of the list counts.

    The name of an assignor of the other protocol is returned with its key, so that it isn't known.
    """
    if given.get(_PROTOCOL, "").lower() == "consumer":
        remote = given.get("group.remote.assignor", UNIFORM)
        is_other = remote in (*CLIENT_ASSIGNORS, SERVER_RANGE)
        return SERVER_RANGE if remote == "range" else f"group.remote.assignor={remote}" if is_other else remote
    names = {value: key for key, value in LIBRARIES["Java"].assignors.items()}
    first = given.get("partition.assignment.strategy", "range").split(",")[0].strip()
    return f"partition.assignment.strategy={first}" if first in SERVER_ASSIGNORS else names.get(first, first)


_READERS: Mapping[str, tuple[Callable[[str, str, _Values], _Read], int]]
"""The function that reads files with this suffix, and the maximum number of bytes of such a file."""
_READERS = {
    **dict.fromkeys((".yaml", ".yml"), (_yaml, MAX_BYTES)),
    ".json": (_json, MAX_BYTES),
    ".properties": (_client, MAX_FILE_BYTES),
}


# --- differences -------------------------------------------------------------------------------------------------


def _one(key: _Key, found: Sequence[_Declared]) -> _Declared | None:
    """Returns what one version declares of a thing; None if nothing.

    Raises:
        ConfigError: several places declare it differently.
    """
    if any(each.content != found[0].content for each in found):
        places = " and ".join(each.where for each in found[:2])
        what = f"{key[0]} {key[2][:MAX_NAME]!r}"
        raise ConfigError(f"{places} declare the {what} differently. Compare rendered files (kustomize build).")
    return found[0] if found else None


def _changes(
    key: _Key, before: _Declared | None, after: _Declared | None, mapped: Mapped, notes: list[str]
) -> Iterator[DeclaredChange]:
    """Yields the settings of a thing that differ."""
    one = after or before
    kind, _, name = key
    assert one is not None
    cluster = one.cluster or None
    consumer = mapped.consumers.get(name) if kind == Kind.CLIENT else None
    ids = [each.ids for each in (before, after) if each]
    for setting in sorted({*ids[0], *ids[-1]}):
        values = [code(each[setting]) if setting in each else "nothing" for each in (ids[0], ids[-1])]
        if ids[0].get(setting) != ids[-1].get(setting):
            text = "So members leave their group, or get other IDs, which isn't planned"
            text = "So members join by another protocol, which isn't planned" if setting == _PROTOCOL else text
            notes.append(f"{code(name)}: {code(setting)} changes from {' to '.join(values)}. {text}.")
            if setting in ("group.id", "application.id") and not consumer:
                return
    if kind == Kind.CLIENT:
        title, name = name, consumer.group if consumer else one.group
        cluster = consumer.cluster if consumer else None
        if not name or before is None or after is None:
            problem = "its group isn't known: map the file" if not name else "new and removed files aren't compared"
            notes.append(f"{code(title)} changed, but {problem}.")
            return
    for setting in one.values:
        had, has = (None if each is None else each.values[setting] for each in (before, after))
        if kind == Kind.TOPIC and setting == "partitions":  # None: there is no such topic
            had, has = (UNSET if each and not n else n for each, n in ((before, had), (after, has)))
        if had != has:
            yield DeclaredChange(Kind(kind), name, cluster, setting, had, has, one.place(setting))


def _group_changes(sides: tuple[_Found, _Found], mapped: Mapped, notes: list[str]) -> Iterator[DeclaredChange]:
    """Yields the changes of the replicas of groups: the sum over all workloads of a group, if one of them differs."""
    sums: dict[tuple[str, str], list[int]] = {}
    changed: dict[tuple[str, str], str] = {}
    weighted: set[tuple[str, str]] = set()
    unknown: dict[tuple[str, str], str] = {}
    for key in sorted({key for side in sides for key in side if key[0] == _WORKLOAD}):
        found = [side.get(key, []) for side in sides]
        is_changed = [each.content for each in found[0]] != [each.content for each in found[1]]
        consumer = mapped.consumers.get(key[2]) or mapped.consumers.get(key[2].rpartition("/")[2])
        what, is_known = f"{key[1]} {code(key[2])}", False
        ones = [_one(key, declared) if is_changed else next(iter(declared), None) for declared in found]
        named = [each for each in ones if each and each.group]
        if len(named) == 1 and None not in ones and not consumer:  # the label is new or removed, not the members
            notes.append(f"{what}: only one version has {code(GROUP_LABEL)}. Its group {code(named[0].group)} counts.")
            ones = [each and replace(each, group=named[0].group, cluster=named[0].cluster) for each in ones]
            is_changed = len({each.values["replicas"] for each in ones if each}) > 1
        for position, one in enumerate(ones):
            group = (consumer.group, consumer.cluster or "") if consumer else one and (one.group, one.cluster)
            if one is None or not group or not group[0]:
                continue
            is_known, replicas, weight = True, one.values["replicas"], consumer and consumer.members_per_replica
            if replicas is None:
                unknown[group] = f"{what}: `replicas` isn't set ({code(one.where)})"
            if weight:
                weighted.add(group)
            sums.setdefault(group, [0, 0])[position] += (replicas or 0) * (weight or 1)
            if is_changed:
                changed[group] = one.place("replicas")
        if is_changed and not is_known:
            notes.append(f"{what} changed, but its group isn't known: add the annotation `{GROUP_LABEL}`, or map it.")
    for group, where in sorted(changed.items()):
        if group in unknown:
            notes.append(f"{unknown[group]}, so what changes in group {code(group[0])} isn't known.")
            continue
        (before, after), per_replica = sums[group], 1 if group in weighted else None
        yield DeclaredChange(Kind.GROUP, group[0], group[1] or None, "replicas", before, after, where, per_replica)
