"""What groups are advised to do: by the kernel over facts, by hand-made options, and by names and libraries."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.advice.kernel import membership_modes
from spark_assign.advice.kernel.membership import GROUP_ROW, OPTION_ROW, REJECTED, advise_membership
from spark_assign.advice.kernel.membership_modes import (
    CONSUMER,
    COOPERATES,
    DYNAMIC,
    EAGER,
    MIXED,
    STATIC,
    MembershipMode,
    MembershipParams,
)
from spark_assign.advice.kernel.membership_options import MembershipOption, Pause, advise, find_deployment_pod
from spark_assign.advice.membership import MEMBERSHIP_ROWS
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulation_input import SimulationInput
from spark_assign.spark.dataframes import to_arrow_schema
from tests.cases import cases, keyed
from tests.unit import protocol_facts as facts

PARAMS, TIMING = MembershipParams(), TimingConfig(poll_interval_ms=500)
SCHEMA = to_arrow_schema(MEMBERSHIP_ROWS)
ONCE = "# Restart the members one at a time with:\n"


def about(member_id: str, client_id: str | None = None, **other: Any) -> dict[str, Any]:
    """What a member is called."""
    return {"table": "clients", "member_id": member_id, "client_id": client_id, **other}


def four(client: str = "app-{}", likes: list[str] | None = None, **settings: int) -> list[dict[str, Any]]:
    """A group of four members, each of which owns three partitions."""
    names = [client.format(number) for number in range(4)]
    rows = [facts.member(f"m{n}", ["t"], generation=1, **settings.pop("fields", {})) for n in range(4)]
    rows += [facts.owned(f"m{n}", "t", 3 * n, count=3) for n in range(4)]
    return [*rows, facts.topic("t", 12), facts.group(likes, **settings), *(about(f"m{n}", names[n]) for n in range(4))]


def run(params: MembershipParams = PARAMS, **groups: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each kind."""
    found = pa.concat_tables(list(advise_membership(facts.table(**groups), params, TIMING, SCHEMA))).to_pylist()
    return {kind: [row for row in found if row["kind"] == kind] for kind in (GROUP_ROW, OPTION_ROW, REJECTED)}


def test_what_members_have_to_restore_makes_them_static() -> None:
    """Without it a dynamic group loses less than static members that are away; the settings are those to paste."""
    found = run(light=four(), heavy=four(restore_ms=60_000))
    light, heavy = sorted(found[GROUP_ROW], key=lambda row: row["group_id"] == "heavy")
    assert (light["recommendation"], light["settings"], light["saved_seconds"]) == ("keep", None, 0)
    assert light["summary"].startswith(
        "Keep the group dynamic, eager, with a session timeout of 45 s: no change saves enough."
    )
    assert heavy["recommendation"] == "static"
    assert heavy["recommended_restart_paused_partition_seconds"] == 12 * 30
    assert heavy["recommended_restart_rebalances"] == 0
    assert heavy["settings"].splitlines()[2:] == ["group.instance.id=heavy-0"]
    assert heavy["saved_seconds"] == pytest.approx(
        heavy["expected_paused_partition_seconds"] - heavy["recommended_expected_paused_partition_seconds"], abs=0.01
    )
    assert heavy["gain_seconds"] - heavy["cost_seconds"] == pytest.approx(heavy["saved_seconds"], abs=0.01)
    assert heavy["warning_codes"] == "library-unknown"
    # All ways, session timeouts and restart times, each once; one of them is what the group runs with.
    mine = [row for row in found[OPTION_ROW] if row["group_id"] == "heavy"]
    assert len(mine) == 4 * 5 * 3
    assert [row["restart_time_ms"] for row in mine if row["is_current"]] == [5_000, 30_000, 120_000]


def test_a_long_restart_needs_a_long_session() -> None:
    """One and a half times the restart time; crashes cost more then, which is weighed."""
    (row,) = run(replace(PARAMS, restart_time_ms=60_000), g=four(restore_ms=120_000))[GROUP_ROW]
    assert (row["recommendation"], row["recommended_session_timeout_ms"]) == ("static", 90_000)
    assert row["settings"].splitlines()[2:] == ["group.instance.id=g-0", "session.timeout.ms=90000"]
    assert row["cost_seconds"] == pytest.approx(0.1 * 3 * 45)
    assert "static with a session timeout of 90 s instead of 45 s" in row["summary"]
    (row,) = run(replace(PARAMS, restart_time_ms=60_000, crashes_per_deploy=1000.0), g=four(restore_ms=120_000))[
        GROUP_ROW
    ]
    assert row["recommended_session_timeout_ms"] == 45_000


def test_names_that_change_and_libraries_that_cannot() -> None:
    """Then static is not advised, and the warning says what that would have saved."""
    pods = four("billing-7d9f8b6c5d-{}x2zq", restore_ms=60_000)
    node, pods_ = run(pods=pods, node=four("kafkajs", ["range"], restore_ms=60_000))[GROUP_ROW]
    assert pods_["recommendation"] != "static" != node["recommendation"]
    assert pods_["recommended_membership"] == node["recommended_membership"] == DYNAMIC
    assert pods_["warning_codes"] == "unstable-names, forgone"
    assert "billing-7d9f8b6c5d-2x2zq looks like a pod of a Deployment" in pods_["warning_text"]
    assert "would save" in pods_["warning_text"]
    assert node["warning_codes"] == "cannot-be-static, forgone"
    assert "tulios/kafkajs#884" in node["warning_text"]


