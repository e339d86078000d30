"""What stands behind tests/run.sh: every part in a process of its own, two side by side, and a verdict on each.

It is our own because none of the well-kept runners does what is needed here: tox and nox make environments and run
sessions, but add up no tests (and nox runs one after the other), pytest-xdist would start a Spark session and three
brokers in each worker, and none of them is on a fresh machine. Standard library only, as it also judges whether
what it runs was there to be run.
"""
