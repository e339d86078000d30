"""The tables that spark_assign reads and writes, their validation, and the errors that it raises."""
