"""Share groups without Spark: facts to assignments and tagged rows."""
