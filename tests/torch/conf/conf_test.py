# SPDX-License-Identifier: Apache-2.0
"""Settings strings: what PyTorch makes of thousands of them is what allocator/policy/conf makes of them.

The seed and the number of strings can be set: FRAGSCOPE_SEED, FRAGSCOPE_STRINGS.
"""

import json
import os
import random
import subprocess
import sys
import unittest

import option_strings
import torch
import torch_conf

CONF_PRINT = os.environ["FRAGSCOPE_CONF_PRINT"]
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
SEED = int(os.environ.get("FRAGSCOPE_SEED", "1"))
COUNT = int(os.environ.get("FRAGSCOPE_STRINGS", "20000"))
ONCE = "pinned_max_round_threshold_mb ("  # How the warning begins that a process gives once.


def ours(strings, backend="native", environment=None):
    """What conf_print says of the environment, and of each string."""
    command = [CONF_PRINT, "2.15" if torch_conf.NEW else "2.6", backend]
    run = subprocess.run(command, input="".join(json.dumps(text) + "\n" for text in strings),
                         env=environment or os.environ, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def first_only(results):
    """Drops what a process says once from all but the first."""
    seen = False
    for result in results:
        result["warnings"] = [text for text in result["warnings"] if not (seen and text.startswith(ONCE))]
        seen = seen or any(text.startswith(ONCE) for text in result["warnings"])


def difference(theirs, our):
    """What differs, as lines; none if nothing does."""
    pairs = [(key, theirs[key], our[key]) for key in ("error", "warnings")]
    pairs += [(key, value, our["options"][key]) for key, value in theirs["options"].items()]
    return [f"    {key}: PyTorch {their!r}, fragscope {mine!r}"
            for key, their, mine in pairs if their != mine]


def kind(result):
    return "accepted" if result["error"] is None else result["error"][0]


def varies(name, results):
    """Whether the option had several values: one that never changes would prove nothing."""
    return any(result["options"][name] != results[0]["options"][name] for result in results)


class Strings(unittest.TestCase):
    def test_thousands_of_strings_do_what_they_do_in_pytorch(self):
        backend = torch.cuda.get_allocator_backend()
        torch.empty(1, device="cuda")  # The objects exist.
        torch_conf.check_layout()
        draws = random.Random(SEED)
        strings = ["", *(option_strings.draw(draws, not torch_conf.NEW) for _ in range(COUNT))]

        our = ours(strings, backend)[1:]
        kept = [(text, result) for text, result in zip(strings, our) if not result["undefined"]]
        with torch_conf.StandardError() as stderr:
            theirs = [torch_conf.apply(text, stderr) for text, _ in kept]
        first_only(theirs)
        first_only(result for _, result in kept)

        differences = [(text, lines) for (text, result), their in zip(kept, theirs)
                       if (lines := difference(their, result))]
        counts = {name: sum(kind(their) == name for their in theirs) for name in
                  sorted({kind(their) for their in theirs})}
        print(f"{torch.__version__}, {backend}, seed {SEED}: {len(kept)} strings compared {counts}, "
              f"{sum(bool(their['warnings']) for their in theirs)} with warnings, "
              f"{len(strings) - len(kept)} left out as undefined, {len(differences)} differences")
        for text, lines in differences[:10]:
            print(f"  {text!r}", *lines, sep="\n")
        self.assertEqual(differences, [])
        self.assertGreater(counts["accepted"], COUNT // 10)
        self.assertEqual([name for name in theirs[0]["options"] if not varies(name, theirs)], [])


class OtherBackend(unittest.TestCase):
    def test_the_loaded_backend_decides_which_name_is_refused(self):
        run = subprocess.run(
            [sys.executable, __file__, "Strings"], check=False,
            env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync",
                 "FRAGSCOPE_STRINGS": str(COUNT // 4)})

        self.assertEqual(run.returncode, 0)


class Environment(unittest.TestCase):
    """Which variable is read, and in which order; each in a process of its own."""

    def theirs(self, environment):
        program = ("import json, torch, torch_conf\n"
                   "try: torch.empty(1, device='cuda'); error = None\n"
                   "except Exception as e: error = torch_conf.error_of(e)\n"
                   "options = torch_conf.options() if error is None else {}\n"
                   "print(json.dumps({'error': error, 'options': options}))\n")
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True,
                             text=True, check=True, cwd=os.path.dirname(os.path.abspath(__file__)))
        return {**json.loads(run.stdout), "warnings": []}

    def check(self, *texts):
        environment = {name: text for name, text in os.environ.items() if name not in VARIABLES}
        environment |= {name: text for name, text in zip(VARIABLES, texts) if text is not None}

        our = ours([], environment=environment)[0]

        with self.subTest(texts=texts):
            self.assertEqual(difference(self.theirs(environment), our), [])

    def test_the_first_variable_that_is_set_counts_alone(self):
        split, fraction = "max_split_size_mb:64", "per_process_memory_fraction:0.5"
        self.check(None, None, None)
        self.check(f"{split},backend:native", None, "max_split_size_mb:128,expandable_segments:True")
        self.check(None, None, f"{split},throw_on_cudamalloc_oom:True")
        self.check("", None, split)
        self.check("expandable_segments:True", split, split)

    def test_the_variable_for_hip_counts_for_half_of_the_options(self):
        self.check(None, "max_split_size_mb:64,throw_on_cudamalloc_oom:True",
                   "max_split_size_mb:128,per_process_memory_fraction:0.5")
        self.check(None, "max_split_size_mb:64,throw_on_cudamalloc_oom:True", None)

    def test_the_options_of_cuda_are_refused_first(self):
        self.check("max_split_size_mb:4,foo:1", None, None)
        self.check("max_split_size_mb:4,throw_on_cudamalloc_oom:x", None, None)
        self.check("max_split_size_mb:4", None, None)


if __name__ == "__main__":
    unittest.main()
