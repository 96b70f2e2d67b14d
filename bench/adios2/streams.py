"""bench/adios2/streams.py: finds ADIOS2 and the plug-in, writes adios2.xml, and runs both ends of a stream, for all
workloads of bench/adios2."""
import os
import pathlib
import subprocess

import onespace_bench as ob

PLUGIN = {"PluginName": "onespace", "PluginLibrary": "onespace-adios2"}
QUEUE = {"QueueLimit": "1", "QueueFullPolicy": "Block"}
FILES = {"StreamReader": "true", "OpenTimeoutSecs": "30", "BeginStepPollingFrequencySecs": "0.00001"}
LIMIT_S = 180


def find_adios2(given):
    wheels = sorted((ob.BENCH.parent / ".venv/adios2/lib").glob("python*/site-packages/adios2"))
    directory = pathlib.Path(given) if given else wheels[0] if wheels else None
    if not directory or not (directory / "include/adios2.h").exists():
        raise ob.Failure(f"no ADIOS2 ({directory or '.venv/adios2'}): scripts/setup adios2 installs PyPI's")
    return directory


def find_plugin():
    directory = pathlib.Path(ob.onespace_command()).resolve().parents[1] / "lib"
    if not (directory / "libonespace-adios2.so").exists():
        raise ob.Failure(f"{directory}/libonespace-adios2.so is not built: CMake builds it where it finds ADIOS2")
    return directory


def compile_options(adios2):
    """The options before a C++ source, and those after it."""
    libraries = adios2 / "lib" if (adios2 / "lib").is_dir() else adios2
    return [f"-isystem{adios2 / 'include'}"], [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ladios2_cxx",
                                               "-ladios2_core", "-Wl,--allow-shlib-undefined"]


def configuration(engine, parameters):
    """adios2.xml with an io for each {name: parameters}."""
    def io(name, given):
        lines = "".join(f'<parameter key="{key}" value="{value}"/>' for key, value in given.items())
        return f'<io name="{name}"><engine type="{engine}">{lines}</engine></io>'
    ios = "".join(io(name, given) for name, given in parameters.items())
    return f'<?xml version="1.0"?><adios-config>{ios}</adios-config>\n'


def parent_of(engine, place):
    """The parent of a run's directory; BP5 writes its files to tmpfs."""
    return "/dev/shm" if engine == "BP5" and os.access("/dev/shm", os.W_OK) else place.path


def run_pair(commands, directory, environment):
    """Run both ends at the same time and return their outputs."""
    started = [subprocess.Popen([str(word) for word in command], cwd=directory, env=environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
               for command in commands]
    texts = []
    try:
        for process in started:
            output, _ = process.communicate(timeout=LIMIT_S)
            texts.append(output)
            if process.returncode != 0:
                raise ob.Failure(f"{' '.join(process.args)} exited with {process.returncode}:\n{output[-2000:]}")
    except subprocess.TimeoutExpired:
        raise ob.Failure(f"still running after {LIMIT_S} s: {' '.join(started[0].args)}") from None
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
                process.wait()
    return texts
