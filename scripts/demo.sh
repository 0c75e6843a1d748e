#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program and shows what it says about a job that ran out of memory. Needs no GPU and no
# CUDA. Results go to standard output, everything else to standard error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source scripts/setup.sh demo
# Another compiler may warn where ours does not; that must not stop a demo.
cmake --preset cpu -B build/demo -DFRAGSCOPE_WERROR=OFF >&2
cmake --build build/demo --target fragscope --parallel "$(nproc)" >&2

echo "+ build/demo/bin/fragscope analyze fixtures/demo_oom.pickle" >&2
exec build/demo/bin/fragscope analyze fixtures/demo_oom.pickle
