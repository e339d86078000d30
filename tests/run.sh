#!/usr/bin/env bash
# Every check of the project, each part in a process of its own; ends with the totals.
#
#   tests/run.sh               what a change can break: lint, types and the default tests, about 20 minutes
#   tests/run.sh fast          lint, types and the unit tests, about a minute; needs no Java
#   tests/run.sh full          all tests: nightly, and before a release
#   tests/run.sh [full] PART…  only these parts (names as in the summary)
#   tests/run.sh --spark 4.0   the Spark tests on another Spark release, in an environment of its own
#
# tests/selection.toml lists the tests that only the full run includes. Logs, JUnit files and durations are kept in
# build/tests (--results FOLDER: elsewhere). SPARK_ASSIGN_SEED=<seed> repeats a run; the seed is printed.
# A part is green only if it ends with 0 in time and its tests are known to have been executed. Tests whose tool (Maven,
# Chromium, Go, Node) is missing are skipped, and the last line says so; with CI=true a skipped test counts as failed.
#
# This file makes .venv; the rest is tests/runner.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for argument in "$@"; do
  case "$argument" in
    -h | --help) sed -n '2,/^# This file/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d'; exit 0 ;;
  esac
done

# Before anything is downloaded: which tests this machine can't run.
if [[ " $* " != *" fast "* ]]; then
  while IFS='|' read -r name programs install; do
    for program in $programs; do command -v "$program" >/dev/null && continue 2; done
    echo "$name is missing: the tests that need it will be skipped. To install it: $install" >&2
  done <tests/runner/tools.txt
fi

# Where the caller's environment is and how his Python is set is not what is tested. Class data of the JVM would cost
# more than a run of the tests gains by them.
unset SPARK_ASSIGN_VENV SPARK_ASSIGN_PINS SPARK_ASSIGN_LOCK ${!PYTHON@}
SPARK_ASSIGN_CLASS_DATA=no ./spark-submit.sh --set-up spark,embedded,kafka,msk,report,docs,test </dev/null || exit 3
exec .venv/bin/python -B -m tests.runner "$@"
