#!/usr/bin/env bash
# Runs a job on Spark: sets up Python on first use, ships the package, chooses Spark's settings.
set -euo pipefail
self="${BASH_SOURCE[0]}"
while [[ -L "$self" ]]; do # a link to this script; readlink of macOS may lack -f
  link="$(readlink -- "$self")"
  if [[ "$link" != /* ]]; then link="$(dirname -- "$self")/$link"; fi
  self="$link"
done
source "$(dirname -- "$self")/conf/launcher.sh"

usage() {
  cat <<TEXT
Usage: ./spark-submit.sh [options] JOB [arguments of the job]

Jobs (each explains itself: ./spark-submit.sh JOB --help):
$(list_jobs)
  FILE.py    a script of your own, with spark_assign shipped to the executors

Options (before JOB):
  --env NAME        Spark settings from conf/spark/NAME.conf: $(list_environments) (default: local)
  --conf KEY=VALUE  one more Spark setting; wins over conf/spark; repeat it for more
  --py-files FILES  further zips, wheels or .py files for the executors, comma-separated
  --packages NAMES  libraries of Maven that Spark is to have (such as its Kafka source); --jars FILES: of this machine
  --dry-run         print the command as a spark-submit line, ready to paste, and run nothing
  --set-up [EXTRAS] make or refresh the Python environment (default: spark,kafka) and the JVM's class data, and stop
  -h, --help        this text

First use makes $VENV. Environment: SPARK_HOME (used unless --env local),
SPARK_ASSIGN_PYTHON (the interpreter to make .venv from), SPARK_ASSIGN_VENV (another place for it),
SPARK_ASSIGN_LOCK=no (newest versions in place of the locked ones), SPARK_ASSIGN_INSTALLER=uv|pip (default: uv where
it is on the PATH or in the package index, else pip),
SPARK_ASSIGN_CLASS_DATA=no (neither make nor use the JVM's class data: about 180 MB under build/ that let
local jobs start faster).
TEXT
}

list_environments() {
  local file names=""
  for file in "$ROOT"/conf/spark/*.conf; do names+="${names:+, }$(basename "$file" .conf)"; done
  printf '%s' "$names"
}

# --- what Spark needs -----------------------------------------------------------------------------------

java_quoted() { printf '"%s"' "$(sed 's/[\\"]/\\&/g' <<<"$1")"; } # as Spark splits the options of a JVM

java="" java_says="" QUIET="" # the program, what it says of its version, and options that keep the JVM from logging
check_java() {
  local major
  java="java"
  [[ -n "${JAVA_HOME:-}" ]] && java="$JAVA_HOME/bin/java"
  java_says="$("$java" -version 2>&1)" || true
  major="$(sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' <<<"$java_says" | head -1)"
  if [[ -z "$major" ]] || ((major < 17)); then
    fail "Spark 4 needs Java 17 or newer; found ${major:-none} ($java). Install one (for example: apt install
  openjdk-17-jre-headless), or name one by JAVA_HOME."
  fi
  # The JVM itself would warn in standard output.
  QUIET="-Dlog4j2.configurationFile=$(java_quoted "file:$ROOT/conf/spark/log4j2.properties")"
  QUIET+=" -Xlog:disable -Xlog:all=warning:stderr"
  # Spark's libraries call what Java 24 and newer warn of.
  ((major < 24)) || QUIET+=" --enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow"
}

find_pyspark() {
  "$PYTHON" -P -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0])'
}

# Where the class data of this JVM for this Spark are, without their ending. Much of a small job's time is the JVM loading
# and checking Spark's classes; class data hold them as they are when that is done. Fit for just this JVM and these jars.
class_data_place() { # SPARK_HOME
  "$PYTHON" -I - "$1" "$java_says" "$ROOT/build/class-data${NAME:+-$NAME}" <<'PY'
import hashlib, os, sys
home, java, folder = sys.argv[1:]
jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in os.scandir(f"{home}/jars"))
print(f"{folder}/{hashlib.sha256(repr((home, java, jars)).encode()).hexdigest()[:12]}")
PY
}

# The file of that place, if it is there and whole: a JVM dies of one that was cut short, so its name has its size.
whole_class_data() { # PLACE
  local file
  for file in "$1".*.jsa; do
    if [[ -e "$file" && "$file" == "$1.$(size_of "$file").jsa" ]]; then printf '%s' "$file"; return; fi
  done
}
size_of() { wc -c <"$1" | tr -d ' '; }

# Plans the sample once more, with a JVM that writes down at its end what it has loaded. No job needs it: never fails.
make_class_data() {
  if [[ "${SPARK_ASSIGN_CLASS_DATA:-yes}" == no ]] || ! (check_java) >/dev/null 2>&1; then return; fi
  local spark place folder partial log line started=$SECONDS
  spark="$(find_pyspark 2>/dev/null)" && [[ -d "$spark/jars" ]] || return 0 # an environment without Spark, or with its client
  check_java
  place="$(class_data_place "$spark")"
  if [[ -n "$(whole_class_data "$place")" ]]; then return; fi
  folder="$(dirname "$place")" partial="$place.$$" log="$place.log"
  mkdir -p "$folder"
  find "$folder" -type f -mmin +60 -delete # of other versions, and what was interrupted
  say "Keeping the class data of the JVM under ${folder#"$ROOT/"}, about 180 MB (SPARK_ASSIGN_CLASS_DATA=no: none) …"
  # A run beside this one sees a whole file or none. spark-submit waits for the end of the JVM.
  local options; options="$QUIET -XX:ArchiveClassesAtExit=$(java_quoted "$partial")"
  if line="$(SPARK_ASSIGN_CLASS_DATA=no "$ROOT/spark-submit.sh" --conf "spark.driver.extraJavaOptions=$options" \
    --dry-run plan --sample --output "$partial.plan" 2>"$log")" && bash -c "$line" >>"$log" 2>&1 &&
    [[ -s "$partial" ]] && mv -f "$partial" "$place.$(size_of "$partial").jsa" 2>>"$log"; then
    say "Kept in $((SECONDS - started)) s."
  else
    say "They could not be kept, which only costs time (log in ${log#"$ROOT/"})."
  fi
  rm -rf "$partial" "$partial.plan"
}

# The package as a zip named by its content: the same source gives the same file.
build_zip() {
  "$PYTHON" -I - "$ROOT" <<'PY'
import hashlib, os, pathlib, re, sys, tomllib, zipfile
root = pathlib.Path(sys.argv[1])
project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
init = (root / "spark_assign" / "__init__.py").read_text()
name, version = project["name"], re.search(r'^__version__ = "(.*)"$', init, re.M)[1]
about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
files = sorted(p for p in (root / "spark_assign").rglob("*") if p.is_file() and p.suffix != ".pyc")
digest = hashlib.sha256(about.encode())
for file in files:
    content = file.read_bytes()
    digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode() + content)
target = root / "build" / f"spark_assign-{digest.hexdigest()[:12]}.zip"
if not target.exists():
    target.parent.mkdir(exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        # What importlib.metadata needs to say the version.
        archive.writestr(f"{name}-{version}.dist-info/METADATA", about)
        for file in files:
            archive.writestr(str(file.relative_to(root)), file.read_bytes())
    partial.rename(target)
print(target)
PY
}

setting() { # KEY: its value on the command line, else in the environment's file, else nothing
  local given value
  value="$(sed -nE "s/^[[:space:]]*${1//./\\.}[[:space:]=]+(.*)$/\1/p" "$ROOT/conf/spark/$environment.conf" | tail -1)"
  for given in ${conf[@]+"${conf[@]}"}; do [[ "$given" == "$1="* ]] && value="${given#*=}"; done
  printf '%s' "$value"
}
has_setting() { [[ -n "$(setting "$1")" ]]; }

# --- the command line -----------------------------------------------------------------------------------

environment=local dry_run="" py_files="" conf=() libraries=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --env) need "$@"; environment="$2"; shift 2 ;;
    --env=*) environment="${1#*=}"; shift ;;
    --conf) need "$@"; conf+=("$2"); shift 2 ;;
    --conf=*) conf+=("${1#*=}"); shift ;;
    --packages | --jars) need "$@"; libraries+=("$1" "$2"); shift 2 ;;
    --packages=* | --jars=*) libraries+=("${1%%=*}" "${1#*=}"); shift ;;
    --py-files) need "$@"; py_files="$2"; shift 2 ;;
    --dry-run) dry_run=yes; shift ;;
    --set-up) set_up "${2:-spark,kafka}"; make_class_data; exit 0 ;;
    -h | --help) usage; exit 0 ;;
    -*) say "$PROGRAM: unknown option $1"; usage >&2; exit 2 ;;
    *) break ;;
  esac
done
if [[ $# -eq 0 ]]; then usage; exit 0; fi
if [[ "$1" == *.py ]]; then
  job_file="$1" job="$(basename "$1" .py)"
  [[ -f "$job_file" ]] || no_job "$1"
else
  find_job "$1"
fi
shift
if [[ ! -f "$ROOT/conf/spark/$environment.conf" ]]; then
  fail "there is no environment '$environment'. Known: $(list_environments) (conf/spark/*.conf)" 2
fi

if [[ "$job_file" -ef "$ROOT/jobs/$job.py" ]]; then print_help "$@"; fi

# Plain Python, without a JVM: settings, reading from Kafka, unless the tables go to a catalog, and stories, but for that of a
# whole fleet and where Spark writes tables in a format that is named.
without_spark() {
  [[ "$job_file" -ef "$ROOT/jobs/$job.py" ]] || return 1 # a script of the user's may have the name of a job
  case "$job" in
    snapshot) ! has_argument "--table-prefix*" "$@" ;;
    history) has_argument --follow "$@" && ! has_argument --reader=spark "$@" ;;
    simulate) [[ "${1:--}" != -* && "$1" != deploy-fleet ]] && ! has_argument "--output-*" "$@" ;; # a scenario
    config) true ;;
    *) false ;;
  esac
}

# Before the set-up, which takes its time.
spark=yes
if without_spark "$@"; then spark=""; else check_java; fi
set_up "spark,$(extras_of "$job")"

if [[ -z "$spark" ]]; then
  command=(env SPARK_ASSIGN_ENGINE=spark "PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}")
  add_program "$PYTHON" "$job_file" "$@"
else
  if [[ "$environment" == local || -z "${SPARK_HOME:-}" ]]; then
    spark_home="$(find_pyspark)"
  else
    spark_home="$SPARK_HOME"
  fi
  if [[ "$environment" != local ]] && ! has_setting spark.master; then
    fail "--env $environment does not say where the cluster is: set spark.master in conf/spark/$environment.conf or by --conf spark.master=…" 2
  fi
  # In cluster mode the driver runs elsewhere: this machine's paths mean nothing there.
  cluster="" image=""
  if [[ "$environment" != local && "$(setting spark.submit.deployMode)" == cluster ]]; then cluster=yes; fi
  if [[ -n "$cluster" && "$(setting spark.master)" == k8s://* ]] && ! has_setting spark.kubernetes.file.upload.path; then
    image="/opt/spark_assign" # where conf/deploy/Dockerfile puts jobs and package
    [[ "$job_file" -ef "$ROOT/jobs/$job.py" ]] || fail "a script of your own is not in the image: give it a place to be
  uploaded to by --conf spark.kubernetes.file.upload.path=s3a://…" 2
    job_file="local://$image/jobs/$job.py"
  fi
  # Given as settings and not through the environment, so that a printed line works wherever it is pasted.
  variables=("SPARK_HOME=$spark_home" SPARK_ASSIGN_ENGINE=spark)
  options=(--name "spark_assign $job" --properties-file "$ROOT/conf/spark/$environment.conf")
  if [[ "$environment" == local && ! "$job_file" -ef "$ROOT/jobs/$job.py" ]]; then # workers may import what is beside it
    options+=(--conf spark.executorEnv.PYTHONSAFEPATH=)
  fi
  zip=""
  if [[ -z "$image" ]]; then
    zip="$(build_zip)"
    options+=(--py-files "$zip${py_files:+,$py_files}")
  elif [[ -n "$py_files" ]]; then
    options+=(--py-files "$py_files")
  fi
  if [[ -z "$cluster" ]] && ! has_setting spark.pyspark.driver.python; then
    options+=(--conf "spark.pyspark.driver.python=$PYTHON")
  fi
  has_setting spark.pyspark.python || options+=(--conf "spark.pyspark.python=${PYSPARK_PYTHON:-$PYTHON}")
  if [[ -n "$cluster" ]]; then
    # The driver's log settings travel with it; an image has its own.
    if [[ -z "$image" ]] && ! has_setting spark.files && ! has_setting spark.driver.extraJavaOptions; then
      options+=(--files "$ROOT/conf/spark/log4j2.properties"
        --driver-java-options "-Dlog4j2.configurationFile=log4j2.properties")
    fi
  elif ! has_setting spark.driver.extraJavaOptions; then
    class_data=""
    if [[ "$environment" == local && "${SPARK_ASSIGN_CLASS_DATA:-yes}" != no ]]; then
      class_data="$(whole_class_data "$(class_data_place "$spark_home")")"
    fi
    # Where they do not fit after all, for example with a larger heap, the JVM goes on without them and without a word.
    [[ -z "$class_data" ]] || QUIET+=" -Xshare:auto -XX:SharedArchiveFile=$(java_quoted "$class_data") -Xlog:disable"
    options+=(--driver-java-options "$QUIET")
  fi
  # Where Spark's own jars, the settings, or the command line have no library, the one that the job needs of Maven.
  if [[ "$environment" == local && "$job" == history && ${#libraries[@]} -eq 0 ]] &&
    has_argument --reader=spark "$@" && ! has_setting spark.jars && ! has_setting spark.jars.packages &&
    ! compgen -G "$spark_home/jars/spark-sql-kafka-*" >/dev/null; then
    package="$(PYTHONPATH="$ROOT" "$PYTHON" -P -c 'import sys; from jobs._entry import kafka_source; print(*kafka_source(sys.argv[1:])[1:])' "$job" "$@")"
    [[ -z "$package" ]] || libraries=(--packages "$package")
  fi
  options+=(${libraries[@]+"${libraries[@]}"})
  for setting in ${conf[@]+"${conf[@]}"}; do options+=(--conf "$setting"); done
  # Spark adds a module to each JVM that no job uses, and for which the JVM prints a warning: this java leaves it out.
  [[ -n "$cluster" ]] || variables+=("JAVA_HOME=$ROOT/conf/spark/java" "SPARK_ASSIGN_JAVA=$java")
  command=(env "${variables[@]}")
  add_program "$spark_home/bin/spark-submit" "${options[@]}" "$job_file" "$@"
  # With the driver here, its Python starts the JVM, after its checks, instead of the reverse. Standard output, standard
  # error, signals, and the exit code are then those of the job: spark-submit would merge the two streams.
  if [[ -z "$dry_run$cluster" ]] && ! has_setting spark.remote; then
    driver="$(setting spark.pyspark.driver.python)" worker="$(setting spark.pyspark.python)"
    path="$ROOT${zip:+:$zip}" # Python keeps compiled modules of a folder, but not of a zip, which has the version
    for file in ${py_files//,/ }; do
      [[ "$file" != *.py ]] || file="$(dirname "$file")"
      path+=":$file"
    done
    for file in "$spark_home"/python "$spark_home"/python/lib/py4j-*-src.zip; do
      [[ ! -e "$file" ]] || path+=":$file" # a Spark that is not a package of .venv
    done
    files=""
    [[ -n "${HADOOP_CONF_DIR:-}" || "$(setting spark.master)" != local* ]] || files=yes
    command=(env "${variables[@]}" "PYSPARK_PYTHON=${worker:-${PYSPARK_PYTHON:-$PYTHON}}" PYTHONHASHSEED=0
      "SPARK_ASSIGN_LOCAL_FILES=$files" "PYTHONPATH=$path${PYTHONPATH:+:$PYTHONPATH}"
      "PYSPARK_SUBMIT_ARGS=$(shell_quoted "${options[@]}" pyspark-shell)")
    add_program "${driver:-$PYTHON}" "$job_file" "$@"
  fi
fi

if [[ -n "$dry_run" ]]; then
  shell_quoted "${command[@]}"
else
  exec "${command[@]}"
fi
