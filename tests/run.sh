#!/usr/bin/env bash
# Every check of the project, each part in a process of its own; ends with one line of totals.
#
#   tests/run.sh               lint, types and all tests (classic Spark, Spark Connect, Kafka, jobs, Airflow, a browser)
#   tests/run.sh fast          lint, types and the unit tests
#   tests/run.sh --spark 4.0   the Spark tests on another Spark release, in an environment of its own
#   tests/run.sh PART…         only these parts (names as in the summary)
#
# Of the recorded cases of Kafka's classes every fortieth is planned on Spark Connect and on other releases as well.
# With CI=true a skipped test in tests/kafka, tests/airflow or tests/browser counts as failed, and the Spark tests that
# touch most of what changes between releases (golden vectors, kernels in workers, files) run on 4.0 as well.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | grep -v '^set'; }

ALL=(ruff format mypy unit spark connect kafka e2e airflow browser)
OTHER=(golden spark/test_custom_assignor.py spark/test_tables.py)
SPARK="${SPARK_VERSION:-}"
wanted=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    fast) wanted+=(ruff format mypy unit); shift ;;
    --spark) [[ $# -ge 2 ]] || { usage >&2; exit 2; }; SPARK="$2" OTHER=(golden spark); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) [[ " ${ALL[*]} other-spark " == *" $1 "* ]] || { echo "unknown part: $1" >&2; usage >&2; exit 2; }; wanted+=("$1"); shift ;;
  esac
done
if [[ ${#wanted[@]} -eq 0 ]]; then
  if [[ -n "$SPARK" ]]; then
    wanted=(other-spark)
  else
    wanted=("${ALL[@]}")
    [[ "${CI:-}" == true ]] && wanted+=(other-spark)
  fi
fi
SPARK="${SPARK:-4.0}"

RESULTS="$(mktemp -d)"
trap 'rm -rf "$RESULTS"' EXIT

./spark-submit.sh --set-up spark,kafka,report,test || exit 3
OTHER_VENV="$PWD/.venv-spark-$SPARK"
AIRFLOW_VENV="$PWD/.venv-airflow"
make_another() { # PART VENV PINS EXTRAS
  SPARK_ASSIGN_VENV="$2" SPARK_ASSIGN_PINS="$3" ./spark-submit.sh --set-up "$4" >"$RESULTS/$1.set-up" 2>&1
  echo $? >"$RESULTS/$1.exit"
}
{ # while the first parts run: it is mostly downloading
  if [[ " ${wanted[*]} " == *" other-spark "* ]]; then
    make_another other-spark "$OTHER_VENV" "pyspark==$SPARK.*" spark,kafka,report,test
  fi
  # No pyspark: Airflow's Spark provider brings pyspark-client, and the two overwrite each other's files.
  if [[ " ${wanted[*]} " == *" airflow "* ]]; then make_another airflow "$AIRFLOW_VENV" "pytest>=8" kafka,airflow; fi
} &
PYTHON="$PWD/.venv/bin/python"
export PATH="$PWD/.venv/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
unset SPARK_HOME SPARK_REMOTE

run() { # PART COMMAND…: run it, remember how it ended
  local part="$1" started=$SECONDS status
  shift
  printf '\n== %s\n' "$part"
  "$@"
  status=$?
  local verdict=ok
  if [[ $status -ne 0 ]]; then verdict="FAILED (exit $status)"; fi
  printf '%-12s %-18s %4d s\n' "$part" "$verdict" $((SECONDS - started)) >"$RESULTS/$part.verdict"
}

tests() { # PART FOLDER…: pytest on the folders that there are
  local part="$1" folder folders=()
  shift
  for folder in "$@"; do [[ -n "$(find "tests/$folder" -name 'test_*.py' -print -quit 2>/dev/null)" ]] && folders+=("tests/$folder"); done
  if [[ ${#folders[@]} -gt 0 ]]; then
    run "$part" "$PYTHON" -m pytest -q -p no:cacheprovider -m "${MARKED:-}" --junitxml "$RESULTS/$part.xml" "${folders[@]}"
  fi
}

one() { # PART
  case "$1" in
    ruff) run ruff "$PYTHON" -m ruff check . ;;
    format) run format "$PYTHON" -m ruff format --check . ;;
    mypy) run mypy "$PYTHON" -m mypy ;;
    unit) tests unit unit ;;
    spark) tests spark spark docs golden ;;
    connect) SPARK_ASSIGN_TEST_REMOTE="local[2]" SPARK_ASSIGN_TEST_EVERY=40 MARKED="not once" tests connect spark golden ;;
    kafka) tests kafka kafka ;;
    browser) tests browser browser ;;
    e2e) tests e2e e2e ;;
    airflow) is_set_up airflow && PYTHON="$AIRFLOW_VENV/bin/python" tests airflow airflow ;;
    other-spark)
      is_set_up other-spark && SPARK_ASSIGN_TEST_EVERY=40 MARKED="not once" PYTHON="$OTHER_VENV/bin/python" \
        tests "spark-$SPARK" "${OTHER[@]}"
      ;;
  esac
}

is_set_up() { # PART: it has been begun in the background; a lane cannot wait for a process that is not its own
  while [[ ! -e "$RESULTS/$1.exit" ]]; do sleep 1; done
  if [[ "$(cat "$RESULTS/$1.exit")" != 0 ]]; then
    cat "$RESULTS/$1.set-up"
    printf '%-12s FAILED (set-up)\n' "$1" >"$RESULTS/$1.verdict"
    return 1
  fi
}

lane() { # take what nobody has taken yet, one part after the other; each one's output comes in one piece, when it is over
  local part
  for part in "${slow[@]}"; do
    mkdir "$RESULTS/$part.taken" 2>/dev/null || continue
    one "$part" >"$RESULTS/$part.log" 2>&1
    cat "$RESULTS/$part.log"
  done
  return 0
}

# A Spark test waits for planning and compiling more than for cores: two lanes side by side fill them.
slow=()
for part in "${wanted[@]}"; do
  case "$part" in
    ruff | format | mypy | unit) one "$part" ;;
    *) slow+=("$part") ;;
  esac
done
if [[ ${#slow[@]} -gt 1 ]]; then
  lane &
  lane_1=$!
  lane &
  lane_2=$!
  wait "$lane_1" && wait "$lane_2" || echo "FAILED: a lane was stopped" >"$RESULTS/lanes.verdict"
else
  for part in "${slow[@]}"; do one "$part"; done
fi

printf '\n== summary\n'
cat $(ls -tr "$RESULTS"/*.verdict)
failed_parts=$(cat "$RESULTS"/*.verdict | grep -c FAILED)
# Totals over all parts; in CI a skip where Kafka, Airflow or a browser is needed means that the proof is missing.
"$PYTHON" - "$RESULTS" "$failed_parts" "${CI:-}" <<'PY'
import pathlib, sys, xml.etree.ElementTree as tree
passed = failed = skipped = forbidden = 0
for file in pathlib.Path(sys.argv[1]).glob("*.xml"):
    for suite in tree.parse(file).getroot().iter("testsuite"):
        total, bad, skips = (
            int(suite.get("tests")), int(suite.get("failures")) + int(suite.get("errors")), int(suite.get("skipped"))
        )
        passed, failed, skipped = passed + total - bad - skips, failed + bad, skipped + skips
        if file.stem in ("kafka", "airflow", "browser") and sys.argv[3] == "true":
            forbidden += skips
if forbidden:
    print(f"{forbidden} tests of tests/kafka, tests/airflow or tests/browser were skipped: in CI they must run")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(1 if failed or forbidden or int(sys.argv[2]) else 0)
PY
