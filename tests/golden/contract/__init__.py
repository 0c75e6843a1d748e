# SPDX-License-Identifier: Apache-2.0
"""The shapes of what each command prints with `--json`, as docs/json.md gives them."""
