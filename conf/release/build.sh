#!/usr/bin/env bash
# Builds the files of a release, and plans the sample from them in an empty environment:
#
#   conf/release/build.sh v0.2.0 dist
#
# In the folder: wheel and source archive, the wheel of the Airflow provider, the software bill of materials
# (CycloneDX), license and age of each dependency, and SHA256SUMS. The tag must name the version of the package, which
# must have a date in CHANGELOG.md. Needs Python 3.11 or newer and Java 17 or newer. Everything comes from the lock.
set -euo pipefail
tag="$1" folder="$(mkdir -p "$2" && cd "$2" && pwd -P)"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
lock=conf/requirements
fail() { echo "build.sh: $1" >&2; exit 2; }

version="$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' spark_assign/__init__.py)"
[[ "$tag" == "v$version" ]] || fail "the tag $tag doesn't name the version of the package, $version"
grep -Eq "^## ${version//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" CHANGELOG.md || fail "CHANGELOG.md has no date for $version"
[[ -z "$(ls "$folder")" ]] || fail "$folder isn't empty"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
install() { "$work/$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"; }
for name in tools empty; do "${PYTHON:-python3}" -m venv "$work/$name"; done
install tools --only-binary :all: --require-hashes -r $lock/release.txt -r $lock/uv.txt

# The wheel is built from the source archive, so that the archive is complete. Times in both are those of the commit.
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH
"$work/tools/bin/python" -m build --no-isolation --outdir "$folder" . >"$work/log" || { cat "$work/log" >&2; exit 3; }
"$work/tools/bin/python" -m build --no-isolation --wheel --outdir "$folder" jobs/airflow >>"$work/log"

# An empty environment gets the wheel and its extras in the locked versions.
extras=(spark kafka msk report)
"$work/empty/bin/python" $lock/install.py "$(IFS=,; echo "${extras[*]}")" >>"$work/log" || { cat "$work/log" >&2; exit 3; }
install empty --no-deps "$folder/spark_assign-$version-py3-none-any.whl"
"$work/empty/bin/python" -m pip --quiet uninstall --yes uv setuptools pip 2>>"$work/log" # not dependencies
"$work/tools/bin/cyclonedx-py" environment "$work/empty/bin/python" --pyproject pyproject.toml --mc-type application \
  --output-reproducible --output-format JSON --output-file "$folder/spark_assign-$version.cdx.json" 2>>"$work/log"
files=(); for name in core "${extras[@]}"; do files+=("$lock/$name.txt"); done
"$work/tools/bin/uv" pip compile --quiet --no-deps --python "$work/empty/bin/python" --format pylock.toml \
  --output-file "$work/pylock.toml" "${files[@]}"
"$work/empty/bin/python" conf/release/dependencies.py "$work/pylock.toml" >"$folder/dependencies.csv"

# From another folder, as a user runs it.
(cd "$work" && env -u PYTHONPATH "$work/empty/bin/spark-assign" plan --sample --output "$work/plan") | tee "$work/plan.txt"
grep -q "19 groups planned, 0 rejected" "$work/plan.txt" || fail "the installed wheel doesn't plan the sample"
(cd "$folder" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
