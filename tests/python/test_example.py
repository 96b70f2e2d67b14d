"""The example that plots a running simulation, by itself and under onespace run."""
import re

import pytest

from jobs import ROOT, RUN

EXAMPLE = ROOT / "examples" / "plot_simulation.py"


@pytest.mark.parametrize("before", [pytest.param([], id="root", marks=pytest.mark.long), pytest.param(RUN, id="task")])
def test_example_plots_a_running_simulation(job, play, interpreter, tmp_path, before, needs_modules, patient):
    needs_modules(interpreter, "matplotlib")
    result = job.run([*before, interpreter, patient(EXAMPLE), "5", tmp_path], env=play.env)
    assert result.code == 0, str(result)
    means = [float(mean) for mean in re.findall(r"step \d+: mean ([\d.]+)", result.out)]
    pictures = sorted(tmp_path.glob("heat-*.png"))
    assert 1 <= len(means) == len(pictures) <= 5 and means == sorted(means), str(result)
    assert pictures[-1].name == "heat-0005.png" and pictures[-1].read_bytes().startswith(b"\x89PNG")


def test_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= 60
