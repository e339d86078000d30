"""The commands that both engines run, and a process that runs them on the engine that the environment names.

python -m tests.spark.engine_commands INPUT FOLDER NUMBER_OF_FLEETS
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from spark_assign.tables.groups import INPUT_TABLES
from tests.golden import connect_rows, connect_tables, server_rows, share_rows, streams_rows
from tests.golden.tables import table_rows
from tests.golden.vectors import Row
from tests.kafka import random_groups, random_server_groups, random_streams
from tests.kafka.random_share_groups import ShareGroup
from tests.sizes import drawn
from tests.spark.fleets import written_as_json

CONF = Path(__file__).parents[2] / "conf"
ADVICE = "--capacity orders-*=150 --capacity *=500 --details orders-service"

IN_FULL = (
    *("plan, what if", "plan, loads", "plan, of the past", "simulate, compare", "balance", "diff, loads"),
    *("compare, drawn", "migrate, drawn", "advise, size", "advise, membership", "advise, zones"),
    *("history, stored", "migrate, cooperative", "daily"),
    *("groups, compare", "groups, migrate", "groups, advise", "no-rows, simulate", "lost-brokers, replicas reassign"),
)
"""Starts of the names of commands that take the same paths as others, and are left out by default."""

OF_THE_SAMPLE = {
    "plan": "plan --sample --assignor configured --output ./plans --run-id r",
    "plan, cooperative": "plan --sample --assignor cooperative-sticky --output ./plans --run-id cooperative",
    "plan, loads": f"plan --fleet {CONF}/sample-fleet --table loads={CONF}/sample-loads/loads.csv "
    "--assignor weighted-sticky --output ./plans --run-id loads",
    "plan, what if": "plan --sample --what-if join:search-indexer:2 --explain search-indexer catalog.products-4",
    "plan, details": f"plan --fleet {CONF}/sample-fleet --table loads={CONF}/sample-loads/loads.csv "
    "--assignor cooperative-sticky --details s*",
    "compare": "compare --sample --what-if less=leave:*:1 --output ./compared --run-id r",
    "history": "history --sample --commit-gap 3s --deploy-gap 20s --replay --without-hosts "
    "--output ./history --run-id r",
    "history, stored": "history --history ./history@r --details fraud-detection --as-of 2026-11-23T08:03:16Z "
    "--output-fleet ./past",
    "plan, of the past": "plan --fleet ./past --assignor configured --output ./plans --run-id past",
    "advise": f"advise --sample {ADVICE} --output ./advice --run-id r",
    "advise, size": f"advise size --sample {ADVICE} --keda --output ./advice --run-id size",
    "advise, membership": "advise membership --sample --details m* --output ./advice --run-id membership",
    "advise, zones": "advise zones --sample --details s* --output ./advice --run-id zones",
    "migrate": "migrate --sample --library Java --details * --output ./migrated --run-id r",
    "migrate, upgrade": "migrate to-release 3.9 --sample --leader-client *=Java@2.8 --details * --output ./migrated "
    "--run-id upgrade",
    "migrate, cooperative": "migrate to-cooperative shop-prod/orders-service --sample",
    "simulate": "simulate --sample --store-trace --output ./simulated --run-id r",
    "simulate, compare": "simulate --sample --compare --output ./simulated --run-id crash",
    "simulate, Connect": "simulate 90x10 --output ./simulated --run-id connect",
    "place": "replicas place --sample --output ./placed --run-id r",
    "reassign": "replicas reassign --sample --remove 3 "
    "--replication-factor *=2 --partitions-per-batch 50 --output ./reassigned --run-id r",
    "balance": f"replicas reassign --sample --table loads={CONF}/sample-loads/loads.csv "
    "--balance leader-in=0.05,in,count --output ./reassigned --run-id balanced",
    "check of replicas": "replicas check --sample --plan ./reassigned@r --output ./checked --run-id r",
    "operate": "replicas operate --sample --restart all --output ./operated --run-id r",
    "diff": "diff --before ./plans@r --after ./plans@cooperative --output ./drifted --run-id r",
    "diff, loads": "diff --loads --sample --output ./drifted --run-id loads",
    "check": "check --plan ./plans@r --drift ./drifted@r --history ./history@r --max-rebalances-per-day 3 "
    "--output ./checks --run-id r --openmetrics metrics.txt",
    "report": "report --plan ./plans@r --comparison ./compared@r --simulation ./simulated@r --replicas ./reassigned@r "
    "--drift ./drifted@r --history ./history@r --advice ./advice@r --output-file report.html",
    "daily": "daily --sample --commit-gap 3s --deploy-gap 20s --output ./daily --run-id r",
}
"""By name: the words of commands with the sample, which read what those before have written."""


def commands(folder: Path) -> dict[str, str]:
    """Returns all commands. `folder` has the fleets of `write_fleets`."""
    of_drawn = {
        "plan, drawn groups": f"plan --fleet {folder}/groups --assignor configured --output ./drawn --run-id groups",
        "plan, drawn Streams groups": f"plan --fleet {folder}/streams --output ./drawn --run-id streams",
        "plan, drawn Connect clusters": f"plan --fleet {folder}/connect --output ./drawn --run-id connect",
        "compare, drawn groups": f"compare --fleet {folder}/groups --output ./drawn --run-id compared",
        "migrate, drawn groups": f"migrate --fleet {folder}/groups --output ./drawn --run-id migrated",
    }
    faulty = {
        f"{path.name}, {job}": f"{job} --fleet {path} --output ./{path.name}/{job.replace(' ', '-')} --run-id r"
        for path in sorted((folder / "faulty").iterdir())
        for job in (path / "jobs").read_text().split(",")
    }
    every = {**OF_THE_SAMPLE, **of_drawn, **faulty}
    left_out = () if drawn(0, 1) else IN_FULL
    return {name: words for name, words in every.items() if not name.startswith(left_out)}


GROUPS = {
    "topics.csv": "cluster,topic,partitions\nc,orders,4\n",
    "members.csv": "cluster,group_id,member_id\nc,g,m1\nc,g,m2\n",
    "subscriptions.csv": "cluster,group_id,member_id,topic\nc,g,m1,orders\nc,g,m2,orders\n",
}
EVENTS = {"events.csv": "cluster,group_id,at_ms,event,member_id\nc,g,5000,member-leaves,m1\n"}
BROKERS = {
    "replicas.csv": 'cluster,topic,partition,replicas\nc,orders,0,"1,2"\nc,orders,1,"2,1"\n',
    "brokers.csv": "cluster,broker_id,rack_id\nc,1,a\nc,2,b\n",
}
FAULTY: dict[str, tuple[str, dict[str, str | bytes]]] = {
    "not-parquet": ("plan", {"topics.parquet": b"PAR1 but no more than that PAR1"}),
    "empty-file": ("plan", {**GROUPS, "topics.csv": ""}),
    "no-rows": ("plan,simulate", {name: text.partition("\n")[0] + "\n" for name, text in (GROUPS | EVENTS).items()}),
    "no-column": ("plan", {**GROUPS, "topics.csv": "cluster,topic,number\nc,orders,4\n"}),
    "no-table": ("plan", {"topics.csv": GROUPS["topics.csv"]}),
    "no-number": ("plan", {**GROUPS, "topics.csv": "cluster,topic,partitions\nc,orders,four\nc,clicks,5000000000\n"}),
    "no-utf8": ("plan", {**GROUPS, "topics.csv": b"cluster,topic,partitions\nc,ord\xffers,4\n"}),
    "no-json": ("plan", {**GROUPS, "brokers.json": '{"cluster": "c", "broker_id": 1}\n{"cluster": \n'}),
    "too-many-values": ("plan", {**GROUPS, "topics.csv": "cluster,topic,partitions\nc,orders,4,5,6\n"}),
    "null-keys": ("plan", {**GROUPS, "topics.csv": "cluster,topic,partitions\n,orders,4\nc,,4\n"}),
    "negative": ("plan", {**GROUPS, "topics.csv": "cluster,topic,partitions\nc,orders,-4\n"}),
    "twice": ("plan", {**GROUPS, "topics.csv": GROUPS["topics.csv"] + "c,orders,4\n"}),
    "groups": (
        "plan,compare,migrate,advise",
        {
            **GROUPS,
            "topics.csv": "cluster,topic,partitions\nc,orders,4\nd,x,3\n",
            "members.csv": "cluster,group_id,member_id\nc,g,m1\nc,g,m1\nc,g,m2\nc,sound,m\nd,none,\nd,ok,m\n",
            "subscriptions.csv": "cluster,group_id,member_id,topic\nc,g,m1,orders\nc,g,nobody,orders\n"
            "c,sound,m,gone\nd,ok,m,x\n",
            "owned.csv": "cluster,group_id,member_id,topic,partition\nc,g,m1,orders,0\nc,g,m2,orders,0\n"
            "c,g,m2,orders,-1\nd,ok,m,x,2\nd,ok,m,x,9\n",
            "groups.csv": "cluster,group_id,assignor,group_type\nc,g,range,classic\nd,ok,nonesuch,classic\n"
            "d,empty,uniform,consumer\n",
        },
    ),
    "bad-events": (
        "simulate",
        {**GROUPS, "events.csv": EVENTS["events.csv"] + "c,g,-1,member-leaves,m1\nc,g,9,jumps,m2\nc,gone,9,crash,m2\n"},
    ),
    "lost-brokers": (
        "replicas check,replicas reassign",
        {**BROKERS, "replicas.csv": BROKERS["replicas.csv"] + 'lost,orders,0,1\nc,orders,2,\nc,x,0,"1,1"\nc,x,1,7\n'},
    ),
}
"""By name: the jobs, and the files of a fleet with faults."""


# --- fleets --------------------------------------------------------------------------------------------------------


def write_fleets(folder: Path, seed: int, number: int) -> None:
    """Writes a fleet with this number of drawn clusters, of all kinds of groups, and fleets with faults."""
    folder.mkdir()
    draw = Random(seed)
    each = max(1, number // 8)
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for assignor in ("range", "roundrobin", "sticky", "cooperative-sticky"):
        for row in random_groups.groups(assignor, draw.randrange(2**32), small=each, mid_size=0):
            _add(groups, row, assignor, "classic")
    for row in random_server_groups.groups(draw.randrange(2**32), each):
        _add(groups, server_rows.client_row(row), row["system"].removeprefix("server-"), "consumer")
    for at in range(each):
        group = ShareGroup(draw, f"share-{at}").row()
        members = [{"instance": None, "rack": None, **member} for member in group["members"]]
        _add_tables(groups, share_rows.tables({**group, "members": members}))
    written_as_json(folder / "groups", groups)
    streams: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in random_streams.groups(draw.randrange(2**32), each):
        _add_tables(streams, streams_rows.table_rows(row))
    written_as_json(folder / "streams", streams)
    rounds = draw.sample(connect_rows.rounds("connect", "connect-2.6"), each)
    written_as_json(folder / "connect", connect_tables.tables_of(rounds))
    for name, (jobs, tables) in FAULTY.items():
        place = folder / "faulty" / name
        place.mkdir(parents=True)
        (place / "jobs").write_text(jobs)
        for file, content in tables.items():
            (place / file).write_bytes(content.encode() if isinstance(content, str) else content)


def _add(fleet: dict[str, list[dict[str, Any]]], row: Row, assignor: str, kind: str) -> None:
    """Adds a group with its assignor."""
    case = f"{assignor} {kind} {row['case']}"
    tables = table_rows({**row, "case": case})
    configured = (case, "group", assignor, kind, *[None] * 5, row.get("subscription_type"))
    _add_tables(fleet, {**tables, "groups": [configured]})


def _add_tables(fleet: dict[str, list[dict[str, Any]]], tables: Mapping[str, Iterable[tuple[Any, ...]]]) -> None:
    for name, rows in tables.items():
        lines = [dict(zip(INPUT_TABLES[name].names, row, strict=False)) for row in rows]
        if name == "owned":  # share groups have slices
            lines = [{**row, "first": row["partition"], "step": 1, "count": 1} for row in lines]
        fleet["owned_slices" if name == "owned" else name] += lines


# --- one engine ----------------------------------------------------------------------------------------------------


def run(folder: Path, to_run: Mapping[str, str]) -> dict[str, list[str]]:
    """Runs commands with the engine of this process. Their locations `./…` are in a folder.

    Returns:
        by name of the command: its exit code, and the lines that it has printed and logged.
    """
    folder.mkdir()
    answers = {}
    with contextlib.chdir(folder):
        for name, words in to_run.items():
            text = io.StringIO()
            handler = logging.StreamHandler(text)
            handler.addFilter(_is_of_the_same_work)
            logging.getLogger().addHandler(handler)
            job, *arguments = words.replace("./", f"{folder}/").split(" ")
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                code = import_module(f"jobs.{job}").main(arguments)
            logging.getLogger().removeHandler(handler)
            answers[name] = [f"exit code {code}", *text.getvalue().replace(str(folder), ".").splitlines()]
    return answers


def _is_of_the_same_work(record: logging.LogRecord) -> bool:
    """Whether a message isn't about progress, which depends on the time."""
    return record.name.startswith("spark_assign") and record.name != "spark_assign.spark.progress"


if __name__ == "__main__":
    fleets, output = map(Path, sys.argv[1:])
    (output.parent / f"{output.name}.json").write_text(json.dumps(run(output, commands(fleets))))
