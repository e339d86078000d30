#!/usr/bin/env bash
# Packs a Python environment for YARN: the versions of the lock, without Spark, which the cluster has.
#   conf/deploy/pack.sh [FILE]     default: build/environment.tar.gz
# Nodes need the same Python at the same path as this machine, as the packed environment leads to it. Where they do not have
# it, conda-pack takes Python along; docs/deploy.md has the commands.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
file="${1:-$root/build/environment.tar.gz}"
packed="$root/build/.venv-packed" packer="$root/build/.venv-packer"

SPARK_ASSIGN_VENV="$packed" SPARK_ASSIGN_CLASS_DATA=no "$root/spark-submit.sh" --set-up kafka,report
"$packed/bin/python" -I -m venv --clear "$packer"
"$packer/bin/python" -I -m pip install --quiet --disable-pip-version-check 'venv-pack==0.2.0' 'setuptools<81'
"$packer/bin/venv-pack" --quiet --prefix "$packed" --output "$file" --force
printf 'Packed %s (%s MB). Put it where every node reads it, for example:\n' "$file" "$(($(wc -c <"$file") / 1000000))"
printf '  hdfs dfs -put -f %s /apps/spark_assign/\n' "$file"
