# SPDX-License-Identifier: Apache-2.0
"""Planted violations: for each check, files and the places (path:line) it must report in them.

Words that the checks look for are split here, so that this file itself stays clean.
"""

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = SPDX + "// A header that exists for the self-test.\n#pragma once\n\n"  # Four lines.


def header(body):
    return {"trace/a.hpp": HEADER + body}


def body_of(lines):
    return "".join(f"  step_{i}();\n" for i in range(lines))


def including(path, included, quote='""'):
    """A file that includes `included` (which exists, unless it is spelt oddly)."""
    files = {path: f"{SPDX}#include {quote[0]}{included}{quote[1]}\n"}
    if "/" in included and ".." not in included:
        files[included] = HEADER
    return files


CASES = {
    "format": [
        ({"trace/a.cpp": SPDX + "int answer() {\n  return 42;\n}\n"}, []),
        ({"trace/a.cpp": SPDX + "int answer() {\n    return 42;\n}\n"}, ["trace/a.cpp:3"]),
        ({"trace/a.cpp": SPDX + "int *pointer;\n"}, ["trace/a.cpp:2"]),
        ({"kernels/a.cu": SPDX + "__global__ void f(int* a){}\n"}, ["kernels/a.cu:2"]),
    ],
    "includes": [
        (including("trace/a.cpp", "trace/b.hpp"), []),
        (including("trace/a.cpp", "kernels/b.hpp"), ["trace/a.cpp:2"]),
        (including("allocator/policy/a.cpp", "trace/result.hpp"), []),
        (including("allocator/policy/a.cpp", "trace/ring.hpp"), ["allocator/policy/a.cpp:2"]),
        (including("allocator/policy/a.cpp", "allocator/recorder.hpp"),
         ["allocator/policy/a.cpp:2"]),
        (including("allocator/torch/a.cpp", "analyzer/a.hpp"), ["allocator/torch/a.cpp:2"]),
        (including("allocator/torch/a.cpp", "allocator/policy/a.hpp"), []),
        (including("allocator/live/a.cpp", "devices/a.hpp"), []),
        (including("allocator/live/a.cpp", "analyzer/verdict/a.hpp"), ["allocator/live/a.cpp:2"]),
        (including("allocator/live/evidence/a.cpp", "analyzer/verdict/a.hpp"), []),
        (including("allocator/live/evidence/a.cpp", "analyzer/ingest/a.hpp"),
         ["allocator/live/evidence/a.cpp:2"]),
        (including("analyzer/cli/a.cpp", "devices/a.hpp"), []),
        (including("devices/a.cpp", "trace/result.hpp"), []),
        (including("devices/a.cpp", "allocator/policy/a.hpp"), ["devices/a.cpp:2"]),
        (including("allocator/policy/a.cpp", "devices/a.hpp"), ["allocator/policy/a.cpp:2"]),
        (including("kernels/a.cu", "trace/check.hpp"), []),
        (including("kernels/a.cu", "allocator/policy/a.hpp"), ["kernels/a.cu:2"]),
        (including("analyzer/model/a.cpp", "allocator/policy/a.hpp"), []),
        (including("analyzer/model/a.cpp", "allocator/torch/a.hpp"), ["analyzer/model/a.cpp:2"]),
        (including("analyzer/model/a.cpp", "tests/support/a.hpp"), ["analyzer/model/a.cpp:2"]),
        (including("tests/model/a.cpp", "allocator/torch/a.hpp"), []),
        (including("trace/a.cpp", "b.hpp"), ["trace/a.cpp:2"]),
        (including("trace/a.cpp", "../trace/b.hpp"), ["trace/a.cpp:2"]),
        (including("trace/a.cpp", "trace/b.hpp", "<>"), ["trace/a.cpp:2"]),
        (including("trace/a.cpp", "vector", "<>"), []),
        ({"trace/a.cpp": SPDX + '#include "trace/missing.hpp"\n'}, ["trace/a.cpp:2"]),
        ({"trace/a.cpp": SPDX + '#include "trace/b.hpp"\n', "trace/b.hpp": HEADER,
          "trace/a.hpp": HEADER}, ["trace/a.cpp:2"]),
    ],
    "folder_size": [
        ({f"trace/{i}.cpp": SPDX for i in range(12)}, []),
        ({f"trace/{i}.cpp": SPDX for i in range(13)}, ["trace:1"]),
        ({f"tests/golden/{i}.txt": "" for i in range(40)}, []),
        ({f"tests/fuzz/pickle_corpus/{i}": "" for i in range(40)}, []),
    ],
    "nodiscard": [
        (header("[[nodiscard]] Result<int> read();\n"), []),
        (header("Result<int> read();\n"), ["trace/a.hpp:5"]),
        (header("\n// Reads.\nResult<std::vector<int>> read(int a,\n    int b);\n"),
         ["trace/a.hpp:7"]),
        (header("namespace fragscope {\nclass A {\n public:\n  static Result<int> read();\n};\n}\n"),
         ["trace/a.hpp:7"]),
        (header("struct A {\n  virtual fragscope::Result<void> run() = 0;\n};\n"),
         ["trace/a.hpp:6"]),
        (header("inline Result<int> read() {\n  return 1;\n}\n"), ["trace/a.hpp:5"]),
        (header("template <class T>\nResult<T> read();\n"), ["trace/a.hpp:5"]),
        (header("inline auto read() -> Result<int> {\n  return 1;\n}\n"), ["trace/a.hpp:5"]),
        (header("struct A {\n  A() : a_{1}, b_{2} {}\n  Result<int> read();\n};\n"),
         ["trace/a.hpp:7"]),
        (header("struct A {\n  Result<int> value;\n  std::function<Result<int>()> call;\n"
                "  [[nodiscard]] static Result<int> read();\n};\n"), []),
        (header("template <class T>\nusing Result = tl::expected<T, Error>;\n"), []),
        (header("// Result<int> read();\ninline int f() {\n  Result<int> r(g());\n  return *r;\n}\n"),
         []),
        ({"trace/a.cpp": SPDX + "Result<int> read() { return 1; }\n"}, []),
    ],
    "function_length": [
        ({"trace/a.cpp": f"{SPDX}void f() {{\n{body_of(68)}}}\n"}, []),
        ({"trace/a.cpp": f"{SPDX}void f() {{\n{body_of(69)}}}\n"}, ["trace/a.cpp:2"]),
        ({"trace/a.cpp": f"{SPDX}namespace a {{\n{body_of(80)}}}\n"}, []),
        ({"trace/a.cpp": f"{SPDX}class A {{\n  int f() const noexcept {{\n{body_of(69)}  }}\n}};\n"},
         ["trace/a.cpp:3"]),
        ({"trace/a.cpp": f"{SPDX}A::A(int a)\n    : a_{{a}}\n    , b_(a) {{\n{body_of(69)}}}\n"},
         ["trace/a.cpp:2"]),
        ({"trace/a.cpp": f"{SPDX}const char* k = \"}} {{\";\nTEST(A, B) {{\n{body_of(69)}}}\n"},
         ["trace/a.cpp:3"]),
        ({"trace/a.cpp": f"{SPDX}constexpr int kTable[] = {{\n{'  1,' * 5}\n{'  1,' * 5}\n}};\n"},
         []),
        ({"scripts/a.py": "def f():\n" + "    x = 1\n" * 70}, ["scripts/a.py:1"]),
        ({"scripts/a.sh": "#!/bin/sh\nf() {\n" + "  :\n" * 70 + "}\n"}, ["scripts/a.sh:2"]),
        ({".ci/run": "#!/bin/sh\nf() {\n  :\n}\n"}, []),
    ],
    "spdx": [
        (header(""), []),
        ({"trace/a.cpp": "int a;\n"}, ["trace/a.cpp:1"]),
        ({"trace/a.cpp": "\n" + SPDX}, ["trace/a.cpp:1"]),
        ({"scripts/a.sh": "#!/bin/sh\necho\n"}, ["scripts/a.sh:2"]),
        ({".ci/run": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"}, []),
        ({"fixtures/make.py": "import sys\n", "fixtures/a.pickle": ""}, ["fixtures/make.py:1"]),
    ],
    "header_comment": [
        (header(""), []),
        ({"trace/a.hpp": SPDX + "#pragma once\n"}, ["trace/a.hpp:2"]),
        ({"trace/a.hpp": SPDX + "//\n//\n#pragma once\n"}, ["trace/a.hpp:2"]),
        ({"trace/a.hpp": SPDX + "// A header that exists for the self-test.\n"}, ["trace/a.hpp:1"]),
    ],
    "ascii": [
        (header("// Plain.\n"), []),
        (header("// 2 \u00d7 2\n"), ["trace/a.hpp:5"]),
        ({"CMakeLists.txt": "# \u2192\n"}, ["CMakeLists.txt:1"]),
        ({"README.md": "\u2192\n"}, []),
    ],
    "leftovers": [
        (header("// Nothing to see.\n"), []),
        (header("// TO" "DO: more\n"), ["trace/a.hpp:5"]),
        ({"docs/a.md": "FIX" "ME\n"}, ["docs/a.md:1"]),
        (header("#if " "0\n#endif\n"), ["trace/a.hpp:5"]),
        (header('std::cerr << "' 'DEBUG here";\n'), ["trace/a.hpp:5"]),
        ({"scripts/a.py": "break" "point()\n"}, ["scripts/a.py:1"]),
        ({"README.md": "<<<<" "<<< ours\n"}, ["README.md:1"]),
        ({"scripts/a.sh": "cd /wo" "rk/main\n"}, ["scripts/a.sh:1"]),
        ({"scripts/a.sh": "cd /wo" "rk/main  # style: allow, it is the name of a mount\n"}, []),
        ({"README.md": "see /ho" "me/me/notes\n"}, ["README.md:1"]),
        ({"tests/model/a.cpp": SPDX + 'const char* k = "/ho' 'me/me/train.py";\n'}, []),
        ({"README.md": "docs/work/done and $PREFIX/root/x\n"}, []),
        ({"scripts/a.sh": "pip install -i https://py" "pi.org/simple\n"}, ["scripts/a.sh:1"]),
    ],
    "links": [
        ({"README.md": "[a](docs/a.md) [b](docs/) [c](https://example.org) [d](#top)\n# Top\n",
          "docs/a.md": "[up](../README.md#top)\n"}, []),
        ({"README.md": "x\n[a](docs/a.md)\n"}, ["README.md:2"]),
        ({"docs/a.md": "[a](../README.md#gone)\n", "README.md": "# Here\n"}, ["docs/a.md:1"]),
        ({"README.md": "`[a](b)`\n```\n[a](b)\n```\n"}, []),
    ],
}
