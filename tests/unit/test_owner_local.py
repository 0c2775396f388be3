"""Whether a lease's owner still lives: never a guess that would take a run from a living process."""

from __future__ import annotations

import subprocess
import sys

from pipeline.adapters.owner_local import is_gone, own_name


def test_this_process_lives() -> None:
    assert not is_gone(own_name())


def test_a_process_that_ended_is_gone() -> None:
    code = "from pipeline.adapters.owner_local import own_name; print(own_name())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert is_gone(done.stdout.strip())


def test_a_number_that_was_given_out_again_is_not_the_old_process() -> None:
    host, number, began = own_name().rsplit(":", 2)
    assert is_gone(f"{host}:{number}:{int(began) - 1}")


def test_other_machines_and_unknown_names_are_left_alone() -> None:
    _host, number, began = own_name().rsplit(":", 2)
    for owner in (f"elsewhere:{number}:{began}", "one", "", ":::", "a:b:c", f"elsewhere:999999999:{began}"):
        assert not is_gone(owner)
