"""What a first plan costs: whole processes, by processor time of the process and its children."""

from __future__ import annotations

import statistics

from benchmarks.bench import Bench, Result
from benchmarks.processes import ROOT, Spent, run_process

KEPT = "plan with class data"


def cold(bench: Bench) -> None:
    """Jobs on the sample against a bare Spark job that reads the same files and writes as many tables, in turns.

    Without class data of the JVM; where `./spark-submit.sh --set-up` has kept them, the plan once more with them.
    """
    stored = str(bench.folder / "cold")
    consumer_groups = ["--fleet", "conf/sample-fleet"]  # as without options; --sample plans more
    works = {
        "floor": ["benchmarks/floor_job.py", str(bench.folder / "floor")],
        "plan": ["plan", *consumer_groups, "--output", stored, "--run-id", "cold"],
    }
    if not bench.quick:
        works["compare"] = ["compare", "--sample", "--what-if", "leave:*:1"]
        works["report"] = ["report", "--plan", stored, "--output-file", str(bench.folder / "report.html")]
        works["replicas reassign"] = [
            "replicas",
            "reassign",
            "--sample",
            "--remove",
            "3",
            "--output",
            str(bench.folder / "replicas"),
        ]
    if list(ROOT.glob("build/class-data*/*.jsa")):
        works[KEPT] = ["plan", *consumer_groups, "--output", stored, "--run-id", "kept"]
    spent: dict[str, list[Spent]] = {name: [] for name in works}
    for _ in range(bench.repeats):
        for name, words in works.items():
            variables = {} if name == KEPT else {"SPARK_ASSIGN_CLASS_DATA": "no"}
            spent[name].append(run_process(["./spark-submit.sh", *words], **variables))
    processor = {name: statistics.median(each.processor for each in of) for name, of in spent.items()}
    wall = {name: statistics.median(each.wall for each in of) for name, of in spent.items()}
    goals = {"plan": "<= 1.5", KEPT: "<= 1.1"}
    for name in works:
        if name != "floor":
            ratio = processor[name] / processor["floor"]
            detail = (
                f"processor {processor[name]:.1f} s, wall {wall[name]:.1f} s; "
                f"floor {processor['floor']:.1f} s, {wall['floor']:.1f} s"
            )
            goal = bench.goal(goals.get(name, "<= 2"))
            bench.report(Result(f"{name}, cold", "sample", ratio, "x floor", goal, detail))


def stories(bench: Bench) -> None:
    """The stories of one group or one Connect cluster, which need no Spark: table, pictures and stored rows."""
    for name in ("textbook-join", "rolling-deployment", "crash", "90x10"):
        command = ["./spark-submit.sh", "simulate", name, "--pictures-dir", str(bench.folder / name)]
        spent = [run_process(command) for _ in range(bench.repeats)]
        processor = statistics.median(each.processor for each in spent)
        detail = f"wall {statistics.median(each.wall for each in spent):.1f} s"
        bench.report(Result("simulate, cold", name, processor, "s processor", bench.goal("<= 10"), detail))
