"""What the fuzzers call: for each kind of input valid data, the reader, and the errors that it declares."""

from __future__ import annotations

import base64
import gzip
import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from kafka.protocol.admin import DescribeConfigsResponse, DescribeGroupsResponse
from kafka.record._crc32c import crc
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jobs import plan as plan_job
from jobs.snapshot import clusters_of
from spark_assign.cli import settings_file
from spark_assign.cli.owners import check_owners
from spark_assign.comparison.what_if import parse_what_if
from spark_assign.connect import connect_protocol
from spark_assign.history.kernel import facts, log_segments, redact
from spark_assign.history.kernel.build_history import build_tables
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.sources.auth import properties
from spark_assign.sources.auth import settings as client_settings
from spark_assign.sources.auth import tls as client_tls
from spark_assign.sources.connect import cluster_snapshot, rest
from spark_assign.sources.connect.http_settings import HttpSettings
from spark_assign.sources.files.declared_changes import Mapped, read_changes
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import describe_text, group_description, groups
from spark_assign.sources.kafka.connection import null_field
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.stores import local_tables
from spark_assign.stores import targets as stored_tables
from spark_assign.stores.local_text import read_csv_file, read_header, read_json_document, read_json_file
from spark_assign.stores.locations import FileFaults, UnreadableFileError
from spark_assign.streams.topology import read_topology
from spark_assign.tables import history as history_tables
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.wire import consumer_protocol, describe_groups, streams_protocol
from spark_assign.wire.group_records import read_key, read_value
from spark_assign.wire.reader import WireError
from spark_assign.wire.segment_records import NAMES, Record
from spark_assign.wire.topic_regex import TopicRegexError, topic_matcher
from tests.unit import connect_stub, history_log
from tests.unit import test_describe_text as pasted_text
from tests.unit import test_snapshot_share_streams as recorded
from tests.unit.test_log_segment import RECORDS, batch_of, committed, files_of, messages_of, rows_of

