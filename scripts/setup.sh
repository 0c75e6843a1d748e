#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Debian 12 machine ready to build fragscope: installs what is missing, nothing else.
#
#   source scripts/setup.sh demo    compiler, CMake and libraries: enough for the program
#   source scripts/setup.sh test    also test tools, clang, and a CUDA compiler where there is none
#
# Sourced, it also exports where that CUDA compiler lies. Run as a program it prints those exports.

fragscope_setup_log() { echo "setup: $*" >&2; }

# Installs those of the named Debian packages that are missing; silent if none is.
fragscope_setup_packages() {
  if ! command -v dpkg-query >/dev/null; then
    fragscope_setup_log "not a Debian system; the equivalents of these must be there: $*"
    return 0
  fi
  local package missing=()
  for package in "$@"; do
    if [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]]; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then return 0; fi

  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      fragscope_setup_log "not root and no sudo; please have installed: ${missing[*]}"
      return 1
    fi
    as_root=(sudo)
  fi
  fragscope_setup_log "installing ${missing[*]}"
  local log
  log="$(mktemp)"
  if ! { "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fragscope_setup_log "apt-get failed (its output is above)"
    return 1
  fi
  rm -f "$log"
}

# The first nvcc that can compile for all our architectures (13.0 or later), or nothing.
fragscope_setup_find_nvcc() {
  local nvcc release
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc)" /usr/local/cuda/bin/nvcc; do
    if [[ ! -x "$nvcc" ]]; then continue; fi
    release="$("$nvcc" --version 2>/dev/null | sed -n 's/^.*release \([0-9]*\)\..*$/\1/p')"
    if ((${release:-0} >= 13)); then
      echo "$nvcc"
      return 0
    fi
  done
  return 0
}

# Sets CUDACXX to an nvcc; where there is none, installs NVIDIA's compiler packages from PyPI into a
# cache folder outside the source tree (about 500 MiB, once).
fragscope_setup_cuda() {
  local nvcc
  nvcc="$(fragscope_setup_find_nvcc)"
  if [[ -n "$nvcc" ]]; then
    export CUDACXX="$nvcc"
    return 0
  fi

  local cache home=~ # Unlike $HOME, ~ is known even where the environment is empty.
  cache="${XDG_CACHE_HOME:-$home/.cache}/fragscope/cuda-13.0"
  if [[ ! -e "$cache/complete" ]]; then
    fragscope_setup_log "no nvcc found: installing CUDA 13.0's compiler from PyPI into $cache"
    rm -rf "$cache"
    mkdir -p "$cache"
    # Debian's own Python, since python3-venv belongs to it and not to another one on PATH.
    local python=python3
    if [[ -x /usr/bin/python3 ]]; then python=/usr/bin/python3; fi
    "$python" -m venv "$cache/venv" || return 1
    "$cache/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
      'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-cccl==13.0.*' \
      'nvidia-cuda-runtime==13.0.*' 'nvidia-nvvm==13.0.*' || return 1
    local toolkit
    toolkit="$(echo "$cache"/venv/lib/python3.*/site-packages/nvidia/cu13)"
    # nvcc and CMake look for libraries in lib64, and CMake for the plain name of the runtime, even
    # where only the static one will be linked.
    ln -sfn lib "$toolkit/lib64" || return 1
    ln -sfn libcudart.so.13 "$toolkit/lib/libcudart.so" || return 1
    ln -sfn "$toolkit" "$cache/toolkit" || return 1
    touch "$cache/complete"
  fi
  export CUDACXX="$cache/toolkit/bin/nvcc"
  export CUDAToolkit_ROOT="$cache/toolkit"
}

# clang-tidy from PyPI: from 21 on it passes over system headers, which takes a third of the time.
fragscope_setup_clang_tidy() {
  local cache home=~
  cache="${XDG_CACHE_HOME:-$home/.cache}/fragscope/clang-tidy-23"
  if [[ ! -x "$cache/bin/clang-tidy" ]]; then
    fragscope_setup_log "installing clang-tidy 23 from PyPI into $cache"
    local python=python3
    if [[ -x /usr/bin/python3 ]]; then python=/usr/bin/python3; fi
    "$python" -m venv "$cache" || return 1
    "$cache/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir \
      'clang-tidy==23.1.4' || return 1
  fi
}

fragscope_setup() {
  local demo_packages=(
    g++ cmake ninja-build
    libabsl-dev libboost-dev libcli11-dev libexpected-dev libfmt-dev libzstd-dev nlohmann-json3-dev zlib1g-dev)
  local test_packages=(
    git ccache python3 python3-venv ca-certificates
    clang-14 clang-format-14 libclang-rt-14-dev
    libgtest-dev libgmock-dev libbenchmark-dev libspdlog-dev)
  case "${1:-}" in
    demo)
      fragscope_setup_packages "${demo_packages[@]}"
      ;;
    test)
      fragscope_setup_packages "${demo_packages[@]}" "${test_packages[@]}" && fragscope_setup_cuda &&
        fragscope_setup_clang_tidy
      ;;
    *)
      echo "usage: source scripts/setup.sh demo|test" >&2
      return 2
      ;;
  esac
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  set -euo pipefail
  fragscope_setup "$@"
  for name in CUDACXX CUDAToolkit_ROOT; do
    if [[ -n "${!name:-}" ]]; then printf 'export %s=%q\n' "$name" "${!name}"; fi
  done
else
  fragscope_setup "$@"
fi
