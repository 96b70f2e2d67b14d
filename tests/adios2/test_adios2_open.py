"""tests/adios2/test_adios2_open.py: Open: fallback engines of programs outside the writer's space, other versions, and
errors in adios2.xml."""
import os
import shutil
import subprocess
import time

import pytest

from jobs import BUILD, RUN, eventually, read_process

# ---- Another engine ----

def check_that_sst_serves(stream):
    """Runs a writer and a reader outside any space; returns the reader's result."""
    writer = stream.outside(stream.program, "write", "data", "3")
    result = stream.outside(stream.program, "read-sst", "data").finish()
    assert result.code == 0 and "3 steps, then the end" in result.out, result
    assert result.err.count("SST is used instead") == 1, result
    stream.finish(writer)
    return result


def test_fallback_engine_serves_programs_outside_a_space(stream):
    result = check_that_sst_serves(stream)
    assert 'stream "data": this process is in no space' in result.err, result


def test_reader_in_a_space_follows_a_writer_outside(stream):
    reader = stream.start(stream.program, "read-sst", "data")
    time.sleep(0.3)
    writer = stream.outside(stream.program, "write", "data", "3")
    result = reader.finish()
    assert result.code == 0 and "3 steps, then the end" in result.out, result
    assert "its writer is not in this space" in result.err and result.err.count("SST is used instead") == 1, result
    assert writer.finish().code == 0


def test_fallback_engine_is_chosen(stream):
    stream.configure(Fallback="BP5")
    writer = stream.outside(stream.program, "write", "data", "3").finish()
    assert writer.code == 0 and writer.err.count("BP5 is used instead") == 1, writer
    assert (stream.directory / "data/md.0").exists()
    result = stream.outside(stream.program, "read-sst", "data").finish()
    assert result.code == 0 and "3 steps, then the end" in result.out, result


@pytest.mark.parametrize("engine, says", [("none", "this process is in no space"), ("NoSuch", "NoSuch")])
def test_open_fails_without_a_fallback_engine(stream, engine, says):
    stream.configure(Fallback=engine)
    result = stream.outside(stream.program, "write", "data", "3").finish()
    assert result.code == 3 and says in result.out, result


def test_reader_outside_the_writers_space_gets_advice(stream):
    writer = stream.write("3")
    contact = stream.contact()
    result = stream.outside(stream.program, "read", "data").finish()
    assert result.code == 3 and "start the reader in that space, too" in result.out, result
    stream.finish(stream.read(), writer)
    assert not contact.exists()


def test_reader_on_another_node_gets_advice(stream):
    (stream.directory / "data.onespace").write_text("another-node 4711 4711\n")
    result = stream.outside(stream.program, "read", "data").finish()
    assert result.code == 3 and "process 4711 on another-node writes it in the space" in result.out, result
    assert "start the reader on that node, because a space does not span nodes" in result.out, result


def test_contact_of_a_killed_writer_is_ignored(stream):
    writer = stream.write("3")
    contact = stream.contact()
    pid = int(contact.read_text().split()[1])
    writer.process.kill()
    writer.finish()
    assert eventually(lambda: not read_process(pid))  # the host collects it a moment later
    assert contact.exists()
    check_that_sst_serves(stream)


def test_planted_links_are_not_followed(stream):
    """The contact file is written under a name that another user can guess, before it is renamed."""
    victim = stream.directory / "victim"
    victim.write_text("private")
    for pid in range(os.getpid() + 1, os.getpid() + 4000):
        (stream.directory / f"data.onespace.{pid}").symlink_to(victim)
    writer = stream.write("3")
    contact = stream.contact()
    assert contact.exists() and not contact.is_symlink() and victim.read_text() == "private"
    stream.finish(stream.read(), writer)


def test_contact_that_is_a_fifo_is_ignored(stream):
    os.mkfifo(stream.directory / "data.onespace")
    check_that_sst_serves(stream)


def test_ranks_on_several_nodes_cannot_use_the_space(stream, without_mpi):
    """The fallback engine needs MPI for them, which this ADIOS2 is built without."""
    stream.configure(Ranks="launcher")
    result = stream.run("env", "MPI_LOCALNRANKS=1", stream.program, "0/2", "write", "data")
    assert result.code == 3 and "its 2 ranks run on several nodes" in result.out, result
    assert "SST of an ADIOS2 without MPI cannot write one stream from 2 ranks" in result.out, result


def test_reader_without_a_writer_times_out(stream):
    stream.configure(OpenTimeoutSecs=1)
    result = stream.run(stream.program, "read", "data")
    assert result.code == 3 and "no writer of this space has opened it within 1 s" in result.out, result