TESTS = Path(__file__).parents[1]
CONF = TESTS.parent / "conf"


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        read: gets data, and an empty folder; returns texts that a person could see.
        seeds: returns valid data.
        errors: what it may raise.
        is_trusted: whether the user has written the data, so that a line end in it fakes nothing.
    """

    read: Callable[[bytes, Path], Sequence[str] | None]
    seeds: Callable[[], list[bytes]]
    errors: tuple[type[Exception], ...] = ()
    is_trusted: bool = False


def lines_of(file: Path) -> list[dict[str, Any]]:
    """The rows of a recorded file."""
    return [json.loads(line) for line in gzip.open(file, "rt", encoding="utf-8")]


# --- bytes of members ---------------------------------------------------------------------------------------------


@cache
def member_bytes() -> list[bytes]:
    """Subscriptions and assignments of consumers, Streams threads, and Connect workers."""
    wire = [base64.b64decode(r["bytes"]) for r in lines_of(TESTS / "golden" / "wire.jsonl.gz")[::5] if "bytes" in r]
    rows = lines_of(TESTS / "unit" / "streams_user_data.jsonl.gz")[::10]
    streams = [base64.b64decode(row[name]) for row in rows for name in ("subscription", "assignment") if row.get(name)]
    return [*wire, *streams, *{data for *_, data in sample_members()}]


def sample_members() -> Iterator[tuple[str, str, bytes]]:
    """What members of the sample history sent: protocol type, protocol, bytes."""
    for row in pq.read_table(CONF / "sample-history" / "records.parquet").to_pylist():
        with suppress(WireError):
            key = read_key(row["key"])
            if key.name == "GroupMetadata" and row["value"]:
                value = read_value(key.type, row["value"]).fields
                for member in value["members"]:
                    yield value["protocolType"], value["protocol"], member["subscription"]
                    yield value["protocolType"], value["protocol"], member["assignment"]


def read_member_bytes(data: bytes, _: Path) -> None:
    """Reads bytes as every protocol."""
    for read in (
        *(consumer_protocol.subscription, consumer_protocol.assignment, consumer_protocol.assigned),
        *(streams_protocol.subscription, streams_protocol.assignment),
        *(connect_protocol.read_worker_state, connect_protocol.read_assignment),
    ):
        with suppress(WireError):
            read(data)
    with suppress(WireError):
        sent = consumer_protocol.subscription_as_sent(data)
        for assignor in ("range", "sticky", "cooperative-sticky", "stream"):
            consumer_protocol.user_data_generation(sent, assignor)


# --- responses of brokers -----------------------------------------------------------------------------------------

_TOPICS = {"uploads": 5, "clicks": 3, "users": 1, "orders": 4, "a.b": 2}
_REQUESTS = {
    b"C": ("classic", DescribeGroupsResponse, 4),
    b"N": ("consumer", describe_groups.ConsumerGroupDescribeResponse, 1),
    b"H": ("share", describe_groups.ShareGroupDescribeResponse, 1),
    b"S": ("streams", describe_groups.StreamsGroupDescribeResponse, 1),
    b"O": ("share", describe_groups.DescribeShareGroupOffsetsResponse, 1),
    b"R": ("streams", DescribeConfigsResponse, 4),
}


def responses() -> list[bytes]:
    """One response of each kind, after a letter for the kind."""
    described = DescribeGroupsResponse.DescribedGroup
    found = []
    for kind, protocol, data in [*sample_members()][::60]:
        names = {"member_id": "m-1", "group_instance_id": None, "client_id": "c", "client_host": "/h"}
        member = described.DescribedGroupMember(**names, member_metadata=data, member_assignment=data)
        head = {"error_code": 0, "group_id": "g", "group_state": "Stable", "protocol_type": kind}
        group = described(**head, protocol_data=protocol, members=[member], authorized_operations=set())
        found.append(b"C" + bytes(DescribeGroupsResponse(throttle_time_ms=0, groups=[group]).encode(version=4)))
    described = describe_groups.ConsumerGroupDescribeResponse.DescribedGroup
    assignment = described.Member.Assignment(topic_partitions=[])
    names = {"member_id": "m", "instance_id": "i", "rack_id": "r", "client_id": "c", "client_host": "/h"}
    topics = {"subscribed_topic_names": ["orders"], "subscribed_topic_regex": "or.*|[a-b]\\.b+"}
    member = described.Member(
        **names, **topics, member_epoch=3, assignment=assignment, target_assignment=assignment, member_type=1
    )
    head = {
        "error_code": 0,
        "error_message": None,
        "group_id": "g",
        "group_state": "Stable",
        "assignor_name": "uniform",
    }
    group = described(**head, group_epoch=3, assignment_epoch=3, members=[member, member], authorized_operations=0)
    response = describe_groups.ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=[group])
    found.append(b"N" + bytes(response.encode(version=1)))
    config = DescribeConfigsResponse.DescribeConfigsResult
    value = config.DescribeConfigsResourceResult(
        name="streams.num.standby.replicas", value="1", read_only=False, config_source=1, is_sensitive=False,
        synonyms=[], config_type=1, documentation=None,
    )  # fmt: skip
    result = config(error_code=0, error_message=None, resource_type=32, resource_name="app", configs=[value])
    found.append(b"R" + bytes(DescribeConfigsResponse(throttle_time_ms=0, results=[result]).encode(version=4)))
    return [*found, b"H" + recorded.SHARE, b"O" + recorded.STARTS, b"S" + recorded.STREAMS_1]


def read_response(data: bytes, _: Path) -> list[str]:
    """Adds the rows of the described groups to a snapshot, as it does with any response that can be decoded."""
    kind, response_type, version = _REQUESTS.get(data[:1], _REQUESTS[b"C"])
    try:
        response = response_type.decode(data[1:], version=version)
        assert null_field(response) is None, "the connection refuses a null"
    except Exception as error:  # which the connection takes for the response
        response = error

    class Broker:
        def send_all(self, requests: Sequence[Any], _: object = None) -> list[Any]:
            return [response for _ in requests]

        def send_any(self, _: Any) -> Any:
            if isinstance(response, Exception) or response_type is not DescribeConfigsResponse:
                return DescribeConfigsResponse(throttle_time_ms=0, results=[])
            return response

        def brokers(self) -> list[int]:
            return [1]

    if response_type is DescribeConfigsResponse:
        group_description.standby_replicas(Broker(), ["app"], lambda _: None)
        return []
    rows, names = SnapshotRows("c"), ("g", "app", "gone", "encoders", "secret")
    listed = {name: groups.ListedGroup(name, 1, kind, "Stable") for name in names}
    texts: list[str] = []
    with patch.object(groups, "ATTEMPTS", 1):
        if response_type is describe_groups.DescribeShareGroupOffsetsResponse:
            groups.share_starts(Broker(), listed, rows, texts.append)
        else:
            groups.describe(Broker(), listed, _TOPICS, rows, texts.append)
    return [*texts, *rows.tables()["undescribed"]["error"].to_pylist()]


# --- records ------------------------------------------------------------------------------------------------------

_RECORD, _VALUE = b"\xfe\xfdR", b"\xfe\xfdV"


def sample_records() -> list[bytes]:
    """Sequences of records of a history."""
    rows = pq.read_table(CONF / "sample-history" / "records.parquet").to_pylist()
    pairs = [row["key"] + (_VALUE + row["value"] if row["value"] is not None else b"") for row in rows]
    return [_RECORD.join(pairs[start : start + 8]) for start in range(0, 2_000, 90)]


def read_group_records(data: bytes, _: Path) -> list[str]:
    """Redacts records, and makes a history and a replay of them."""
    pairs = [each.partition(_VALUE) for each in data.split(_RECORD)]
    for key, _, value in pairs:
        with suppress(WireError):
            read_value(read_key(key).type, value)
    size = len(pairs)
    keys, values = [key for key, *_ in pairs], [value if mark else None for _, mark, value in pairs]
    columns = [["c"] * size, [0] * size, list(range(size)), [0] * size, keys, values]
    arrays = [pa.array(column, each.type) for column, each in zip(columns, _STORED, strict=True)]
    redact.redact_records(pa.RecordBatch.from_arrays(arrays, schema=_STORED), hosts=True, metadata=True)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, facts.RECORDS, strict=True)]
    found = facts.reduce_records(pa.Table.from_arrays(arrays, schema=facts.RECORDS), 1_000)
    tables = [*build_tables(found, HistoryThresholds(), history_log.SCHEMA)]
    return [row["detail"] for table in tables for row in table.to_pylist() if row["detail"]]


_STORED = to_arrow_schema(history_tables.RECORDS)


def segments() -> list[bytes]:
    """Segments with batches of every format and compression, and with the records of groups."""
    rows = pq.read_table(CONF / "sample-history" / "records.parquet").to_pylist()[:6]
    records = [Record(number, 1_700_000_000_000, row["key"], row["value"]) for number, row in enumerate(rows)]
    later = [[each._replace(offset=each.offset + 10 * number) for each in RECORDS] for number in range(5)]
    parts = [batch_of(batch, codec) for batch, codec in zip(later, NAMES, strict=True)]
    old = [messages_of([RECORDS[0]._replace(offset=1)], magic, codec) for magic in (0, 1) for codec in (0, 1)]
    return [b"".join(parts), *(part + b"C" for part in parts), *old, batch_of(records, "zstd") + b"C"]


def read_segment(data: bytes, _: Path) -> list[str]:
    """Reads a segment; where its last byte is C, with the right checksum of its first batch."""
    if data[-1:] == b"C" and len(data) > 61:
        changed = bytearray(data[:-1])
        struct.pack_into(">i", changed, 8, len(changed) - 12)
        struct.pack_into(">I", changed, 17, crc(bytes(changed[21:])))
        data = bytes(changed)
    *_, damage = log_segments.read_fetched(data, 0, 1 << 62, [(0, 1)])
    committed([data])
    texts = [text for row in rows_of(log_segments.find_damage(files_of([data]), "eu")) for text in row]
    return [text for text in (*texts, damage) if isinstance(text, str)]


# --- text and settings --------------------------------------------------------------------------------------------


def pasted() -> list[bytes]:
    """Output of Kafka's tools, topics before groups."""
    named = (pasted_text.GROUPS, pasted_text.MEMBERS, pasted_text.STATE)
    return [f"{pasted_text.TOPICS}\f{text}".encode() for text in named]


