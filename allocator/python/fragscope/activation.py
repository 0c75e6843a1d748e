# SPDX-License-Identifier: Apache-2.0
"""Switches recording on in a process that imports PyTorch, as the environment asks for.

PyTorch knows no backend of ours: it parses its settings when CUDA is first used, and refuses ours. So our
tokens are out of the variable while PyTorch parses, which is made to happen early, and back in it afterwards:
every child process inherits the variable whole, and no job sees it changed.

What goes wrong with a token in PyTorch's own variable is raised as PyTorch raises what is wrong there: when
CUDA is first used. What goes wrong with recording alone is a line on standard error, and the job runs on
without a record."""

import atexit
import os
import sys

from . import engine, settings, shim


_LAST = -1000  # Among multiprocessing's finalizers.


class _State:
    """Of this process."""

    prepared = False  # The environment has been read, and our tokens are hidden.
    done = False
    recording = False
    request = None
    error = None  # What is wrong with the tokens.
    whole = {}  # Hidden variables, as they were.
    arrange_end = None  # See _end_well_in_children.


def say(text):
    """A line for people; a job without standard error misses it."""
    try:
        print(f"fragscope: {text}", file=sys.stderr, flush=True)
    except (AttributeError, OSError, ValueError):
        pass


def before_torch():
    """PyTorch is about to be imported."""
    if not _State.prepared:
        _prepare()


def without_torch():
    """PyTorch could not be imported."""
    _restore()
    _State.prepared = False


def after_torch():
    """PyTorch is there, and has not used CUDA yet, as far as it went well."""
    if _State.done:
        return
    _State.done = True
    before_torch()
    torch = sys.modules["torch"]
    try:
        if _State.error:
            _fail(torch, _State.error)
        elif _State.request:
            _activate(torch, _State.request)
    finally:
        _restore()


def attach(**tokens):
    """Recording of PyTorch's own allocator from now on; whether there is any."""
    if _State.recording:
        return True
    import torch

    if _State.recording:  # The environment asked for it, too.
        return True
    text = ",".join(f"{name}:{value}" for name, value in tokens.items() if value is not None)
    try:
        request = settings.read({settings.RUN_VARIABLE: text})
        if torch.version.cuda is None:
            say("nothing to record: this PyTorch is built without CUDA")
        else:
            _install(torch, request)
    except _NOT_RECORDED as error:
        say(f"not recorded: {error}")
    except Exception as error:
        say(f"not recorded: {_unexpected(error)}")
    return _State.recording


class _Refused(Exception):
    """PyTorch's side does not let us in; one line."""


_NOT_RECORDED = (settings.SettingsError, shim.CannotBuild, engine.EngineError, _Refused)


def _prepare():
    _State.prepared = True
    try:
        _State.request = settings.read(os.environ)
    except settings.SettingsError as error:
        _State.error = str(error)
    found = settings.hidden(os.environ)
    _State.whole = {name: whole for name, (whole, _) in found.items()}
    for name, (_, rest) in found.items():
        os.environ[name] = rest
    overlooked = settings.overlooked({**os.environ, **_State.whole})
    if overlooked:
        counts = settings.effective(os.environ)[0]
        say(f"{overlooked} names a backend of ours and does not count, since {counts} is set, which PyTorch "
            "reads instead")


def _restore():
    os.environ.update(_State.whole)


def _is_demanded():
    """Whether a token of ours stands where PyTorch itself would have raised an error about it."""
    return bool(_State.whole)


def _version(torch):
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in torch.__version__.split(".")[:2])


def _fail(torch, reason):
    """As PyTorch does where its variable is wrong, or quietly where it is not."""
    if not _is_demanded():
        say(f"not recorded: {reason}")
        return
    error_type = ValueError if _version(torch) >= (2, 10) else RuntimeError
    message = f"fragscope: {reason}"
    if torch.cuda.is_initialized():
        raise error_type(message)

    def refuse(_):
        raise error_type(message)

    _at_start_of_cuda(torch, refuse)


def _at_start_of_cuda(torch, action):
    """Has `action` done instead of PyTorch's own start of CUDA, which it is given."""
    original = getattr(torch._C, "_cuda_init", None)
    if original is not None:  # Built with CUDA.
        torch._C._cuda_init = lambda: action(original)


def _with_our_tokens_hidden(original):
    """For what PyTorch could not parse early: it says itself what is wrong, without having seen us."""
    whole = {name: text for name, (text, _) in settings.hidden(os.environ).items()}
    for name, text in whole.items():
        os.environ[name] = settings.without_ours(text)
    try:
        return original()
    finally:
        os.environ.update(whole)


def _follow_environment(torch):
    """A job may set the variable behind its import of PyTorch, up to its first use of CUDA, where PyTorch
    would have read it. What is set then is set; an option that is gone by then stays as it was."""
    # Before 2.10 the allocator knows the first variable only.
    def read():
        variables = settings.VARIABLES if _version(torch) >= (2, 10) else settings.VARIABLES[:1]
        return settings.rest({name: os.environ[name] for name in variables if name in os.environ})

    parsed = read()

    def take(original):
        now = read()
        if now != parsed:
            _parse_settings(torch, now)
        return original()

    _at_start_of_cuda(torch, take)


