# SPDX-License-Identifier: Apache-2.0
"""How fragscope gets into a test's process.

`native` is PyTorch alone. `functions` is PyTorch's own plug-in interface, `attach` and `dropin` go through
the library that is compiled against the installed PyTorch. Each happens before CUDA starts.
"""

import ctypes
import os

WAYS = ("native", "functions", "attach", "dropin")


class CannotEnter(Exception):
    """Why the way is not open."""


def configure(way, torch):
    """Small rings, in the runner's own folder: every test leaves one."""
    library = ctypes.CDLL(way["allocator"])
    library.fragscope_configure.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.fragscope_configure.restype = ctypes.c_char_p
    for name, value in (("directory", way["rings"]), ("ring_bytes", str(1 << 20)),
                        ("torch_version", torch.__version__),
                        ("conf", os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""))):
        refusal = library.fragscope_configure(name.encode(), value.encode())
        if refusal:
            raise CannotEnter(refusal.decode())


def enter(way):
    """`way` has its name, the paths `allocator` and `shim` of the libraries that it needs, and the folder
    `rings`."""
    name = way["name"]
    if name == "native":
        return
    import torch  # The runner's own tests have no PyTorch.

    configure(way, torch)
    if name == "functions":
        plugin = torch.cuda.memory.CUDAPluggableAllocator(
            way["allocator"], "fragscope_alloc", "fragscope_free")
        torch.cuda.memory.change_current_allocator(plugin)
        return
    install = ctypes.CDLL(way["shim"], mode=ctypes.RTLD_GLOBAL).fragscope_torch_install
    install.argtypes, install.restype = [ctypes.c_char_p, ctypes.c_char_p], ctypes.c_char_p
    refusal = install(way["allocator"].encode(), name.encode())
    if refusal:
        raise CannotEnter(refusal.decode())
