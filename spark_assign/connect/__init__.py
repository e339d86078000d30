"""Plans and simulates Kafka Connect rebalances: which worker runs which connectors and tasks."""

from spark_assign.connect.fleet import ConnectFleet
from spark_assign.connect.plan import ConnectPlan, plan_connect
from spark_assign.connect.simulate import ConnectSimulation, simulate_connect

__all__ = ["ConnectFleet", "ConnectPlan", "ConnectSimulation", "plan_connect", "simulate_connect"]