def test_static_already() -> None:
    """Who is away longer than its session is missed in every restart: a longer one saves that, or being dynamic."""
    members = [facts.member(f"m{n}", ["t"], generation=1, group_instance_id=f"i{n}") for n in range(4)]
    group = [row for row in four(restore_ms=120_000) if row["table"] != "members"] + members
    (row,) = run(replace(PARAMS, restart_time_ms=60_000), g=group)[GROUP_ROW]
    assert (row["membership"], row["static_members"]) == (STATIC, 4)
    assert (row["recommendation"], row["settings"]) == ("session", f"{ONCE}session.timeout.ms=90000")
    (row,) = run(g=[each for each in group if each["table"] != "groups"])[GROUP_ROW]
    assert (row["recommendation"], row["settings"]) == ("dynamic", f"{ONCE}# remove group.instance.id=…")
    members[0]["group_instance_id"] = None
    found = run(g=group)
    assert found[GROUP_ROW][0]["membership"] == MIXED
    assert "mixed" in found[GROUP_ROW][0]["warning_codes"]


def test_the_broker_assigns() -> None:
    """KIP-848: only sessions that the broker allows, which is configured on the broker."""
    group = [row for row in four() if row["table"] != "groups"] + [
        facts.group(restore_ms=60_000) | {"group_type": "consumer"}
    ]
    found = run(replace(PARAMS, restart_time_ms=39_000), g=group)
    (row,) = found[GROUP_ROW]
    assert {each["session_timeout_ms"] for each in found[OPTION_ROW]} == {45_000}
    assert {(each["membership"], each["protocol"]) for each in found[OPTION_ROW]} == {
        (DYNAMIC, CONSUMER),
        (STATIC, CONSUMER),
    }
    assert row["recommended_membership"] == DYNAMIC
    wider = replace(PARAMS, restart_time_ms=39_000, consumer_session_bounds_ms=(45_000, 90_000))
    (row,) = run(wider, g=group)[GROUP_ROW]
    assert row["settings"].splitlines()[2:] == [
        "group.instance.id=g-0",
        "kafka-configs.sh --bootstrap-server $BOOTSTRAP_SERVERS --alter --entity-type groups --entity-name 'g' "
        "--add-config consumer.session.timeout.ms=90000",
    ]


def test_groups_without_advice() -> None:
    """Each is rejected with a code; a group in which nobody owns anything has an initial rebalance."""
    found = run(
        new=[facts.member("m", ["t"]), facts.member("n", ["t"]), facts.topic("t", 4), about("m"), about("n")],
        twice=facts.pair(facts.owned("c2", "t", 0)),
        alone=[facts.member("m", ["t"], generation=1), facts.owned("m", "t", 0, count=2), facts.topic("t", 2)],
        gone=[{"table": "leaders"}],
        shared=[{"table": "leaders", "group_type": "share"}],
        idle=[facts.member("m", ["none"])],
        own=four(likes=["mine"]),
    )
    got = {row["group_id"]: row["code"] for row in found[REJECTED]}
    assert got == keyed("gone=no-members idle=owns-nothing own=unknown-assignor shared=out-of-scope twice=owned-twice")
    rows = {row["group_id"]: row for row in found[GROUP_ROW]}
    assert set(rows) == {"alone", "new"}
    assert (rows["new"]["partitions"], rows["new"]["restart_rebalances"]) == (4, 4)
    assert rows["alone"]["crash_paused_partition_seconds"] is None


def test_a_fault_of_our_own_costs_only_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """While its facts are read, or while it is simulated."""
    reads, plays = SimulationInput.initial_state, GroupSimulation.run

    def breaks_early(self: SimulationInput, *args: Any) -> Any:
        return 1 / (len(self.rows["members"]) - 2) and reads(self, *args)

    def breaks_late(self: GroupSimulation, until: int | None) -> Any:
        return 1 / (len(self.initial_state.members) - 2) and plays(self, until)

    for place, name, broken in (
        (SimulationInput, "initial_state", breaks_early),
        (GroupSimulation, "run", breaks_late),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, broken)
            found = run(two=facts.pair(), four=four())
        assert [(row["group_id"], row["code"]) for row in found[REJECTED]] == [("two", "assignor-failed")]
        assert [row["group_id"] for row in found[GROUP_ROW]] == ["four"]


def test_rows_in_any_order() -> None:
    """Give the same answer."""
    rows = facts.table(a=four(restore_ms=60_000), b=four("kafkajs", ["range"]), c=facts.pair())
    answers = []
    for seed in (1, 2):
        shuffled = rows.take(random.Random(seed).sample(range(len(rows)), len(rows)))
        params = replace(PARAMS, session_timeouts_ms=(45_000,))
        tables = advise_membership(shuffled, params, TIMING, SCHEMA)
        answers.append(pa.concat_tables(list(tables)).to_pylist())
    assert answers[0] == answers[1]


