#!/usr/bin/env bash
# Every check of the project, each part in a process of its own; ends with one line of totals.
#
#   tests/run.sh               lint, types and all tests (classic Spark, Spark Connect, Kafka, jobs, Airflow, a browser)
#   tests/run.sh fast          lint, types and the unit tests
#   tests/run.sh --spark 4.0   the Spark tests on another Spark release, in an environment of its own
#   tests/run.sh PART…         only these parts (names as in the summary)
#
# Of the recorded cases of Kafka's classes every fortieth is planned on Spark Connect and on other releases as well.
# A part is green only if it has ended with 0 in time and its tests are known to have been executed. With CI=true a
# skipped test counts as failed, but for those that tests/runner/parts.py names with a reason, and the Spark tests
# that touch most of what changes between releases (golden vectors, kernels in workers, files) run on 4.0 as well.
#
# This file makes .venv; the rest is tests/runner.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for argument in "$@"; do
  case "$argument" in
    -h | --help) sed -n '2,/^# This file/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d'; exit 0 ;;
  esac
done

# Where the caller's environment is and how his Python is set is not what is tested. Class data of the JVM would cost
# more than a run of the tests gains by them.
unset SPARK_ASSIGN_VENV SPARK_ASSIGN_PINS SPARK_ASSIGN_LOCK ${!PYTHON@}
SPARK_ASSIGN_CLASS_DATA=no ./spark-submit.sh --set-up spark,kafka,msk,report,docs,test </dev/null || exit 3
exec .venv/bin/python -B -m tests.runner "$@"
