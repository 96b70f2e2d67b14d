"""docs/pools.md: its examples run, and its table lists all options."""
import re

import pytest

from jobs import ROOT

PAGE = (ROOT / "docs" / "pools.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: re.search(r"onespace\.\w+", text)[0])
def test_example_runs(job, play, interpreter, request, tmp_path, example):
    python = request.getfixturevalue("pools_interpreter") if "joblib" in example else interpreter
    (tmp_path / "app.py").write_text(example.replace("timeout=60", "timeout=180"))  # a busy machine
    result = job.run([python, tmp_path / "app.py"], env=play.env)
    assert result.code == 0 and not result.err and result.out and "False" not in result.out, str(result)


def test_every_option_is_in_the_table(job, play, interpreter):
    result = job.run([interpreter, "-c", "import inspect, onespace; print(*inspect.signature(onespace.Executor)."
                      "parameters)"], env=play.env)
    rows = "".join(line for line in PAGE.splitlines(True) if line.startswith("| `"))
    assert result.out.split() and all(f"`{name}`" in rows for name in result.out.split()), str(result)