def read_pasted(data: bytes, folder: Path) -> None:
    """Reads pasted text, and writes its tables."""
    topics, _, described = data.partition(b"\f")
    (folder / "topics").write_bytes(topics)
    (folder / "groups").write_bytes(described)
    describe_text.read([folder / "topics"], [folder / "groups"], "c")


_TOPOLOGY = b"""Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [clicks, users])
      --> KSTREAM-AGGREGATE-0000000002
    Processor: KSTREAM-AGGREGATE-0000000002 (stores: [counts])
      --> none
   Sub-topology: 1 for global store (will not generate tasks)
"""


def read_topologies(data: bytes, _: Path) -> None:
    """Reads the text of a topology."""
    read_topology(data.decode("utf-8", "surrogateescape"), "app", ["clicks"])


_SETTINGS = b"""assignor = "configured"
top = 3
what_if = ["leave:*:1", "add:orders:3"]
group_assignor = [{pattern = "a*", assignor = "range"}]
[fleet]
location = "./fleet"
format = "csv"
[fleet.options]
header = true
[output]
location = "s3://bucket/out"
"""
_CLUSTERS = b"""[clusters.eu]
bootstrap_server = "kafka:9092"
group = ["a*", "b"]
[clusters.us]
connect_url = ["http://connect:8083"]
connect_attempts = 3
[[owners]]
team = "t"
group = "a*"
"""


