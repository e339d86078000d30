# What ./spark-assign and ./spark-submit.sh share: jobs and their help, and the Python environment. They source it.
ROOT="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
PROGRAM="$(basename -- "$0")"
VENV="${SPARK_ASSIGN_VENV:-$ROOT/.venv}"
PYTHON="$VENV/bin/python"
NAME="${VENV##*/}" NAME="${NAME#.venv}" NAME="${NAME#-}"
SET_UP="set-up${NAME:+-$NAME}" # several environments may be made at once
DEFAULT_PINS="pyspark==4.1.*" # what the lock has: see conf/requirements

say() { printf '%s\n' "$*" >&2; }
fail() { say "$PROGRAM: $1"; exit "${2:-3}"; }
[[ "$ROOT" != *:* ]] || fail "the folder $ROOT has a colon in its path, which PYTHONPATH can't have. Move it to another folder" 2
# PySpark sets this in a process with a Connect session, such as a notebook, and a child that inherits it can start no other.
unset SPARK_CONNECT_MODE_ENABLED

need() { [[ $# -ge 2 ]] || fail "$1 needs a value" 2; }

# --- jobs -----------------------------------------------------------------------------------------------

# Each job's name and the first line of its docstring.
list_jobs() {
  local file name
  for file in "$ROOT"/jobs/*.py; do
    [[ -e "$file" ]] || continue
    name="$(basename "$file" .py)"
    [[ "$name" == _* ]] || printf '  %-10s %s\n' "$name" "$(sed -n '1,3s/^"""\(.*[^"]\)"*$/\1/p' "$file")"
  done
}

# Sets job and job_file by the job's name; an unknown name ends the script.
find_job() { # NAME
  job="$1" job_file="$ROOT/jobs/$1.py"
  [[ -f "$job_file" && "$job" != _* ]] || no_job "$1"
}
no_job() { say "$PROGRAM: there is no job '$1'. Jobs:"; list_jobs >&2; exit 2; }

# Whether an argument matches the pattern, or an option and its value do, joined by =.
has_argument() { # PATTERN ARGUMENTS
  local pattern="$1" word before=""
  shift
  for word in "$@"; do # $pattern isn't quoted, because it is a pattern
    if [[ "$word" == $pattern || "$before=$word" == $pattern ]]; then return 0; fi
    before="$word"
  done
  return 1
}

# Prints the help of the job if its arguments ask for it, and ends. The text is a file: no set-up, no Python.
print_help() { # ARGUMENTS
  local file
  has_argument --help "$@" || return 0
  for file in "$ROOT/conf/help/$job-${1:-}.txt" "$ROOT/conf/help/$job.txt"; do
    if [[ -f "$file" ]]; then cat "$file"; exit 0; fi
  done
}

extras_of() { # JOB
  case "$1" in simulate | report | shell) printf 'kafka,report' ;; mcp) printf 'kafka,mcp' ;; *) printf 'kafka' ;; esac # they draw, or serve
}

# --- Python ---------------------------------------------------------------------------------------------
# With -I or -P, Python imports no module of the current folder. -P, which Python 3.11 brought, keeps PYTHONPATH.

find_python() {
  local candidate
  for candidate in ${SPARK_ASSIGN_PYTHON:+"$SPARK_ASSIGN_PYTHON"} python3.12 python3.11 python3.13 python3 python; do
    # Run it: a pyenv shim is on the PATH for versions that are not active, and some Pythons lack venv.
    if "$candidate" -I -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      "$candidate" -I -c 'import sys; print(sys.executable)'
      return
    fi
  done
  fail "no Python 3.11 or newer with venv found. Install one (for example: apt install python3.11-venv, or
  pyenv install 3.12), or name one: SPARK_ASSIGN_PYTHON=/path/to/python3.12 ./$PROGRAM …"
}

# Installs the dependencies that pyproject.toml declares, as conf/requirements locks them, without the package itself:
# that travels as a zip, on this machine as on a cluster, so it can never be stale.
make_venv() {
  local extras="$1" pins="${SPARK_ASSIGN_PINS:-$DEFAULT_PINS}" stamp="$VENV/.spark-assign-set-up" log="$ROOT/build/$SET_UP.log"
  local checksum extra have started=$SECONDS
  checksum="$({ cat "$ROOT/pyproject.toml" "$ROOT"/conf/requirements/*.txt; printf %s "${SPARK_ASSIGN_LOCK:-}"; } | cksum | tr -d ' ')"
  have="$(cat "$stamp" 2>/dev/null || true)"
  # Spark's package contains the client that the embedded engine needs; both packages in one environment break each other.
  if [[ ",${have##* }," == *",spark,"* && ",$extras," != *",spark,"* ]]; then extras="spark,$extras"; fi
  if [[ "$have" == "$checksum $pins "* ]]; then
    for extra in ${extras//,/ }; do [[ ",${have##* }," == *",$extra,"* ]] || break; extra=""; done
    if [[ -z "$extra" ]] && "$PYTHON" -I -c '' 2>/dev/null; then return; fi
    extras="${have##* },$extras"
  fi
  mkdir -p "$ROOT/build"
  say "Setting up $VENV (first use or changed dependencies; takes up to a minute, log in build/$SET_UP.log) …"
  # A set-up that was interrupted left no stamp: start over.
  if [[ -z "$have" ]] || ! "$PYTHON" -I -c '' 2>/dev/null; then
    local python; python="$(find_python)" || exit $?
    "$python" "$ROOT/conf/requirements/install.py" || exit 3 # an index that does not answer, before all that takes time
    "$python" -I -m venv --clear "$VENV" >"$log" 2>&1 || { tail -20 "$log" >&2; fail "could not make $VENV"; }
  fi
  rm -f "$stamp"
  "$PYTHON" "$ROOT/conf/requirements/install.py" "$extras" "${SPARK_ASSIGN_PINS:-}" "$DEFAULT_PINS" >>"$log" || exit 3
  printf '%s %s %s\n' "$checksum" "$pins" "$extras" >"$stamp"
  say "Set up in $((SECONDS - started)) s."
}

# Two first runs at once must not install into one folder together.
set_up() {
  if command -v flock >/dev/null; then
    mkdir -p "$ROOT/build"
    { flock 9; make_venv "$1"; } 9>"$ROOT/build/$SET_UP.lock"
  else
    make_venv "$1"
  fi
}

# The words as a shell, and PySpark, split a line.
shell_quoted() { "$PYTHON" -I -c 'import shlex, sys; print(shlex.join(sys.argv[1:]))' "$@"; }

# Adds a program and its arguments to `command`, which starts with env: that takes a path with = for a variable.
add_program() { # PROGRAM ARGUMENTS
  if [[ "$1" == *=* ]]; then command+=(sh -c 'exec "$@"' sh); fi
  command+=("$@")
}
