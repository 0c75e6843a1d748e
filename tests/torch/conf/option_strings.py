# SPDX-License-Identifier: Apache-2.0
"""Settings strings, good and hostile, drawn from a seed: every key of both releases and some of none,
values of every kind where they belong and where not, lists, duplicates, and damage."""

FLAGS = ("expandable_segments release_lock_on_cudamalloc release_lock_on_hipmalloc "
         "pinned_use_cuda_host_register pinned_use_hip_host_register pinned_use_background_threads "
         "pinned_free_catch_all graph_capture_record_stream_reuse throw_on_cudamalloc_oom").split()
SIZES = ("max_split_size_mb max_non_split_rounding_mb large_segment_size_mb "
         "pinned_reserve_segment_size_mb pinned_max_round_threshold_mb "
         "pinned_max_cached_size_mb pinned_num_register_threads").split()
FRACTIONS = "garbage_collection_threshold per_process_memory_fraction".split()
OTHERS = ("roundup_power2_divisions expandable_segments_reserve "
          "expandable_segments_reserve_by_class backend").split()
STRANGERS = ["", "max_split_size", "Max_Split_Size_mb", "roundup_bypass_threshold_mb", "True", "[", "]", ">",
             "foo", "expandable_segments_page_size", "pinned_use_host_register", "\u00e9", "64"]
# What 2.6 knows too, so that its strings are not all refused for their keys.
OLD = ("expandable_segments release_lock_on_cudamalloc release_lock_on_hipmalloc "
       "pinned_use_cuda_host_register pinned_use_hip_host_register pinned_use_background_threads "
       "max_split_size_mb max_non_split_rounding_mb pinned_num_register_threads "
       "garbage_collection_threshold roundup_power2_divisions roundup_power2_divisions "
       "backend").split()

NUMBERS = ["0", "1", "2", "4", "8", "9", "10", "11", "16", "19", "20", "21", "32", "64", "65", "100", "128",
           "256", "512", "1024", "4096", "65536", "+64", "-1", "-0", "-64", "-9223372036854775808", "0064",
           "0x40", "1e3", "128.7", "64MB", "2147483647", "2147483648", "-2147483648", "-2147483649",
           "1073741824", "4294967296", "17592186044415", "17592186044416", "99999999999999",
           "9223372036854775807", "9223372036854775808", "18446744073709551615",
           "18446744073709551616", "99999999999999999999999", "abc", "", "\t64", "6\t4", "\v32"]
DOUBLES = ["0", "0.0", "0.5", ".5", "5.", "0.8x", "1", "1.0", "0.999", "1e-3", "1e-400", "1e400", "-0.5", "-0",
           "nan", "-nan", "inf", "infinity", "0x1p-1", "0x", "1e", "1e+", "+0.25", "++1", "0.5e", "1,5",
           "5e-324", "2.3e-308", "abc", "", "1.0000000000000001", "\t0.5"]
RESERVES = ["0.5", "40G", "40g", "G", "1.5GG", "0", "-1", "1e308G", "1e309", "inf", "nan", "1e-400", "0x10", "1e",
            "2 G", "0.5x", "+1", "5.", ".5", "1e5G", "", "abc", "1.125", "1'0", "1_0"]
WORDS = ["True", "False", "true", "1", "0", "TRUE", "yes", "", "Tru e", "native", "cudaMallocAsync",
         "hipMallocAsync", "Native", "[", "]", ">", ":", ","]
BACKENDS = ["native", "native", "cudaMallocAsync", "hipMallocAsync", "foo", "", "[native]"]
DAMAGE = [",", ":", "[", "]", " ", "=", ";", ">", "\t", "\n", "\r", "\f", "\v", "-", "0", "\0", "\u00a0"]


def _listed(random, item):
    items = [item() for _ in range(random.choice((0, 1, 1, 2, 3, 4)))]
    closing = random.choice(("]",) * 12 + ("", ",]", "]]"))
    return "[" + ",".join(items) + closing


def _power(random):
    return str(1 << random.choice((*range(0, 18), 20, 30, 31, 32, 40, 55, 63)))


def _division(random):
    if random.random() < 0.85:
        boundary = random.choice((str(1 << random.randrange(18)),) * 4 + (">",))
        return boundary + ":" + random.choice(("0", str(1 << random.randrange(7))))
    boundary = random.choice((_power(random), ">", random.choice(NUMBERS)))
    value = random.choice((_power(random), random.choice(NUMBERS)))
    return boundary + random.choice((":", ":", ":", "", "=")) + value


def _reserve_class(random):
    name = random.choice(("a", "b", "serving", "x y", "", "[", "\u00e9"))
    return name + ":" + random.choice(RESERVES[:4] + RESERVES)


def _value(random, key):
    if random.random() < 0.07:
        return random.choice(NUMBERS + DOUBLES + RESERVES + WORDS)
    if key in FLAGS:
        return random.choice(("True", "False") * 20 + tuple(WORDS))
    if key == "pinned_num_register_threads":
        return random.choice([str(1 << random.randrange(9)), random.choice(NUMBERS)])
    if key in SIZES:
        return random.choice([str(random.randrange(8, 300)), random.choice(NUMBERS)])
    if key in FRACTIONS:
        return random.choice([f"{random.random():.3f}", random.choice(DOUBLES)])
    if key == "backend":
        return random.choice(BACKENDS)
    if key == "expandable_segments_reserve":
        return random.choice(RESERVES)
    if key == "expandable_segments_reserve_by_class":
        return _listed(random, lambda: _reserve_class(random))
    if key == "roundup_power2_divisions":
        return random.choice((_power(random), random.choice(NUMBERS),
                              _listed(random, lambda: _division(random)),
                              _listed(random, lambda: _division(random))))
    return random.choice(NUMBERS + DOUBLES + WORDS)


def _damaged(random, text):
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(text) + 1)
        kind = random.randrange(4)
        if kind == 0:
            text = text[:at] + text[at + 1:]
        elif kind == 1:
            text = text[:at] + random.choice(DAMAGE) + text[at:]
        elif kind == 2:
            text = text[:at] + random.choice(DAMAGE) + text[at + 1:]
        else:
            text = text[:at]
    return text


def draw(random, old):
    """One string; `old`: mostly of keys that 2.6 knows."""
    keys = OLD if old and random.random() < 0.95 else FLAGS + SIZES + FRACTIONS + OTHERS + OTHERS
    pairs = []
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 4, 6))):
        key = random.choice(keys) if random.random() < 0.97 else random.choice(STRANGERS)
        pairs.append(key + random.choice((":",) * 40 + (" : ", "", "=", "::")) + _value(random, key))
    if pairs and random.random() < 0.1:
        pairs.append(random.choice(pairs))
    text = random.choice((",",) * 12 + (" , ", "\n,", ";", ",,")).join(pairs)
    text += random.choice(("",) * 12 + (",", " ", ",,"))
    return _damaged(random, text) if random.random() < 0.15 else text