def read_settings(data: bytes, folder: Path) -> None:
    """Reads settings as those of a plan, of clusters, and of owners."""
    file = folder / "x.toml"
    file.write_bytes(data)
    errors = []
    for read in (
        lambda: settings_file.defaults(file, plan_job.main),
        lambda: clusters_of(file),
        lambda: check_owners(str(file)),
    ):
        try:
            read()
        except ConfigError as error:
            errors.append(error)
    if errors:
        raise ConfigError(max(map(str, errors), key=len))


_PROPERTIES = (
    b"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nrequest.timeout.ms=1000\n"
    b"sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
    b'  username="u" password="p";\nssl.truststore.type=PEM\n',
    b"security.protocol = SSL\nssl.enabled.protocols=TLSv1.2,TLSv1.3\nssl.keystore.location=/nowhere\n",
    b"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.login.retry.backoff.ms=5\n"
    b"sasl.oauthbearer.token.endpoint.url=https://t/\nsasl.login.callback.handler.class=org.apache.kafka.common."
    b"security.oauthbearer.OAuthBearerLoginCallbackHandler\nsasl.login.connect.timeout.ms=100\nsasl.jaas.config="
    b"org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId='a' clientSecret='b' ;\n",
    b"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=-----BEGIN CERTIFICATE-----\\n"
    b"MIIBAA==\\n-----END CERTIFICATE-----\nmetadata.max.age.ms=3\n",
)


def read_properties(data: bytes, folder: Path) -> None:
    """Reads the properties of a client."""
    file = folder / "client.properties"
    file.write_bytes(data)
    client_settings.settings(properties.read(file))


def stores() -> list[bytes]:
    """Java key stores."""
    found = json.loads((TESTS / "unit" / "jks_stores.json").read_text())
    return [base64.b64decode(text) for name, text in found.items() if name != "made_by" and isinstance(text, str)]


def read_store(data: bytes, folder: Path) -> None:
    """Opens a key store."""
    file = folder / "store"
    file.write_bytes(data)
    for kind in ("JKS", "PKCS12", "PEM"):
        names = {"location": str(file), "password": "changeit", "type": kind}
        with suppress(ConfigError):
            keys = {f"ssl.{s}.{name}": value for s in ("truststore", "keystore") for name, value in names.items()}
            client_tls.context(client_tls.tls(keys))


def read_regex(data: bytes, _: Path) -> None:
    """Evaluates an expression of a member."""
    matches = topic_matcher(data.decode("utf-8", "surrogateescape"))
    for name in ("orders", "a" * 249):
        matches(name)


_WHAT_IF = (b"leave:*:1", b"x=add:orders:3", b"as-is", b"rate:a*:1.5")


def read_what_if(data: bytes, _: Path) -> None:
    """Reads a what-if change."""
    parse_what_if(data.decode("utf-8", "surrogateescape"))


