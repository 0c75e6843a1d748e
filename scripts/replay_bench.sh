#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times replay beside PyTorch's own allocator fed the same requests, in one process, on virtual CUDA. Needs
# `cmake --preset release && cmake --build build/release`; arguments go to the benchmark.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh test
build=build/release
bash scripts/torch_env.sh >/dev/null
library="$(python3 tests/fidelity/native/build_native.py --torch 2.15 --output "$build/native" \
  --cuda-include "$(dirname "$(dirname "$CUDACXX")")/include")"
export FRAGSCOPE_NATIVE_ALLOCATOR="$library"
exec virtual_cuda/run --libraries "$build/virtual_cuda" --gpus 1 --memory 80GiB -- \
  "$build/bin/replay_bench" "$@"