def test_a_large_group_is_played_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its pause scaled to all members."""
    whole = run(g=four())[OPTION_ROW]
    monkeypatch.setattr("spark_assign.advice.kernel.membership_options.MAX_RESTARTS", 2)
    part = run(g=four())
    assert part[GROUP_ROW][0]["simulated_restarts"] == 2
    same = [at for at, row in enumerate(whole) if row["membership"] == STATIC and row["restart_rebalances"] == 0]
    assert [part[OPTION_ROW][at] for at in same] == [whole[at] for at in same]
    assert membership_modes.MAX_RESTARTS == 16


# --- choosing -------------------------------------------------------------------------------------------------

NOW = MembershipMode(DYNAMIC, EAGER)


def option(
    way: MembershipMode, restart: int, crash: int, session_ms: int = 45_000, *, now: bool = False
) -> MembershipOption:
    """Pauses in partition-seconds."""
    expected = 1000 * (restart + 0.1 * crash)
    return MembershipOption(
        way, session_ms, 30_000, now, Pause(restart * 1000, 0, 0), Pause(crash * 1000, 0, 0), expected
    )


def advised(*options: MembershipOption, forbidden: tuple[str, ...] = (), **thresholds: Any) -> tuple[str, int]:
    """The code, and the session timeout."""
    found = advise(options, replace(PARAMS, **thresholds), 3_000, forbidden)
    return found.code, found.recommended.session_ms


def test_what_is_worth_it() -> None:
    """The example of `choose`, and thresholds: nothing is advised whose gain is below its cost."""
    now = option(NOW, 900, 450, now=True)
    static = option(MembershipMode(STATIC, EAGER), 200, 900, 90_000)
    both = option(MembershipMode(STATIC, COOPERATES, own=False), 195, 900, 90_000)
    assert advised(now, static, both) == ("static", 90_000)
    assert advised(now, both) == ("static-cooperative", 90_000)
    assert advised(now, static, both, min_pause_savings=700.0) == ("keep", 45_000)
    assert advised(now, static, both, min_pause_reduction=0.7) == ("keep", 45_000)
    assert advised(now, static, both, forbidden=("static",)) == ("keep", 45_000)
    assert advised(now, both, forbidden=("cooperative",)) == ("keep", 45_000)
    assert advised(now, static, session_margin=4.0) == ("keep", 45_000)
    # A session that is shorter than the default's is not advised, but for who has it.
    short = option(NOW, 900, 100, 10_000)
    assert advised(now, short, min_pause_reduction=0.0) == ("keep", 45_000)
    assert advised(now, short, min_pause_reduction=0.0, min_session_timeout_ms=10_000) == ("session", 10_000)
    # Fewer changes than the best has are not enough: what saves too little is not advised.
    both, little = (
        option(MembershipMode(STATIC, COOPERATES, own=False), 825, 0),
        option(MembershipMode(STATIC, EAGER), 855, 0),
    )
    assert advised(now, little, both) == ("static-cooperative", 45_000)
    assert advised(now, little) == ("keep", 45_000)


@cases(
    "wrong message",
    ({"restart_time_ms": 0}, "restart_time_ms is 0; expected at least 1 ms"),
    ({"session_timeouts_ms": ()}, "session_timeouts_ms is []; expected one or more times"),
    ({"restart_times_ms": (0,)}, "restart_times_ms is [0]; expected at least 1 ms"),
    ({"crashes_per_deploy": -1.0}, "crashes_per_deploy is -1.0; expected at least 0"),
    ({"min_pause_savings": float("nan")}, "min_pause_savings is nan; expected at least 0"),
    ({"session_margin": 0.5}, "session_margin is 0.5; expected at least 1"),
    ({"session_bounds_ms": (1,)}, "session_bounds_ms is [1]; expected the minimum and the maximum"),
)
def test_invalid_params(wrong: dict[str, Any], message: str) -> None:
    """A clear word each."""
    assert message in str(replace(PARAMS, **wrong).fault())


# --- names and libraries --------------------------------------------------------------------------------------


@cases(
    "name pod",
    ("payments-7d9f8b6c5d-x2zkq", "payments-7d9f8b6c5d-x2zkq"),
    ("consumer-payments-7d9f8b6c5d-x2zkq-1", "consumer-payments-7d9f8b6c5d-x2zkq"),
    ("payments-0", None),
    ("payments-eu-12", None),
    ("consumer-billing-3", None),
    ("payments-7d9f8b6c5d-x2zkq/10.1.2.3", "payments-7d9f8b6c5d-x2zkq"),
    ("checkout-worker-prod-europe", None),
    ("/10.0.0.7", None),
)
def test_names_of_pods(name: str, pod: str | None) -> None:
    """A ReplicaSet's hash and five characters, of letters and digits without vowels."""
    assert find_deployment_pod([None, name]) == pod


def test_every_library_is_known() -> None:
    """It can be static, or cannot, with where that is written."""
    for library in LIBRARIES.values():
        assert bool(library.templates.instance) != bool(library.no_static), library.name
