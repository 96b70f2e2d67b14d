"""tests/models/test_models.py: Spin finds no error in the models of the synchronisation, and finds one as soon as
a wait is left out."""
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent


def long(*models):
    return [pytest.param(model, marks=pytest.mark.long) for model in models]


SOUND = ["dissemination -DN=3", "slots -DN=2 -DBARRIER=1",
         *long("dissemination -DN=4", "dissemination -DN=4 -DRADIX=4", "slots -DN=3", "slots -DN=3 -DIN_PLACE=1"),
         *long("slots -DN=2 -DEVERY=2", "slots -DN=2 -DEVERY=2 -DIN_PLACE=1"),
         "doubling -DN=3",
         *long("doubling -DN=4", "doubling -DN=5"), "futex -DN=3",
         # PLAN has a bit for each pair of ranks, sender * N + receiver: all with all, a chain, a ring; with four, a
         # ring and a diamond.
         *[f"ghost -DN=3 -DDIRECT={direct} -DPLAN=238" for direct in (0, 1)],
         *long(*[f"ghost -DN=3 -DDIRECT={direct} -DPLAN={plan}" for direct in (0, 1) for plan in (34, 98)],
               *[f"ghost -DN=4 -DUPDATES=3 -DDIRECT={direct} -DPLAN={plan}" for direct in (0, 1)
                 for plan in (6210, 2182)],
               "ghost -DN=3 -DUPDATES=3"),  # all plans of three ranks
         "leaders -DN=3", *long("leaders -DN=4"), "insitu -DN=2 -DSTEPS=3", "insitu -DN=2 -DEVERY=0",
         # Two consumers: of every step and of the latest, and both of every step.
         *long("insitu -DN=3 -DEVERY=1", "insitu -DN=3 -DEVERY=2"), "updates -DN=2", *long("updates -DN=3"),
         "group", "group -DJOIN=1", "exports", "lock",
         "registrations", "registrations -DEND=1", "registrations -DROUNDS=1 -DKILL=1",
         "ring -DN=2 -DOPS=3", *long("ring -DN=2", "ring -DN=3 -DOPS=2"),
         "progress_thread -DN=3", "progress_thread -DN=3 -DDIES=1",
         *long("progress_thread -DN=4", "progress_thread -DN=4 -DDIES=1"),
         "window_lock -DN=3", "window_lock -DN=3 -DHELD=1",
         "shared -DN=2", "holds -DN=3", *long("holds -DN=4"), "calls -DN=2", "loan -DN=3",
         *long("calls -DN=3", "loan -DN=3 -DPLACES=2", "loan -DN=4")]
FAULTY = ["dissemination -DN=3 -DWITHOUT=1", "slots -DN=3 -DWITHOUT=1", "slots -DN=3 -DWITHOUT=2",
          "slots -DN=2 -DEVERY=2 -DWITHOUT=2", "slots -DN=3 -DIN_PLACE=1 -DWITHOUT=3",
          "slots -DN=2 -DBARRIER=1 -DWITHOUT=4",
          "doubling -DN=3 -DWITHOUT=1", "futex -DWITHOUT=1",
          "futex -DWITHOUT=2", "futex -DWITHOUT=3", "ghost -DN=3 -DPLAN=34 -DWITHOUT=1",
          "ghost -DN=3 -DPLAN=98 -DWITHOUT=2",
          "ghost -DN=3 -DDIRECT=1 -DPLAN=34 -DWITHOUT=2", "ghost -DN=3 -DDIRECT=1 -DPLAN=34 -DWITHOUT=3",
          *[f"leaders -DN=3 -DWITHOUT={wait}" for wait in (1, 2, 3, 4)],
          "insitu -DN=2 -DEVERY=0 -DWITHOUT=1", "insitu -DN=2 -DEVERY=0 -DWITHOUT=2", "insitu -DN=2 -DWITHOUT=3",
          "updates -DN=2 -DWITHOUT=1", "updates -DN=2 -DWITHOUT=2",
          *[f"group -DWITHOUT={step}" for step in (1, 2)], *[f"group -DJOIN=1 -DWITHOUT={step}" for step in (3, 4)],
          *[f"exports -DWITHOUT={step}" for step in (1, 2, 3, 4)],
          *[f"lock -DWITHOUT={step}" for step in (1, 2, 3, 4, 5)],
          "window_lock -DN=2 -DWITHOUT=1", "window_lock -DN=3 -DHELD=1 -DWITHOUT=2", "window_lock -DN=2 -DWITHOUT=3",
          *[f"shared -DN=2 -DWITHOUT={step}" for step in (1, 2, 3)],
          *[f"registrations -DWITHOUT={step}" for step in (1, 2, 3, 4, 6)],
          "registrations -DROUNDS=1 -DKILL=1 -DWITHOUT=5", "registrations -DEND=1 -DWITHOUT=7",
          *[f"ring -DN=2 -DWITHOUT={step}" for step in (1, 2, 3, 4)],
          *[f"progress_thread -DN=3 -DWITHOUT={step}" for step in (1, 2, 3, 5)],
          "progress_thread -DN=3 -DDIES=1 -DWITHOUT=4",
          *[f"holds -DN=3 -DWITHOUT={step}" for step in (1, 2, 3)],
          *[f"calls -DN=2 -DWITHOUT={step}" for step in (1, 2, 3, 4, 5, 6, 7)],
          *[f"loan -DN=3 -DWITHOUT={step}" for step in (1, 2, 3, 4, 5, 6, 7)]]


def check(words):
    if not shutil.which("spin"):
        pytest.skip("spin is not installed (scripts/setup test)")
    return subprocess.run([HERE / "check", *words.split()], capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("model", SOUND)
def test_model_has_no_error(model):
    done = check(model)
    assert done.returncode == 0 and ": 0 errors" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("model", FAULTY)
def test_model_without_a_wait_has_an_error(model):
    done = check(model)
    assert done.returncode == 1 and ": 1 errors" in done.stdout, done.stdout + done.stderr
