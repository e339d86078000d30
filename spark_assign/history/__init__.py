"""The past of a cluster's groups, according to the records in `__consumer_offsets`.

`records` brings raw records from any source (a topic, log segments, a stored table) into one schema and reduces them to
facts, batch by batch. `history` has the tables that one pass over complete groups builds. `fleet_as_of` builds the
tables of the fleet as of a past time, and `replay` computes what past rebalances would have cost in other variants.
"""

from spark_assign.history.history import History, read_history
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.history.past_variants import Replay, replay
from spark_assign.history.records import records_of

__all__ = ["History", "HistoryThresholds", "Replay", "read_history", "records_of", "replay"]