def test_stream_is_opened_again_after_a_failure(stream, guests):
    """Open leaves no channel behind, whose name would be taken."""
    impostor = stream.start(guests("adios2_impostor"), stdin=subprocess.PIPE)
    impostor.wait_for("ready")
    writer = stream.start(stream.program, "write-again", "data", "go-on")
    writer.wait_for("Open for writing of stream")
    impostor.process.stdin.close()
    assert impostor.finish().code == 0
    (stream.directory / "go-on").touch()
    assert "2 steps, then the end" in stream.finish(stream.read(), writer)


# ---- Versions ----

def test_writer_with_another_abi_is_rejected(stream, guests):
    impostor = stream.start(guests("adios2_impostor"), stdin=subprocess.PIPE)
    impostor.wait_for("ready")
    result = stream.read().finish()
    assert result.code == 3 and "build both from the same version of onespace" in result.out, result
    impostor.process.stdin.close()
    assert impostor.finish().code == 0


def test_library_that_lacks_a_function_is_rejected(stream):
    """A libonespace that lacks a function fails when ADIOS2 loads the plug-in, not in the middle of a step."""
    old = stream.directory / "old"
    old.mkdir()
    shutil.copy(BUILD / "lib/libonespace-adios2.so", old)
    library = (BUILD / "lib/libonespace.so.0").read_bytes()
    name = b"onespace_insitu_reclaim\0"
    assert name in library  # of the dynamic symbols
    (old / "libonespace.so.0").write_bytes(library.replace(name, name.replace(b"reclaim", b"unknown")))
    result = stream.outside("env", f"ADIOS2_PLUGIN_PATH={old}", stream.program, "write", "data").finish()
    assert result.code == 3 and "The plugin onespace-adios2 could not be loaded" in result.out, result
    missing = stream.outside("ldd", "-r", old / "libonespace-adios2.so").finish()
    assert "undefined symbol: onespace_insitu_reclaim" in missing.out + missing.err, missing


# ---- adios2.xml ----

@pytest.mark.parametrize("parameters, says", [
    ({"QueueLimit": "many"}, 'engine parameter QueueLimit="many": must be a number from 0 to 15'),
    ({"QueueFullPolicy": "Explode"}, 'must be "discard" or "block"'),
    ({"Spin": "fast"}, 'engine parameter Spin="fast": must be "auto" or a number'),
    ({"QueLimit": "1"}, "unknown engine parameter QueLimit: must be Channel, QueueLimit"),
    ({"Puts": "wait", "QueueLimit": "2"}, "remove QueueLimit and QueueFullPolicy"),
    ({"Puts": "sometimes"}, 'engine parameter Puts="sometimes": must be "lend", "copy" or "wait"'),
    ({"StatsLevel": "2"}, 'engine parameter StatsLevel="2": must be a number from 0 to 1'),
    ({"Channel": None}, "engine parameter Channel is missing"),
    ({"ReserveQueueLimit": "1"}, "is supported by SST only"),
    ({"StepDistributionMode": "RoundRobin"}, "is supported by SST only"),
])
def test_invalid_parameter_is_rejected(stream, parameters, says):
    stream.configure(writer=parameters)
    result = stream.outside(stream.program, "write", "data").finish()
    assert result.code == 3 and says in result.out, result


def test_parameters_of_sst_are_accepted(stream):
    stream.configure(DataTransport="WAN", MarshalMethod="BP5", CPCommPattern="Min", FirstTimestepPrecious="false",
                     StepDistributionMode="AllToAll")
    assert "2 steps, then the end" in stream.run_pair("write data 2", "read data").out


@pytest.mark.parametrize("spin", ["auto", "0", "2000"])
def test_reader_polls(stream, spin):
    stream.configure(reader={"Spin": spin})
    assert "5 steps, then the end" in stream.run_pair("write data 5 5", "read data").out


def test_polling_reader_shares_its_cpu_with_the_writer(stream):
    """A reader that lost its CPU while it polled does not poll for some steps."""
    cpu = str(min(os.sched_getaffinity(0)))
    result = stream.run_pair("write data 60 1", "read data", command=("taskset", "-c", cpu, *RUN))
    assert "60 steps, then the end" in result.out, result


def test_statistics_are_switched_off(stream):
    stream.configure(reader={"StatsLevel": "0"})
    assert "2 steps, then the end" in stream.run_pair("write data 2", "read-without-statistics data").out


def test_verbose_says_which_space_serves(stream):
    stream.configure(verbose=1)
    result = stream.run_pair("write data 2", "read data")
    assert result.err.count('onespace: stream "data": in the space of process') == 2, result


def test_stream_cannot_be_appended_to(stream):
    result = stream.run(stream.program, "append", "data")
    assert result.code == 3 and "a stream must be opened with Mode::Write or Mode::Read" in result.out, result
