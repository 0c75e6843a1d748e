#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which of NVIDIA's functions a PyTorch needs that our libraries do not offer.

    virtual_cuda/stubs/missing_names.py build/dev/virtual_cuda SITE-PACKAGES/torch/lib

For a new version of PyTorch: what this prints belongs into entry_points.txt. The exit code is 1 if
anything is missing.
"""

import re
import subprocess
import sys
from pathlib import Path

NVIDIAS = re.compile(r"(__cuda|cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|cupti|nccl|nvrtc|nvml"
                     r"|nvshmem|cu[A-Z])\w*$")
WEAK = "wv"


def symbols(library, defined):
    """Names with their version nodes, as NAME or NAME@NODE."""
    option = "--defined-only" if defined else "--undefined-only"
    listed = subprocess.run(["nm", "-D", option, str(library)], check=True, capture_output=True,
                            text=True).stdout
    for line in listed.splitlines():
        *_, kind, name = line.split()
        if defined or kind not in WEAK:
            yield name.replace("@@", "@")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ours, theirs = (Path(argument) for argument in sys.argv[1:])
    offered = {name for library in ours.glob("lib*.so*") for name in symbols(library, True)}
    offered |= {name.split("@")[0] for name in offered if name.endswith("@NVSHMEM")}
    needed = {name for library in theirs.glob("*.so*") for name in symbols(library, False)
              if NVIDIAS.match(name.split("@")[0])}
    own = {name for library in theirs.glob("*.so*") for name in symbols(library, True)}
    missing = sorted(needed - offered - own)
    for name in missing:
        print(name)
    print(f"{len(needed)} needed, {len(missing)} missing", file=sys.stderr)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
