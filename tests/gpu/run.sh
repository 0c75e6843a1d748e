#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The check on a real GPU: builds the scans with their tests and benchmarks and nothing else, runs the
# tests that need a GPU, the small ones again under compute-sanitizer, and the benchmarks. Less than
# eight minutes, whatever happens.
#
#   tests/gpu/run.sh OUT_DIR           results as JSON, and the logs, in OUT_DIR
#   tests/gpu/run.sh --pack PREFIX     on a machine that has them: the three libraries that the build
#                                      needs (tl-expected, GoogleTest, Google Benchmark), to take along
#
# What must be there: a GPU with its driver, CUDA 13 with compute-sanitizer, CMake, Ninja, a C++20
# compiler. Libraries are looked for in the system and in FRAGSCOPE_GPU_PREFIX (see --pack), and installed
# where neither has them and apt-get can. Exits with 0 only if every stage passed, with 3 if no GPU is there.
set -uo pipefail # Not -e: a stage that fails must not keep the others from running.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

packages=(libexpected-dev libgtest-dev libgmock-dev libbenchmark-dev)
build=build/gpu

# Copies what the packages installed, so that CMake finds it under another prefix.
pack() {
  local prefix="$1" file
  for file in $(dpkg -L "${packages[@]}" | sort -u); do
    case "$file" in
      /usr/include/* | /usr/lib/* | /usr/share/cmake/*) ;;
      *) continue ;;
    esac
    if [[ ! -d "$file" ]]; then
      install -D -m 0644 "$file" "$prefix/${file#/usr/}" || return 1
    fi
  done
  # Under the name that an executable asks for when it starts.
  install -D -m 0644 -t "$prefix/lib/x86_64-linux-gnu" /usr/lib/x86_64-linux-gnu/libbenchmark*.so.1*
  echo "packed into $prefix: $(du -sh "$prefix" | cut -f1)"
}

if [[ $# == 2 && "$1" == --pack ]]; then
  pack "$2"
  exit
fi
if [[ $# != 1 || "$1" == -* ]]; then
  echo "usage: tests/gpu/run.sh OUT_DIR | --pack PREFIX" >&2
  exit 2
fi
mkdir -p "$1" && out="$(cd "$1" && pwd)" || exit 2

failed=0
stages=()

# Runs one stage for at most so many seconds, or until the eight minutes are nearly over. Its output goes
# to a log, whose end is shown if it fails.
stage() {
  local name="$1" limit="$2" code=0 started=$SECONDS left=$((470 - SECONDS))
  shift 2
  if ((limit > left)); then limit=$((left > 0 ? left : 1)); fi
  echo "=== $name"
  timeout --kill-after=5 "$limit" "$@" >"$out/$name.log" 2>&1 || code=$?
  stages+=("{\"stage\": \"$name\", \"exit_code\": $code, \"seconds\": $((SECONDS - started))}")
  if ((code == 0)); then return 0; fi
  failed=1
  tail -n 25 "$out/$name.log"
  echo "=== $name: exit code $code"
  return 1
}

write_summary() {
  local separator="" entry
  {
    printf '{"gpu": "%s", "commit": "%s", "passed": %s, "stages": [' "$gpu" "$commit" \
      "$( ((failed == 0)) && echo true || echo false)"
    for entry in ${stages[@]+"${stages[@]}"}; do
      printf '%s\n  %s' "$separator" "$entry"
      separator=","
    done
    printf '\n]}\n'
  } >"$out/summary.json"
  cat "$out/summary.json"
}

commit="$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
# Of the first one: "NVIDIA H200, 9.0".
if ! gpu="$(nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader 2>/dev/null | head -n 1)" ||
  [[ -z "$gpu" ]]; then
  gpu="none"
  failed=1
  write_summary
  echo "no GPU: nvidia-smi lists none on this machine, so nothing was built or run" >&2
  exit 3
fi
export PATH="$PATH:/usr/local/cuda/bin"
export CUDACXX="${CUDACXX:-$(command -v nvcc)}"
architecture="${gpu##*, }"
architecture="${architecture/./}"
generator=Ninja
if ! command -v ninja >/dev/null; then generator="Unix Makefiles"; fi

finish() {
  write_summary
  exit "$failed"
}

configure=(cmake -S . -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release
  -DFRAGSCOPE_ONLY_KERNELS=ON -DFRAGSCOPE_BUILD_BENCH=ON
  -DCMAKE_CUDA_ARCHITECTURES="$architecture")
if [[ -n "${FRAGSCOPE_GPU_PREFIX:-}" ]]; then
  configure+=("-DCMAKE_PREFIX_PATH=$(realpath "$FRAGSCOPE_GPU_PREFIX")")
fi
# Only where something is missing, so that a machine without a network never waits for one.
if ! timeout 60 "${configure[@]}" >/dev/null 2>&1; then
  stage packages 60 bash -c \
    "apt-get update && apt-get install -y --no-install-recommends ${packages[*]}" || finish
fi
stage configure 60 "${configure[@]}" || finish
stage build 160 cmake --build "$build" --parallel "$(nproc)" --target kernels_test \
  kernels_gpu_test kernels_bench || finish
bin="$build/bin"
export LD_LIBRARY_PATH="${FRAGSCOPE_GPU_PREFIX:-}/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}"
stage tests 30 "$bin/kernels_test" --gtest_output="json:$out/tests.json"
stage gpu_tests 50 "$bin/kernels_gpu_test" --gtest_output="json:$out/gpu_tests.json"
# A GPU that is there and cannot be used would have every test skipped, which is no pass.
if grep -q '\[  SKIPPED \]' "$out/gpu_tests.log"; then
  echo "=== gpu_tests: some were skipped"
  failed=1
fi
for tool in memcheck racecheck; do
  stage "$tool" 45 compute-sanitizer --tool "$tool" --error-exitcode 9 \
    "$bin/kernels_gpu_test" --gtest_filter='*Small*'
done
export FRAGSCOPE_BENCH_BLOCKS="${FRAGSCOPE_BENCH_BLOCKS:-1000000000}"
stage bench 90 "$bin/kernels_bench" --benchmark_min_time=0.1 --benchmark_out="$out/bench.json" \
  --benchmark_out_format=json
finish
