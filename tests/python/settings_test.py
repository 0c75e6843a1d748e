# SPDX-License-Identifier: Apache-2.0
"""Our tokens in PyTorch's settings, whatever stands around them: what is read, what is left for PyTorch, and
that nothing but one line comes of what is wrong."""

import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "allocator" / "python"))

from fragscope import loader, settings  # noqa: E402

CUDA, HIP, GENERIC = settings.VARIABLES


def read(text, variable=CUDA):
    return settings.read({variable: text})


class Tokens(unittest.TestCase):
    def test_each_backend_is_a_way_in(self):
        for text, way in (("backend:fragscope", "dropin"), ("backend:fragscope_attach", "attach"),
                          (" backend : fragscope ", "dropin"), ("back end:frag\tscope_attach", "attach")):
            with self.subTest(text=text):
                request = read(text)
                self.assertEqual((request.way, request.rest, request.options), (way, "", {}))

    def test_settings_become_what_the_engine_takes(self):
        request = read("backend:fragscope,fragscope_ring:64MiB,fragscope_dir: /a b:c/d ,"
                       "fragscope_stacks:python,fragscope_min_stack_size:1.5M")
        self.assertEqual(request.options, {"ring_bytes": str(64 << 20), "directory": "/a b:c/d",
                                           "stacks": "python", "min_stack_size": str(3 << 19)})

    def test_what_is_left_is_pytorchs_to_the_letter(self):
        rest = " max_split_size_mb : 64 ,roundup_power2_divisions:[256:1,512:2,>:8],,garbage_collection_threshold:0.5,"
        for at in range(3):
            pieces = rest.split(",roundup")  # A place in front of a bracket, and both ends.
            text = {0: "backend:fragscope," + rest, 1: f"{pieces[0]},backend:fragscope,roundup{pieces[1]}",
                    2: rest + ",backend:fragscope"}[at]
            with self.subTest(text=text):
                self.assertEqual(read(text).rest, rest)

    def test_what_stands_in_brackets_is_not_ours(self):
        for text in ("roundup_power2_divisions:[256:1,backend:fragscope]", "a:[backend:fragscope",
                     "a:[[1],fragscope_ring:1]"):
            with self.subTest(text=text):
                self.assertIsNone(read(text))
                self.assertEqual(settings.hidden({CUDA: text}), {})
        self.assertEqual(read("]:],backend:fragscope").way, "dropin")

    def test_texts_that_are_not_for_us_ask_for_nothing(self):
        for text in ("", ",", "backend:native", "backend:cudaMallocAsync", "max_split_size_mb:64", "foo",
                     "backend:Fragscope", "backend:native:fragscope", "xfragscope_ring:1", "a:fragscope"):
            with self.subTest(text=text):
                self.assertIsNone(read(text))
                self.assertEqual(settings.hidden({CUDA: text}), {})

    def test_sizes(self):
        for text, size in (("0", 0), ("1", 1), ("4096B", 4096), ("1K", 1024), ("2KiB", 2048), ("0.5G", 1 << 29),
                           ("1TiB", 1 << 40), ("999999999999999", 999999999999999)):
            self.assertEqual(settings.size_bytes(text), size, text)
        for text in ("", "-1", "1MB", "1mb", "1m", "MiB", "1 MiB", "0x10", "1e6", ".5G", "1.G", "9" * 16,
                     "9999999TiB", "\u0661\u0662", "1\n", "inf", "nan"):
            self.assertIsNone(settings.size_bytes(text), text)


class Wrong(unittest.TestCase):
    def test_it_is_one_line_that_names_the_token_and_the_cure(self):
        for text, *words in (
                ("fragscope", "fragscope:", "backend:fragscope"),
                ("fragscope_attach", "fragscope_attach:", "backend:fragscope_attach"),
                ("backend:fragscope,fragscope_rng:1MiB", "fragscope_rng:1MiB", "fragscope_ring"),
                ("backend:fragscope,fragscope_ring:64MB", "fragscope_ring:64MB", "64MiB"),
                ("backend:fragscope,fragscope_ring:0", "fragscope_ring:0", "64MiB"),
                ("backend:fragscope,fragscope_ring:", "fragscope_ring", "64MiB"),
                ("backend:fragscope,fragscope_ring", "fragscope_ring", "64MiB"),
                ("backend:fragscope,fragscope_stacks:cpp", "fragscope_stacks:cpp", "off, python, all"),
                ("backend:fragscope,fragscope_dir: ", "fragscope_dir", "/dev/shm"),
                ("backend:fragscope_drop", "backend:fragscope_drop", "backend:fragscope_attach"),
                ("backend:fragscope,backend:fragscope", "backend:fragscope and backend:fragscope", "one"),
                ("backend:fragscope,backend:fragscope_attach", "backend:fragscope_attach", "one"),
                ("backend:native,backend:fragscope", "backend:native and backend:fragscope", "one"),
                ("backend:fragscope,fragscope_ring:1M,fragscope_ring:2M", "fragscope_ring:2M", "one"),
                ("fragscope_ring:1M", "fragscope_ring:1M", "backend:fragscope_attach"),
                ("backend:fragscope,fragscope_\x1b[31m" + "x" * 500, "fragscope_?[31m", "...")):
            with self.subTest(text=text):
                with self.assertRaises(settings.SettingsError) as raised:
                    read(text)
                message = str(raised.exception)
                for word in words:
                    self.assertIn(word, message)
                self.assertTrue(message.isprintable(), message)
                self.assertLess(len(message), 250)