_DECLARED = (
    b"kind: KafkaTopic\nmetadata: {name: &a orders, labels: {strimzi.io/cluster: *a}}\nspec: {partitions: 3}\n---\n"
    b"kind: Deployment\nmetadata: {name: a, annotations: {spark-assign/group: g}}\nspec: {replicas: 1:1.}\n",
    b'{"format_version": "1.2", "planned_values": {"root_module": {"resources": [{"type": "kafka_topic", '
    b'"address": "x", "values": {"name": "\\u0074", "partitions": 6, "x": [NaN, 1e9]}}]}}}',
    b"#\ngroup.id=g\\u0041\npartition.assignment.strategy=range,sticky\nsession.timeout.ms=45000\n",
)


def read_declared(data: bytes, folder: Path) -> list[str]:
    """Reads the changes of a pull request; a comment begins the properties of a client."""
    suffix = {b"{": "json", b"#": "properties"}.get(data[:1], "yaml")
    old, new = folder / "old", folder / f"new-{suffix}"
    for each in (old, new):
        each.mkdir(exist_ok=True)
    (new / f"x.{suffix}").write_bytes(data)
    changes, notes = read_changes(str(old), str(new), Mapped())
    for change in changes:
        change.name.encode()
    return notes


# --- tables -------------------------------------------------------------------------------------------------------

SCHEMA = StructType(
    [
        StructField("name", StringType()),
        StructField("count", IntegerType()),
        StructField("size", LongType()),
        StructField("replicas", ArrayType(IntegerType())),
        StructField("topics", ArrayType(StringType())),
        StructField("rate", DoubleType()),
        StructField("is_internal", BooleanType()),
        StructField("at", TimestampType()),
        StructField("inner", StructType([StructField("a", ArrayType(StringType())), StructField("b", IntegerType())])),
    ]
)
FLAT = StructType(SCHEMA.fields[:-1])
_ROWS = [
    {"name": "g", "count": 3, "size": 1 << 40, "replicas": [1, 2], "topics": ["a", "b,c"], "rate": 1.5}
    | {"is_internal": True, "at": "2026-01-02 03:04:05", "inner": {"a": ["x"], "b": 2}},
    {"name": None, "count": None, "size": 0, "replicas": [], "topics": [], "rate": 1e300, "is_internal": False}
    | {"at": "2026-01-02T03:04:05.123Z", "inner": None},
]
_CSV = (
    b"name,count,size,replicas,topics,rate,is_internal,at,other\n"
    b'g,3,1099511627776,"[1,2]","[""a"", ""b,c""]",1.5,true,2026-01-02 03:04:05,x\n'
    b'"a ""quoted""\nname",-1,0,"1,2",,NaN,FALSE,2026-01-02T03:04:05.123Z,\n'
)


def jsons() -> list[bytes]:
    """JSON lines, and a document."""
    return ["\n".join(map(json.dumps, _ROWS)).encode(), json.dumps(_ROWS, indent=1).encode(), gzip.compress(b"{}\n")]


def parquets() -> list[bytes]:
    """Parquet files."""
    found = []
    columns = {"name": ["g", "h"] * 20, "count": [1, None] * 20, "topics": [["a"], ["b", None]] * 20}
    for options in (
        {"compression": "none"},
        {"compression": "snappy", "row_group_size": 8},
        {"compression": "zstd", "data_page_version": "2.0", "write_page_index": True},
        {"use_dictionary": False, "column_encoding": {"name": "DELTA_BYTE_ARRAY", "count": "DELTA_BINARY_PACKED"}},
    ):
        sink = io.BytesIO()
        pq.write_table(pa.table(columns), sink, **options)
        found.append(sink.getvalue())
    return found


def _read_table(read: Callable[[FileFaults], Any]) -> None:
    """Raises the faults of a table as a command does."""
    faults = FileFaults()
    try:
        read(faults)
    except UnreadableFileError as error:
        faults.add_file("t", "f", error.problem, error.remedy)
    faults.verify()


def read_csv(data: bytes, folder: Path) -> None:
    """Reads a csv file, or a compressed one."""
    file = str(folder / ("t.csv.gz" if data[:2] == b"\x1f\x8b" else "t.csv"))
    Path(file).write_bytes(data)
    _read_table(lambda faults: list(read_csv_file("t", file, read_header(file), FLAT, faults)))


