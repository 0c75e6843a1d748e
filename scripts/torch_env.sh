#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with the CUDA build of PyTorch, if it is missing, and prints its Python.
#
#   scripts/torch_env.sh          PyTorch 2.15, built for CUDA 13
#   scripts/torch_env.sh 2.6      PyTorch 2.6, built for CUDA 12.4
#
# It lies in a cache folder outside the source tree and needs 1.5 to 3 GB. NVIDIA's libraries, another
# 3 GB, are left out: virtual CUDA takes their place.
set -euo pipefail

version="${1:-2.15}"
case "$version" in
  2.15) packages=('torch==2.15.*' 'setuptools>=77.0.3') ;;
  2.6) packages=('torch==2.6.*' 'setuptools<81') ;;
  *)
    echo "usage: scripts/torch_env.sh [2.15|2.6]" >&2
    exit 2
    ;;
esac

home=~ # Unlike $HOME, ~ is known even where the environment is empty.
folder="${XDG_CACHE_HOME:-$home/.cache}/fragscope/torch-$version"
if [[ ! -e "$folder/complete" ]]; then
  echo "torch_env: installing PyTorch $version into $folder" >&2
  # Debian's own Python, since python3-venv belongs to it and not to another one on PATH.
  python=python3
  if [[ -x /usr/bin/python3 ]]; then python=/usr/bin/python3; fi
  "$python" -m venv "$folder"
  pip=("$folder/bin/pip" --quiet --disable-pip-version-check)
  "${pip[@]}" install --no-cache-dir --no-deps "${packages[@]}"
  # What PyTorch's Python part needs; quiet about the dependencies that were left out.
  "${pip[@]}" install --no-cache-dir \
    filelock fsspec jinja2 networkx numpy sympy typing-extensions 2>/dev/null
  touch "$folder/complete"
fi
echo "$folder/bin/python"
