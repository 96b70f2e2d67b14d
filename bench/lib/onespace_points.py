"""bench/lib/onespace_points.py: a job that stops at points, to be measured there.

Its partners stop by points.h, or as bench/memory/stencil.py does: each leaves a file NAME.NUMBER in the directory
ONESPACE_POINTS and waits for NAME.go."""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

import onespace_bench as ob
import onespace_memory as memory

LIMIT_S = 240
END_S = 20  # for a job that was told to end


def reap():
    """What was adopted and has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Job:
    """Commands that run at the same time, of `partners` processes or tasks in all."""

    def __init__(self, commands, partners, directory, env, cwd=None, limit_s=LIMIT_S):
        self.commands, self.partners, self.cwd, self.limit_s = commands, partners, cwd, limit_s
        self.points = pathlib.Path(directory, "points")
        self.output = pathlib.Path(directory, "output")
        self.text = ""  # what it has printed; complete after run()
        shutil.rmtree(self.points, ignore_errors=True)
        self.points.mkdir()
        self.env = {**os.environ, **env, "ONESPACE_POINTS": str(self.points)}

    def at(self, point):
        """The files of the partners that have come to it."""
        return [self.points / name for name in os.listdir(self.points)
                if name.rpartition(".")[0] == point and not name.endswith(".go")]

    def run(self, points, measure=memory.cost):
        """{point: what measure() gave there}; without points {"largest": bytes}, sampled."""
        found, left, deadline = {}, list(points), time.monotonic() + self.limit_s
        with open(self.output, "w+", encoding="utf-8", errors="replace") as output:
            running = [subprocess.Popen([str(word) for word in command], env=self.env, cwd=self.cwd, stdout=output,
                                        stderr=output, stdin=subprocess.DEVNULL, start_new_session=True)
                       for command in self.commands]
            try:
                while any(process.poll() is None for process in running):
                    if not points:
                        found["largest"] = max(measure(), found.get("largest", 0))
                    elif left and len(self.at(left[0])) == self.partners:
                        time.sleep(0.2)  # the last to come may still be on the way to sleep
                        found[left[0]] = measure()
                        (self.points / f"{left.pop(0)}.go").touch()
                    if time.monotonic() > deadline:
                        raise ob.Failure(f"still running after {self.limit_s} s: {shlex.join(running[0].args)}")
                    time.sleep(0.02)
            finally:
                for process in running:
                    end(process)
            time.sleep(0.1)
            reap()
            output.seek(0)
            self.text = output.read()
        if left or any(process.returncode for process in running):
            raise ob.Failure(f"{shlex.join(running[0].args)}\nfailed, or did not come to the point {left[:1]}:\n"
                             f"{self.text.strip()[-2000:]}")
        return found


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def end_descendants():
    """Of this process: what a job that failed has left."""
    for pid in memory.descendants():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    time.sleep(0.1)
    reap()
