"""Plan Kafka Connect: who runs which connector and task, eagerly or incrementally, for every Connect cluster."""

from spark_assign.connect.fleet import ConnectFleet
from spark_assign.connect.plan import ConnectPlan, plan_connect
from spark_assign.connect.simulate import ConnectSimulation, simulate_connect

__all__ = ["ConnectFleet", "ConnectPlan", "ConnectSimulation", "plan_connect", "simulate_connect"]