class Variables(unittest.TestCase):
    def test_the_first_that_is_set_counts_alone(self):
        ours = "backend:fragscope"
        for environ, variable in (({CUDA: ours}, CUDA), ({HIP: ours}, HIP), ({GENERIC: ours}, GENERIC),
                                  ({HIP: ours, GENERIC: "backend:fragscope_attach"}, HIP)):
            self.assertEqual(settings.read(environ).variable, variable)
        for environ, overlooked in (({CUDA: "", GENERIC: ours}, GENERIC), ({HIP: "a:1", GENERIC: ours}, GENERIC),
                                    ({CUDA: "a:1", HIP: ours}, HIP)):
            self.assertIsNone(settings.read(environ))
            self.assertEqual(settings.overlooked(environ), overlooked)
        self.assertIsNone(settings.overlooked({CUDA: ours, GENERIC: "fragscope_ring:1"}))

    def test_a_variable_that_is_left_with_nothing_stays_set(self):
        environ = {CUDA: "backend:fragscope", GENERIC: "max_split_size_mb:64"}
        self.assertEqual(settings.hidden(environ), {CUDA: ("backend:fragscope", "")})

    def test_what_run_asks_for_stands_above_the_variable(self):
        run = {settings.RUN_VARIABLE: "fragscope_dir:/x,fragscope_ring:1M"}
        for text, way in (("", "attach"), ("max_split_size_mb:64", "attach"), ("backend:fragscope", "dropin"),
                          ("backend:native", "attach")):
            request = settings.read({CUDA: text, **run})
            self.assertEqual((request.way, request.options["directory"]), (way, "/x"))
            self.assertEqual(request.rest, settings.without_ours(text))
        chosen = {settings.RUN_VARIABLE: "fragscope_dir:/x,backend:fragscope_attach"}
        request = settings.read({CUDA: "backend:fragscope,fragscope_dir:/y,fragscope_stacks:all", **chosen})
        self.assertEqual((request.way, request.options), ("attach", {"directory": "/x", "stacks": "all"}))
        self.assertEqual(settings.read(run).variable, settings.RUN_VARIABLE)


class AnyText(unittest.TestCase):
    """Texts put together at random, from pieces that mean something and from noise."""

    PIECES = ["backend:fragscope", "backend:fragscope_attach", "backend:native", "fragscope_ring:1MiB", "fragscope",
              "fragscope_dir:/x", "fragscope_stacks:off", "max_split_size_mb:64", "roundup_power2_divisions:[1:2,>:4]",
              "[", "]", ",", ":", " ", "\t", "\n", "\x00", "\udcff", "\u2028", "=", "a" * 300, "fragscope_ring:",
              "frag scope", "BACKEND:fragscope", "[backend:fragscope]"]

    def texts(self, count=20000, seed=1):
        draw = random.Random(seed)
        for _ in range(count):
            yield draw.choice(("", ",")).join(draw.choice(self.PIECES) for _ in range(draw.randrange(1, 9)))

    def test_only_settings_errors_are_raised_and_nothing_of_ours_is_left(self):
        asked = wrong = 0
        for text in self.texts():
            rest = settings.without_ours(text)
            self.assertEqual(settings.without_ours(rest), rest, text)
            self.assertFalse(any(map(settings.is_ours, settings.split(rest))), text)
            theirs = [piece for piece in settings.split(text) if not settings.is_ours(piece)]
            self.assertEqual(rest, ",".join(theirs))
            try:
                request = read(text)
            except settings.SettingsError as error:
                self.assertTrue(str(error).isprintable(), text)
                wrong += 1
                continue
            self.assertEqual(request is not None, rest != text, text)
            if request:
                asked += 1
                self.assertTrue(loader.names_us({CUDA: text}), text)
        self.assertGreater(asked, 500)
        self.assertGreater(wrong, 500)


if __name__ == "__main__":
    unittest.main()