def _activate(torch, request):
    if torch.version.cuda is None:
        if torch.version.hip is not None:
            _fail(torch, f"{request.token}: PyTorch for ROCm is not supported; take it out")
        return  # Without a GPU there is nothing to record, and nothing to refuse.
    try:
        _install(torch, request)
    except shim.CannotBuild as error:
        _without_compiled_part(torch, request, error)
    except (engine.EngineError, _Refused) as error:
        _do_without(torch, request, error)
    except Exception as error:  # Out of the import of PyTorch it would end the job.
        if _has_torch_parsed(torch, request):
            _do_without(torch, request, _unexpected(error))


def _unexpected(error):
    """What nobody thought of, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _do_without(torch, request, reason):
    if request.way == "attach":  # To record is all that was asked for.
        say(f"not recorded: {reason}")
    else:
        _fail(torch, f"{request.token}: {reason}")


def _has_torch_parsed(torch, request):
    """Has it done while our tokens are hidden, without the compiled part; whether nothing is wrong."""
    if _State.whole or request.way == "dropin":
        try:
            _parse_settings(torch, _settings_for_torch(torch, request))
        except (RuntimeError, ValueError):
            # Not ours to say: PyTorch finds the same again, and raises it where it always does.
            _at_start_of_cuda(torch, _with_our_tokens_hidden)
            return False
    return True


def _without_compiled_part(torch, request, error):
    """What can be had without a compiler."""
    if not _has_torch_parsed(torch, request):
        return
    if request.way == "dropin" and not torch.cuda.is_initialized():
        _plug_in(torch, request, error)
    else:
        say(f"not recorded: {error}")


def _install(torch, request):
    """Lets the part that is compiled for this PyTorch put us in; raises what _NOT_RECORDED lists."""
    part = shim.load(torch, say)
    if _State.whole:
        wrong = part.fragscope_torch_parse_settings()
        if wrong is not None:
            # Not ours to say: PyTorch finds the same again, and raises it with its own type and words.
            _at_start_of_cuda(torch, _with_our_tokens_hidden)
            return
        _follow_environment(torch)
    _configure(torch, request)
    reason = part.fragscope_torch_install(os.fsencode(engine.path()), request.way.encode())
    if reason is not None:
        raise _Refused(reason.decode(errors="replace"))
    _State.recording = True
    atexit.register(part.fragscope_torch_flush)
    _end_well_in_children(part.fragscope_torch_flush)


def _end_well_in_children(flush):
    """multiprocessing ends its children without what runs at an exit, but for finalizers of its own."""
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is None or process is None:  # Not a child, and none will come: PyTorch imports them itself.
        return

    def end():
        flush()
        engine.end()

    def arrange(_):
        util.Finalize(None, end, exitpriority=_LAST)

    _State.arrange_end = arrange  # Their list does not keep it alive.
    # As a child begins it forgets the finalizers that there are.
    util.register_after_fork(arrange, arrange)
    if process.parent_process() is not None:
        arrange(None)


def _settings_for_torch(torch, request):
    """What PyTorch reads. Before 2.10 its allocator knows the first variable only."""
    is_read = _version(torch) >= (2, 10) or request.variable == settings.VARIABLES[0]
    return request.rest if is_read else ""


def _configure(torch, request):
    engine.load()
    engine.configure("torch_version", torch.__version__)
    engine.configure("conf", _settings_for_torch(torch, request))
    tokens = {option: token for token, option in settings.OPTIONS.items()}
    for name, value in request.options.items():
        try:
            engine.configure(name, os.path.abspath(value) if name == "directory" else value)
        except engine.EngineError as error:
            raise engine.EngineError(f"{tokens[name]}: {error}") from error


def _parse_settings(torch, text):
    """As PyTorch would when CUDA starts, which it does not with another allocator than its own: whatever
    asks for a setting later would parse the variable."""
    if _version(torch) >= (2, 10):
        torch._C._accelerator_setAllocatorSettings(text)
    else:
        torch.cuda.memory._set_allocator_settings(text)


def _plug_in(torch, request, error):
    """The allocator as a pair of C functions, which needs no compiler."""
    try:
        _configure(torch, request)
    except engine.EngineError as wrong:
        _fail(torch, f"{request.token}: {wrong}")
        return
    memory = torch.cuda.memory
    library = engine.load()
    allocator = memory.CUDAPluggableAllocator(str(engine.path()), "fragscope_alloc", "fragscope_free")
    handle = allocator.allocator()
    for setter, function in (("set_record_stream_fn", library.fragscope_record_stream),
                             ("set_reset_fn", library.fragscope_empty_cache),
                             ("set_memory_fraction_fn", library.fragscope_memory_fraction),
                             ("set_base_alloc_fn", library.fragscope_base_alloc)):
        getattr(handle, setter)(engine.address_of(function))
    memory.change_current_allocator(allocator)
    _State.recording = True
    _end_well_in_children(lambda: None)
    say(f"{error}; {request.token} runs as a plug-in: without memory statistics, snapshots and pools, and "
        "a request that fails is a RuntimeError")
