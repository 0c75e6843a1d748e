# SPDX-License-Identifier: Apache-2.0
"""What runs in every process that imports PyTorch, asked for or not: looks into the environment, and goes
on only where it names us. Hence small, and without an import of its own.

Two ways lead here. PyTorch calls `autoload` at the end of its own import (entry point torch.backends).
Where the variable is set as the interpreter starts, fragscope.pth has called `watch_torch` before: then our
tokens are out of sight already while PyTorch is imported, and PyTorch's own switch for entry points
does not matter."""

import os
import sys

# As PyTorch reads them: the first that is set counts, alone, even if it is empty.
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# What `fragscope run` asks for: tokens of ours and nothing else. They stand above those of the variable.
RUN_VARIABLE = "FRAGSCOPE_RUN"


def names_us(environ):
    """Whether anything there may be for us; cheap, and never misses."""
    return RUN_VARIABLE in environ or any("fragscope" in "".join(environ.get(name, "").split())
                                          for name in VARIABLES)


def autoload():
    """For the entry point."""
    if names_us(os.environ):
        from . import activation

        activation.after_torch()


def watch_torch():
    """For fragscope.pth: has our part done around the import of PyTorch."""
    # Some systems read a folder's .pth files twice.
    if "torch" not in sys.modules and not any(isinstance(f, _TorchFinder) for f in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder())


class _TorchFinder:
    """Finds nothing itself; puts `activation` around PyTorch's own loader, until that has run. To ask where PyTorch
    is, as libraries do, is no import yet."""

    @staticmethod
    def invalidate_caches():
        """Nothing is kept."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        for finder in [finder for finder in sys.meta_path if finder is not self]:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec else None
            if spec is not None:
                _surround(spec.loader)
                return spec
        return None


def _surround(loader):
    """Lets the loader do the same as before with `activation` around it, the next time only."""
    original = getattr(loader, "exec_module", None)
    if original is None:
        return

    def exec_module(module):
        del loader.exec_module
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _TorchFinder)]
        from . import activation

        activation.before_torch()
        try:
            original(module)
        except BaseException:
            activation.without_torch()
            raise
        activation.after_torch()

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass  # A loader of another kind: the entry point remains.
