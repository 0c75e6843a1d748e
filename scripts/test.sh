#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests everything, as the continuous integration does.
#
#   scripts/test.sh                 all presets
#   scripts/test.sh dev asan        only these
#
# The last line is "N passed, N failed, N skipped", summed over all presets; a preset that does not
# configure or build counts as one failure. The exit code is 0 only if nothing failed.
set -uo pipefail # Not -e: a preset that fails must not keep the others from running.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

presets=("$@")
if ((${#presets[@]} == 0)); then presets=(dev asan tsan release fuzz); fi
for preset in "${presets[@]}"; do
  case "$preset" in
    dev | asan | tsan | release | fuzz) ;;
    *)
      echo "usage: scripts/test.sh [dev|asan|tsan|release|fuzz]..." >&2
      exit 2
      ;;
  esac
done

source scripts/setup.sh test || exit 1
export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-2}"
# A clone in another folder compiles the same: let ccache see it so.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR=1
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-2}"

passed=0
failed=0
skipped=0
summary=()
notices=()

# Adds what one preset's tests did to the totals. Takes the preset, the exit code of its run and the
# JUnit file. The file alone would not do: ctest lists a test that could not start as skipped.
count_tests() {
  local name="$1" code="$2" junit="$3" report run_passed run_failed run_skipped
  if [[ ! -e "$junit" ]]; then
    failed=$((failed + 1))
    summary+=("$name: no test ran (configure or build failed, exit code $code)")
    return
  fi
  report="$(python3 scripts/junit_counts.py "$junit")" || report="0 1 0"
  read -r run_passed run_failed run_skipped <<<"$report"
  if ((code != 0 && run_failed == 0)); then run_failed=1; fi
  passed=$((passed + run_passed))
  failed=$((failed + run_failed))
  skipped=$((skipped + run_skipped))
  summary+=("$name: $run_passed passed, $run_failed failed, $run_skipped skipped")
  report="$(sed -n '2,$s/^/  /p' <<<"$report")"
  if [[ -n "$report" ]]; then summary+=("$report"); fi
}

run_preset() {
  local preset="$1" code=0 started=$SECONDS
  local junit="build/$preset/junit.xml"
  echo
  echo "=== $preset"
  rm -f "$junit"
  cmake --workflow --preset "$preset" || code=$?
  count_tests "$preset" "$code" "$junit"
  echo "=== $preset: exit code $code after $((SECONDS - started)) s"
}

# The tests that need a GPU belong to no workflow; here they run where there is one.
run_gpu_tests() {
  local code=0 listed line
  listed="$(ctest --test-dir build/dev -N -L '^gpu$' 2>/dev/null | sed -n 's/^ *Test *#[0-9]*: //p')"
  if [[ -z "$listed" ]]; then return; fi
  echo
  echo "=== gpu"
  if [[ -e /dev/nvidiactl ]]; then
    rm -f build/dev/junit-gpu.xml
    ctest --preset gpu || code=$?
    count_tests gpu "$code" build/dev/junit-gpu.xml
    return
  fi
  while read -r line; do
    echo "SKIPPED, this machine has no GPU: $line"
    skipped=$((skipped + 1))
  done <<<"$listed"
  summary+=("gpu: 0 passed, 0 failed, $(wc -l <<<"$listed") skipped (no GPU)")
}

if [[ ! -d ../shared/snapshots ]]; then
  notices+=("NOTE: ../shared/snapshots is not there: the tests on recordings from the field did not run")
fi
# The dev preset also tests on real PyTorch. Without a network its tests are skipped, not failed.
if [[ " ${presets[*]} " == *" dev "* ]]; then
  bash scripts/torch_env.sh >/dev/null ||
    notices+=("NOTE: PyTorch could not be installed: the tests on it did not run")
fi
for preset in "${presets[@]}"; do
  run_preset "$preset"
  if [[ "$preset" == dev ]]; then run_gpu_tests; fi
done

echo
echo "=== summary"
printf '%s\n' "${summary[@]}" ${notices[@]+"${notices[@]}"}
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
