#!/usr/bin/env bash
# Renews the lock: the newest versions that pyproject.toml allows, with their hashes, for Python 3.11 and newer on
# every platform. One file for each extra, the core's requirements included, all from one resolution, so that
# the launchers may put any of them together. Two have resolutions of their own: Airflow, with kafka, which has an
# environment of its own; and the embedded engine, whose client replaces Spark, with the versions of all other packages.
# Needs uv on the PATH, or named by UV.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
uv="${UV:-uv}"
folder=conf/requirements
together=(spark kafka msk mcp report test docs mutants release)
# The release of Spark that is installed where none is asked for, its client, and the pandas that is tested with it.
spark="$(sed -n 's/^DEFAULT_PINS="\([^"]*\)".*/\1/p' conf/launcher.sh)"
pandas='pandas<3'
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# The last versions with a wheel for Macs with Intel processors; mutants, which needs a newer libcst, has none there.
intel() { printf "%s ; sys_platform == 'darwin' and platform_machine == 'x86_64'\n" "$@"; }
{ printf '%s\n' "$spark" "${spark/pyspark/pyspark-client}" "$pandas"; intel 'cryptography<49'; } >"$work/pins.txt"

compile() { # OUTPUT, then what is compiled: no network address and no folder gets into the file
  local output="$1"; shift
  "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
    --constraint "$work/pins.txt" --output-file "$work/$output" "$@"
  { printf '# Made by conf/requirements/renew.sh; not edited by hand.\n'; cat "$work/$output"; } >"$folder/$output"
}

compile all.txt pyproject.toml $(printf -- '--extra %s ' "${together[@]}")
rm "$folder/all.txt"
grep -v '^ *--hash' "$work/all.txt" | tr -d '\\' >>"$work/pins.txt"
compile core.txt pyproject.toml
for extra in "${together[@]}"; do compile "$extra.txt" pyproject.toml --extra "$extra"; done
compile embedded.txt pyproject.toml --extra embedded
# The engine beside Spark: its entry alone.
{ head -1 "$folder/embedded.txt"; sed -n '/^pysail==/,/[^\\]$/p' "$folder/embedded.txt"; } >"$folder/sail.txt"
{ printf '%s\n' "$pandas"; intel 'cryptography<49' 'libcst<1.9' 'lazy-object-proxy<1.12'; } >"$work/pins.txt"
compile airflow.txt pyproject.toml --extra kafka --extra airflow --extra lineage
# uv itself, which a set-up fetches where it is not on the PATH.
echo uv >"$work/uv.in"
compile uv.txt "$work/uv.in"