def read_json(data: bytes, folder: Path) -> None:
    """Reads JSON lines, and a JSON document."""
    file = str(folder / ("t.json.gz" if data[:2] == b"\x1f\x8b" else "t.json"))
    Path(file).write_bytes(data)
    with suppress(SourceError):
        _read_table(lambda faults: list(read_json_document("t", file, SCHEMA, faults)))
    _read_table(lambda faults: list(read_json_file("t", file, SCHEMA, faults)))


def read_parquet(data: bytes, folder: Path) -> None:
    """Reads a Parquet file as the embedded engine gets it, and as a table of a run."""
    file = folder / "t.parquet"
    file.write_bytes(data)
    stored_tables.has_no_null(folder, ["name", "topics"])
    stored_tables.count_rows(folder)
    with (
        patch.object(local_tables, "is_embedded", lambda _: True),
        patch.object(local_tables, "dataframe_of", lambda _, table, __: table),
    ):
        _read_table(lambda faults: local_tables.read_parquet(SimpleNamespace(), "t", [str(file)], faults))


# --- REST ---------------------------------------------------------------------------------------------------------

_PATHS = ("/", "/connectors", connect_stub.EXPANDED, "/connectors/files", "/connectors/files/tasks")
_FILES = connect_stub.connector("files", {None: "w1:8083", 0: "w1:8083", 1: "w2:8083 FAILED"})
_BREAK = b"\f"


def rest_answers() -> list[bytes]:
    """The answers of a Connect cluster, one after the other."""
    good = connect_stub.cluster({"files": _FILES})
    expanded = [json.dumps(good.get(path, {})).encode() for path in _PATHS]
    plain = [json.dumps(each).encode() for each in (connect_stub.ROOT, ["files"], ["files"], _FILES["info"], [])]
    return [_BREAK.join(expanded), _BREAK.join([*plain, json.dumps(_FILES["status"]).encode()])]


def read_rest(data: bytes, _: Path) -> list[str]:
    """Takes a snapshot of a cluster that gives such answers, beside one that can't be read."""
    answers = data.split(_BREAK)

    def once(http: rest.ConnectHttp, url: str) -> bytes:
        path = url.removeprefix("http://hostile:1")
        number = _PATHS.index(path) if path in _PATHS else 5
        return answers[number] if number < len(answers) else b"{}"

    with patch.object(rest.ConnectHttp, "_once", once):
        (target,) = cluster_snapshot.parse_targets(["hostile=http://hostile:1"])
        found = cluster_snapshot.snapshot([target], http=HttpSettings(attempts=1))
    return found.tables["unreadable"]["error"].to_pylist()


def constant(*data: bytes) -> Callable[[], list[bytes]]:
    """Returns a function that returns the data."""
    return lambda: list(data)


TARGETS: Mapping[str, Target] = {
    "member-bytes": Target(read_member_bytes, member_bytes),
    "responses": Target(read_response, responses),
    "group-records": Target(read_group_records, sample_records),
    "segments": Target(read_segment, segments),
    "pasted-text": Target(read_pasted, pasted, (SourceError,)),
    "topologies": Target(read_topologies, constant(_TOPOLOGY), (ConfigError,)),
    "settings": Target(read_settings, constant(_SETTINGS, _CLUSTERS), (ConfigError,), is_trusted=True),
    "properties": Target(read_properties, constant(*_PROPERTIES), (ConfigError,), is_trusted=True),
    "key-stores": Target(read_store, stores, (ConfigError,)),
    "regexes": Target(
        read_regex, constant(b"orders", b"(a|b)+[[:alpha:]]{2,50}\\pN?", b"\\Qa\\E.*\\z"), (TopicRegexError,)
    ),
    "what-if": Target(read_what_if, constant(*_WHAT_IF), (ConfigError,), is_trusted=True),
    "changes": Target(read_declared, constant(*_DECLARED), (ConfigError,)),
    "csv": Target(read_csv, constant(_CSV, gzip.compress(_CSV)), (SourceError,)),
    "json": Target(read_json, jsons, (SourceError,)),
    "parquet": Target(read_parquet, parquets, (SourceError,)),
    "rest": Target(read_rest, rest_answers, (SourceError,)),
}
