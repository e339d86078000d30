#!/usr/bin/env bash
# Every check of the project, each part in a process of its own; ends with the totals.
#
#   tests/run.sh               what a change can break: lint, types and the default tests
#   tests/run.sh fast          lint, types and the unit tests, about a minute; needs no Java
#   tests/run.sh full          all tests: nightly, and before a release
#   tests/run.sh [full] PART…  only these parts (names as in the summary)
#   tests/run.sh --spark 4.0   the Spark tests on another Spark release, in an environment of its own
#
# tests/selection.toml lists the tests that only the full run includes. Logs, JUnit files and durations are kept in
# build/tests (--results FOLDER: elsewhere). SPARK_ASSIGN_SEED=<seed> repeats a run; the seed is printed.
# The summary has each part's wall time, and its processor time beside its budget (tests/runner/parts.py); `full` fails
# if a part takes more than 1.3 times its budget. A part is green only if it ends with 0 in time and each of its files
# reports the tests that tests/counts.toml lists. Tests that need what this machine lacks (Java, Maven, Chromium, Go,
# Node, a network) are skipped, and the last line says so; with CI=true a skipped test counts as failed. The Spark tests
# run on the embedded engine; those that need Spark itself, and one per mechanism, run on Spark as well.
#
# This file makes .venv; the rest is tests/runner.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for argument in "$@"; do
  case "$argument" in
    -h | --help) sed -n '2,/^# This file/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d'; exit 0 ;;
  esac
done

# Java is found where Spark finds it.
[[ -z "${JAVA_HOME:-}" ]] || export PATH="$JAVA_HOME/bin:$PATH"

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
SPARK_ASSIGN_CLASS_DATA=no ./spark-submit.sh --set-up spark,embedded,kafka,msk,mcp,report,docs,test </dev/null || {
  echo "tests/run.sh: .venv could not be made, so nothing was tested" >&2
  exit 3
}
exec .venv/bin/python -B -m tests.runner "$@"
