# SPDX-License-Identifier: Apache-2.0
"""Every recording in fixtures/, and every real one beside the project, decided again by the policy."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What cannot be decided again, and why.
DIFFERS = {
    "trap_segment_vanished.pickle": "names no pools, and a segment of a private one is gone",
    "trap_unmatched_frees.pickle": "frees and hand-outs are missing from it",
}
NO_PROGRAM = (
    "the snapshot has no history", "its writer rounds requests otherwise",
)
NOT_A_RECORDING = ("refused", "broken")


def verify(tool, path, *options):
    done = subprocess.run([tool, "replay", "--verify", "--json", *options, path], check=False,
                          capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()


def devices_of(problem):
    """ "devices 0, 1 and 2 have a history" """
    words = problem.rsplit("devices ", 1)[1].replace(",", "").split()
    return [word for word in words if word.isdigit()]


def results(tool, path):
    """One for each device with a history."""
    answer = verify(tool, path)
    if isinstance(answer, str) and " have a history" in answer:
        return [(f" device {device}", verify(tool, path, "--device", device))
                for device in devices_of(answer)]
    return [("", answer)]


def main():
    tool = sys.argv[1]
    files = sorted([*ROOT.glob("fixtures/*.pickle"), *ROOT.glob("fixtures/torch/*.zst"),
                    *(ROOT.parent / "shared" / "snapshots").glob("*.pickle")])
    verified, refused, failed = 0, 0, []
    operations = 0
    for path in files:
        for device, answer in results(tool, path):
            if isinstance(answer, str):
                if any(reason in answer for reason in NO_PROGRAM):
                    refused += 1
                else:
                    failed.append(answer)
                continue
            found = answer["verification"]
            if found["verified"] != (path.name not in DIFFERS):
                failed.append(f"{path.name}{device}: {found}")
            verified += found["verified"]
            operations += found["agreed"]
    print(f"{verified} recordings of {operations} operations decided as recorded, {len(DIFFERS)} known "
          f"not to be, {refused} without a program")
    for line in failed:
        print(line)
    sys.exit(1 if failed or verified < 60 else 0)


if __name__ == "__main__":
    main()
