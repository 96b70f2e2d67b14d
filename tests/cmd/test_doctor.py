"""onespace doctor: each finding, its status and its fix. What this machine is not, it is made to look
like: by limits, filters, files in other places, programs and libraries that stand in for MPI's."""
import ctypes
import errno
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal

import pytest

from jobs import ONESPACE, eventually
from observe import (
    CLONE3,
    DOCTOR,
    FALLOCATE,
    MEMFD_CREATE,
    PRCTL,
    PROCESS_VM_READV,
    RT_SIGACTION,
    USERFAULTFD,
    WAIT4,
    as_json,
    forbid,
    in_terminal,
)


def one_line(text):
    return " ".join(text.split())


@pytest.fixture
def doctor(job):
    """The findings, as a list of dictionaries."""
    def look(*arguments, **options):
        result = job.run([*DOCTOR, "--json", *arguments], **options)
        found = as_json(result)
        assert result.code == (1 if any(line["status"] == "wrong" for line in found) else 0), result
        return found
    return look


def about(found, subject):
    return [line for line in found if line["subject"] == subject]


def only(found, subject):
    line, = about(found, subject)
    return line


def limit(kind, value):
    return lambda: resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def test_findings_have_their_four_parts(doctor):
    found = doctor()
    subjects = {line["subject"] for line in found}
    for line in found:
        assert list(line) == ["status", "subject", "finding", "fix"]
        assert line["status"] in ("good", "warning", "wrong") and line["subject"] and line["finding"]
        assert line["status"] == "good" or line["fix"], line
    assert {"kernel", "page faults", "futex hash", "protection keys", "CVE-2026-52973", "vm.max_map_count",
            "overcommit", "huge pages", "memory cgroup", "/dev/shm", "ulimit -v", "ulimit -l", "ulimit -n", "ulimit -u",
            "ulimit -s", "CMA", "ptrace_scope", "agent", "XPMEM", "address region", "interposition", "trial",
            "launcher", "MPI library", "storage windows", "versions", "MPI settings"} <= subjects


def test_text_has_a_line_for_each_finding(job):
    lines = job.run(DOCTOR).out.splitlines()
    assert all(line.split()[0] in ("good", "warning", "wrong") for line in lines[:-2]), lines
    assert lines[-1] == (f"{sum(line.startswith('good') for line in lines)} good, "
                         f"{sum(line.startswith('warning') for line in lines)} to look at, "
                         f"{sum(line.startswith('wrong') for line in lines)} wrong")


def test_text_fits_the_terminal(job, tmp_path):
    # Without long paths, and without hwloc's list.
    lines = in_terminal(DOCTOR, 80, {**job.env, "PATH": str(tmp_path)})
    assert len(lines) > 25
    assert all(len(line) <= 80 for line in lines if not re.search("/|hwloc_", line)), lines


def test_text_has_the_fix_in_the_same_line(job):
    result = job.run(DOCTOR, preexec_fn=limit(resource.RLIMIT_NOFILE, 200))
    line, = [line for line in result.out.splitlines() if line.split()[1:3] == ["ulimit", "-n"]]
    assert line.startswith("warning  ulimit -n ") and "200 open files" in line
    assert "; raise it: ulimit -n 65536" in line


# ---- Kernel ----

@pytest.mark.parametrize("release,status", [
    ("4.16.18", "wrong"), ("5.10.0-30-amd64", "warning"), ("5.15.200", "warning"), ("5.16.0", "good"),
    ("6.1.0-18-amd64", "good"), ("10.0", "good")])
def test_kernel_before_5_16_cannot_contain_crashes(doctor, machine, release, status):
    line = only(doctor(env=machine(FAKE_RELEASE=release)), "kernel")
    assert line["status"] == status and release in line["finding"]
    assert status == "good" or "5.16" in line["fix"]


@pytest.mark.parametrize("release,status", [("5.19.1", "warning"), ("6.3.13", "warning"), ("6.4.0", "good"),
                                            ("7.0.0", "good")])
def test_kernel_before_6_4_has_one_lock(doctor, machine, release, status):
    line = only(doctor(env=machine(FAKE_RELEASE=release)), "page faults")
    assert line["status"] == status


# Which version has which fault: tests/base/kernel_test.cpp.
@pytest.mark.parametrize("release,fault,status,fix", [
    ("6.18.32", "CVE-2026-52973", "warning", "6.18.33, 7.0.10"), ("6.18.33", "CVE-2026-52973", "good", None),
    ("7.1.2", "CVE-2026-63799", "warning", "7.1.3"), ("6.19.9", "CVE-2026-43417", "good", None)])
def test_faults_of_the_kernel_are_listed_with_their_fixes(doctor, machine, release, fault, status, fix):
    line = only(doctor(env=machine(FAKE_RELEASE=release)), fault)
    assert line["status"] == status and release in line["finding"], line
    assert line["fix"] is None if fix is None else f"to {fix} or later" in line["fix"], line


def test_kernel_that_may_stall_is_wrong_and_gets_no_trial(doctor, machine):
    found = doctor(env=machine(FAKE_RELEASE="6.19.8"))
    assert only(found, "CVE-2026-43417")["status"] == only(found, "CVE-2026-43418")["status"] == "wrong"
    assert "6.19.9, 7.0" in only(found, "CVE-2026-43418")["fix"]
    assert only(found, "trial")["status"] == "warning" and "not made" in only(found, "trial")["finding"]
    accepted = doctor(env=machine(FAKE_RELEASE="6.19.8", ONESPACE_FAULTY_KERNEL=1))
    assert only(accepted, "trial")["status"] == "good"


def test_upstream_version_is_read_where_distributions_write_it(doctor, machine):
    debian = doctor(env=machine(FAKE_RELEASE="6.19+deb14-amd64", FAKE_VERSION="#1 SMP Debian 6.19.9-1 (2026-04-01)"))
    assert only(debian, "CVE-2026-43417")["status"] == "good"
    signature = {"/proc/version_signature": "Ubuntu 6.19.0-9.9-generic 6.19.8\n"}
    ubuntu = doctor(env=machine(signature, FAKE_RELEASE="6.19.0-9-generic"))
    assert only(ubuntu, "CVE-2026-43417")["status"] == "wrong"
    assert only(ubuntu, "CVE-2026-23225")["status"] == "good"


def test_kernel_before_6_16_has_no_private_futex_hash(doctor, machine):
    line = only(doctor(env=machine(FAKE_RELEASE="6.15.9")), "futex hash")
    assert line["status"] == "good" and "before Linux 6.16" in line["finding"]


def test_version_that_cannot_be_read_is_reported(doctor, machine):
    line = only(doctor(env=machine(FAKE_RELEASE="next")), "kernel")
    assert line["status"] == "warning" and "next" in line["finding"]


# ---- Memory and limits ----

@pytest.mark.parametrize("count,status", [("65530", "good"), ("300", "warning")])
def test_few_mappings_are_reported(doctor, machine, count, status):
    if int(count) > 300 and os.cpu_count() > 100:
        pytest.skip("65530 is few for so many CPUs")
    line = only(doctor(env=machine({"/proc/sys/vm/max_map_count": count + "\n"})), "vm.max_map_count")
    assert line["status"] == status and line["finding"].startswith(count)
    assert status == "good" or "sysctl -w vm.max_map_count=262144" in line["fix"]


@pytest.mark.parametrize("mode,status", [("0", "good"), ("1", "good"), ("2", "warning")])
def test_strict_overcommit_is_reported(doctor, machine, mode, status):
    line = only(doctor(env=machine({"/proc/sys/vm/overcommit_memory": mode + "\n"})), "overcommit")
    assert line["status"] == status


@pytest.mark.parametrize("choice,status", [("[always] madvise never", "good"),
                                           ("always [madvise] never", "good"),
                                           ("always madvise [never]", "warning")])
def test_huge_pages_switched_off_are_reported(doctor, machine, choice, status):
    env = machine({"/sys/kernel/mm/transparent_hugepage/enabled": choice + "\n"})
    assert only(doctor(env=env), "huge pages")["status"] == status


@pytest.mark.parametrize("groups,path,text,status,finding", [
    ("0::/job\n", "/sys/fs/cgroup/job/memory.max", "134217728", "warning", "128M"),
    ("0::/job/step\n", "/sys/fs/cgroup/job/memory.max", "134217728", "warning", "128M"),
    ("0::/job\n", "/sys/fs/cgroup/job/memory.max", "max", "good", "no limit"),
    ("3:memory:/job\n", "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "134217728", "warning", "128M"),
    ("3:memory:/job\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728", "warning", "128M"),
    ("3:memory:/job\n", "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712", "good",
     "no limit")])
def test_memory_cgroup_is_found(doctor, machine, groups, path, text, status, finding):
    env = machine({"/proc/self/cgroup": groups, path: text + "\n"})
    line = only(doctor(env=env), "memory cgroup")
    assert line["status"] == status and finding in line["finding"], line


def test_few_processes_in_a_cgroup_are_reported(doctor, machine):
    env = machine({"/proc/self/cgroup": "0::/job\n", "/sys/fs/cgroup/job/pids.max": "5\n"})
    line = only(doctor(env=env), "pids cgroup")
    assert line["status"] == "warning" and "5 processes" in line["finding"]


@pytest.mark.parametrize("size,status", [(1 << 27, "wrong"), (1 << 33, "warning")])
def test_limited_address_space_is_reported(doctor, size, status):
    line = only(doctor(preexec_fn=limit(resource.RLIMIT_AS, size)), "ulimit -v")
    assert line["status"] == status and "together" in line["finding"] and "unlimited" in line["fix"]


def test_unlimited_stack_is_reported(doctor):
    if resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY:
        pytest.skip("the stack's hard limit is not unlimited")
    found = doctor(preexec_fn=limit(resource.RLIMIT_STACK, resource.RLIM_INFINITY))
    assert only(found, "ulimit -s")["status"] == "warning"
    # The kernel then puts libraries elsewhere: not where tasks have their places.
    assert only(found, "address region")["status"] == "good"


# ---- Filters ----

def test_forbidden_memfd_create_is_wrong(doctor):
    found = doctor(preexec_fn=forbid(MEMFD_CREATE, error=errno.EPERM))
    assert only(found, "memfd_create")["status"] == "wrong"
    assert only(found, "trial")["status"] == "wrong"


@pytest.mark.parametrize("call,name", [(PRCTL, "prctl"), (WAIT4, "wait4"), (RT_SIGACTION, "rt_sigaction")])
def test_forbidden_calls_of_the_reaper_are_wrong(doctor, call, name):
    found = doctor(preexec_fn=forbid(call, error=errno.EPERM))
    assert only(found, name)["status"] == "wrong"


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_forbidden_clone3_is_good(doctor, error):
    found = doctor(preexec_fn=forbid(CLONE3, error=error))
    line = only(found, "system calls")
    assert line["status"] == "good" and "clone does instead" in line["finding"]
    assert only(found, "trial")["status"] == "good"


def test_forbidden_cma_is_a_warning(doctor):
    found = doctor(preexec_fn=forbid(PROCESS_VM_READV, error=errno.EPERM))
    line = only(found, "CMA")
    assert line["status"] == "warning" and "ordinary processes copy twice" in line["finding"]
    assert only(found, "trial")["status"] == "good"


@pytest.mark.parametrize("scope,status", [("0", "good"), ("1", "warning")])
def test_ptrace_scope_is_reported(doctor, machine, scope, status):
    line = only(doctor(env=machine({"/proc/sys/kernel/yama/ptrace_scope": scope + "\n"})), "ptrace_scope")
    assert line["status"] == status


# ---- onespace itself ----

def test_trial_makes_a_task(doctor):
    line = only(doctor(), "trial")
    assert line["status"] == "good" and " ms " in line["finding"]


def test_trial_survives_a_crash(doctor):
    assert only(doctor(), "crash")["status"] == "good"


def test_missing_agent_is_wrong(job, tmp_path):
    alone = tmp_path / "onespace"
    shutil.copy(ONESPACE, alone)
    result = job.run([alone, "doctor", "--json"])
    line = only(as_json(result), "agent")
    assert result.code == 1 and line["status"] == "wrong" and "ONESPACE_AGENT" in line["fix"]


def test_address_region_that_is_taken_is_wrong(doctor, machine):
    mapping = "300000000000-300000001000 rw-p 00000000 fe:00 12    /lib/in-the-way.so"
    line = only(doctor(env=machine({"/proc/self/maps": mapping + "\n"})), "address region")
    assert line["status"] == "wrong" and "in-the-way.so" in line["finding"]


def test_interposition_finds_this_libc(doctor):
    line = only(doctor(), "interposition")
    assert line["status"] == "good" and "ld-" in line["finding"] and "libc" in line["finding"]


def test_directory_that_is_not_ones_own_is_wrong(doctor, job, tmp_path):
    directory = pathlib.Path(job.runtime) / "onespace"
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    line = only(doctor(), "socket directory")
    directory.rmdir()
    assert line["status"] == "wrong" and str(directory) in line["finding"]


def test_works_for_an_ordinary_user(doctor, somebody):
    found = doctor(preexec_fn=somebody, env={"XDG_RUNTIME_DIR": "/nonexistent"})
    assert not [line for line in found if line["status"] == "wrong"], found


# ---- Launchers and MPI libraries ----

@pytest.fixture
def environment(tmp_path, guests):
    """A virtual environment with a launcher's script and a library, and nothing else in PATH."""
    def make(launcher="exit 0", name="mpiexec", version=None, flags=()):
        for directory in ("bin", "lib"):
            (tmp_path / directory).mkdir(exist_ok=True)
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{launcher}\n")
        program.chmod(0o755)
        if version is not None:
            text = version.replace("\n", "\\n").replace('"', '\\"')
            built = guests.build("library.c", ("cc", "-shared", "-fPIC"), (f'-DVERSION="{text}"', *flags),
                                 f"library-{len(guests.built)}.so")
            shutil.copy(built, tmp_path / "lib/libmpi.so.99")
        return {"PATH": str(tmp_path / "bin"), "VIRTUAL_ENV": str(tmp_path)}
    return make


def library_of(found, tmp_path):
    line, = [line for line in about(found, "MPI library") if str(tmp_path) in line["finding"]]
    return line


@pytest.mark.parametrize("output,kind", [
    ("mpirun (Open MPI) 9.8.7", "Open MPI 9.8.7"), ("mpiexec (OpenRTE) 4.1.4", "Open MPI 4.1.4"),
    ("HYDRA build details:\\n    Version:      9.8.7\\n", "MPICH's Hydra 9.8.7"),
    ("Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 1", "Intel MPI 2021.18"),
    ("slurm 23.02.7", "Slurm 23.02.7"), ("something else", "does not know")])
def test_launcher_is_named(doctor, environment, output, kind):
    line = only(doctor(env=environment(f'printf "{output}"')), "launcher")
    assert line["status"] == "good" and kind in line["finding"]


def test_launcher_that_hangs_is_given_up(doctor, environment):
    line = only(doctor(env=environment("/bin/sleep 600")), "launcher")
    assert line["status"] == "warning" and "no answer" in line["finding"]


def test_interrupted_doctor_ends_the_check_that_hangs(job, environment, tmp_path):
    env = environment(f": >{tmp_path}/started; exec /bin/sleep 600")
    command = job.start(DOCTOR, env={**env, "PATH": f"{env['PATH']}:{os.environ['PATH']}"})
    assert eventually((tmp_path / "started").exists)
    command.process.send_signal(signal.SIGINT)
    assert command.finish().code == 128 + signal.SIGINT


def test_launcher_that_fails_is_reported(doctor, environment):
    line = only(doctor(env=environment("echo no licence; exit 3")), "launcher")
    assert line["status"] == "warning" and "no licence" in line["finding"]


def test_launcher_is_reported_once(doctor, environment, tmp_path):
    env = environment('printf "mpirun (Open MPI) 9.8.7"')
    (tmp_path / "bin/mpirun").symlink_to("mpiexec")
    assert len(about(doctor(env=env), "launcher")) == 1


def test_no_launcher_is_good(doctor, tmp_path):
    line = only(doctor(env={"PATH": str(tmp_path)}), "launcher")
    assert line["status"] == "good" and "none" in line["finding"]


MPICH = "MPICH Version:      9.8.7\nMPICH Device:       ch4:ofi\n"


@pytest.mark.parametrize("version,flags,status,words", [
    (MPICH, ["-DCMA"], "good", ["MPICH 9.8.7", "ch4:ofi", "its own CMA"]),
    (MPICH, [], "warning", ["MPICH 9.8.7", "copied twice"]),
    ("Open MPI v9.8.7, package: x", ["-DCMA"], "good", ["Open MPI 9.8.7", "smsc/cma"]),
    ("Open MPI v5.0.9, package: x", ["-DCMA"], "good", ["Open MPI 5.0.9", "smsc/cma", "smsc/onespace"]),
    ("Open MPI v4.1.9, package: x", ["-DCMA"], "good", ["Open MPI 4.1.9", "vader"]),
    ("Open MPI v9.8.7, package: x", [], "warning", ["Open MPI 9.8.7", "copied twice"]),
    ("Intel(R) MPI Library 2021.18 for Linux* OS\n", [], "warning", ["Intel MPI 2021.18", "copied twice"]),
    ("Intel(R) MPI Library 2021.19 for Linux* OS\n", ["-DXPMEM"], "good", ["Intel MPI 2021.19", "I_MPI_SHM_XPMEM=1"]),
    ("Another MPI 3", ["-DCMA"], "good", ["Another MPI 3", "uses CMA"])])
def test_library_of_the_environment_is_known(doctor, environment, tmp_path, version, flags, status, words):
    line = library_of(doctor(env=environment(version=version, flags=flags)), tmp_path)
    assert line["status"] == status and all(word in line["finding"] for word in words), line


def test_library_through_ucx_needs_its_module(doctor, environment, tmp_path, guests):
    env = environment(version=MPICH.replace("ofi", "ucx"))
    assert library_of(doctor(env=env), tmp_path)["status"] == "warning"
    (tmp_path / "lib/ucx").mkdir()
    module = guests.build("library.c", ("cc", "-shared", "-fPIC"), ('-DVERSION=""', "-DCMA"), "libuct_cma.so.0")
    shutil.copy(module, tmp_path / "lib/ucx/libuct_cma.so.0")
    line = library_of(doctor(env=env), tmp_path)
    assert line["status"] == "good" and "UCX's CMA" in line["finding"]


@pytest.mark.parametrize("flag", ["-DHANG", "-DCRASH"])
def test_library_that_misbehaves_is_reported(doctor, environment, tmp_path, flag):
    line = library_of(doctor(env=environment(version=MPICH, flags=[flag])), tmp_path)
    assert line["status"] == "warning" and "cannot be asked" in line["finding"]


def test_settings_of_run_are_listed(doctor):
    line = only(doctor(), "MPI settings")
    assert "PMIX_MCA_gds=^shmem,shmem2" in line["finding"] and "MPIR_CVAR_SHM_SYMHEAP_RETRY=0" in line["finding"]


def test_settings_that_the_user_made_are_not_listed(doctor):
    line = only(doctor(env={"PMIX_MCA_gds": "other"}), "MPI settings")
    assert "PMIX_MCA_gds" not in line["finding"] and "MPIR_CVAR_SHM_SYMHEAP_RETRY=0" in line["finding"]


@pytest.mark.parametrize("name,value,reported", [
    ("UCX_TLS", "tcp,self", True), ("UCX_TLS", "^cma", True), ("UCX_TLS", "cma,posix,self", False),
    ("UCX_TLS", "sm,self", False), ("UCX_TLS", "^ib", False), ("UCX_TLS", "all", False),
    ("OMPI_MCA_smsc", "^cma", True), ("OMPI_MCA_smsc", "cma", False),
    ("OMPI_MCA_smsc", "onespace", False), ("OMPI_MCA_smsc", "^onespace", False),
    ("OMPI_MCA_btl_vader_single_copy_mechanism", "none", True),
    ("OMPI_MCA_btl_vader_single_copy_mechanism", "cma", False)])
def test_setting_that_switches_cma_off_is_reported(doctor, name, value, reported):
    lines = [line for line in about(doctor(env={name: value}), "MPI settings")
             if line["status"] == "warning"]
    assert len(lines) == reported and all(f"{name}={value}" in line["finding"] for line in lines)


# ---- Windows on storage ----

def test_windows_on_storage_are_tried_in_the_current_directory(doctor, tmp_path):
    line = only(doctor(cwd=tmp_path), "storage windows")
    assert str(tmp_path) in line["finding"] and not os.listdir(tmp_path), line


def test_directory_in_memory_is_no_storage(doctor):
    line = only(doctor(cwd="/dev/shm"), "storage windows")
    assert line["status"] == "warning" and "/dev/shm (tmpfs) is memory" in line["finding"], line


def test_directory_without_files_gives_way_to_another(doctor):
    line = only(doctor(cwd="/proc"), "storage windows")
    assert "/var/tmp (" in line["finding"], line


def test_forbidden_userfaultfd_makes_versions_whole(doctor, tmp_path):
    line = only(doctor(cwd=tmp_path, preexec_fn=forbid(USERFAULTFD, error=errno.EPERM)), "versions")
    assert line["status"] == "warning" and "what has changed is not known" in line["finding"], line


def test_space_that_cannot_be_reserved_is_reported(doctor):
    line = only(doctor(cwd="/var/tmp", preexec_fn=forbid(FALLOCATE, error=errno.EOPNOTSUPP)), "storage windows")
    assert line["status"] == "warning" and "by writing zeroes" in line["finding"], line


def of_ranks(doctor, ranks, **options):
    lines = doctor("--ranks", str(ranks), **options)
    return {line["subject"]: line for line in lines}


def test_ranks_are_answered_in_advance(doctor, machine):
    """Nothing else is looked at."""
    few = of_ranks(doctor, 16, env=machine({"/proc/sys/vm/max_map_count": "65530\n"}))
    assert set(few) == {"descriptors", "mappings", "processes", "memory", "locked memory"}
    assert few["mappings"]["status"] == "good"
    assert "16 ranks need 220 at least" in few["mappings"]["finding"]


@pytest.mark.parametrize("most,status", [("1000", "wrong"), ("3000", "warning")])
def test_ranks_that_do_not_fit_are_reported(doctor, machine, most, status):
    line = of_ranks(doctor, 100, env=machine({"/proc/sys/vm/max_map_count": most + "\n"}))["mappings"]
    assert line["status"] == status and "vm.max_map_count" in line["finding"]
    assert line["fix"] == "Raise it: sysctl -w vm.max_map_count=262144."


def test_ranks_count_a_pids_cgroup(doctor, machine):
    env = machine({"/proc/self/cgroup": "0::/job\n", "/sys/fs/cgroup/job/pids.max": "100\n",
                   "/sys/fs/cgroup/job/pids.current": "60\n"})
    assert of_ranks(doctor, 64, env=env)["processes"]["status"] == "wrong"
    assert "40 there" in of_ranks(doctor, 8, env=env)["processes"]["finding"]


def little_locked_memory():
    """Of a user without CAP_IPC_LOCK."""
    ctypes.CDLL(None).prctl(24, 14)  # PR_CAPBSET_DROP
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 << 20, 8 << 20))


CARD = {"/sys/class/infiniband/mlx5_0/node_type": "1: CA\n"}


def test_ranks_lock_memory_together_where_a_network_registers_it(doctor, machine):
    options = {"preexec_fn": little_locked_memory}
    assert of_ranks(doctor, 2, **options)["locked memory"]["status"] == "good"
    line = of_ranks(doctor, 2, env=machine(CARD), **options)["locked memory"]
    assert line["status"] == "warning" and "8192 KiB there: about 0 MPI ranks" in line["finding"], line
    assert line["fix"] == "Lift it: ulimit -l unlimited (limits.conf, LimitMEMLOCK=infinity)."
    assert only(doctor(env=machine(CARD), **options), "ulimit -l")["status"] == "warning"


@pytest.mark.parametrize("ranks", ["0", "-1", "x", "12x", "99999999"])
def test_no_number_of_ranks_is_refused(job, ranks):
    job.run([*DOCTOR, f"--ranks={ranks}"]).expect(2, says="not a number of ranks")


# ---- The network between nodes (tests/networks has machines with one) ----

def test_network_needs_two_nodes(job, stock_mpi, tmp_path):
    launcher = shlex.join(stock_mpi.command(2, []))
    result = job.run([*DOCTOR, "--network", launcher], cwd=tmp_path,
                     env={**os.environ, **stock_mpi.env, "MPICC": stock_mpi.compiler[0]})
    assert result.code == 1 and "all ranks are on one node: start them on two or more" in one_line(result.out), result
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("compiler, launcher, says", [
    ("no-such-mpicc", "true", "no-such-mpicc does not compile an MPI program"),
    ("mpicc.mpich", "no-such-launcher -n 4", "no-such-launcher"), ("mpicc.mpich", "true", "it printed nothing")])
def test_network_check_that_cannot_run_is_reported(job, tool, tmp_path, compiler, launcher, says):
    tool("mpicc.mpich", "libmpich-dev")
    result = job.run([*DOCTOR, "--network", launcher], cwd=tmp_path, env={**os.environ, "MPICC": compiler})
    assert result.code == 1 and says in one_line(result.out), result
    assert not os.listdir(tmp_path)


def test_interrupted_network_check_leaves_nothing(job, tool, tmp_path):
    tool("mpicc.mpich", "libmpich-dev")
    command = job.start([*DOCTOR, "--network", "sh -c ': >started; exec sleep 600' sh"], cwd=tmp_path,
                        env={**os.environ, "MPICC": "mpicc.mpich"})
    assert eventually((tmp_path / "started").exists)
    command.process.send_signal(signal.SIGTERM)
    assert command.finish().code == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == ["started"]


@pytest.mark.parametrize("words", [["--network="], ["--network=true", "--ranks=2"]])
def test_network_without_a_launcher_is_refused(job, words):
    job.run([*DOCTOR, *words]).expect(2, says="Try `onespace doctor --help`")


# ---- All nodes of a job (tests/launch/test_slurm.py has a real one) ----

@pytest.fixture
def launcher(tmp_path):
    """A launcher that starts its command on these nodes, each after shell commands of its own; its path."""
    def make(nodes, name="launcher", after="wait"):
        path = tmp_path / name
        starts = [f"({commands or ':'}; SLURMD_NODENAME={node} exec \"$@\") &" for node, commands in nodes]
        path.write_text("\n".join(["#!/bin/bash", *starts, after, ""]))
        path.chmod(0o755)
        return path
    return make


MANY, FEW = "ulimit -n 20000", "ulimit -n 200"  # where the hard limit allows it


def names_in(text):
    return sorted(text.split(": ")[1].split(", "))


def test_findings_of_all_nodes_are_said_once(doctor, launcher):
    found = doctor("--job", "--launcher", str(launcher([("a", MANY), ("b", FEW), ("c", FEW)])))
    assert names_in(only(found, "nodes")["finding"]) == ["a", "b", "c"]
    assert len(about(found, "kernel")) == 1 and ":" not in only(found, "onespace")["finding"]
    files = {line["finding"].split(":")[0]: line for line in about(found, "ulimit -n")}
    assert files.pop("a")["status"] == "good"
    (names, line), = files.items()
    assert names in ("b, c", "c, b") and line["status"] == "warning" and "200 open files" in line["finding"]
    assert "ulimit -n 65536" in line["fix"]


def test_table_of_a_job_is_like_that_of_a_node(job, launcher):
    result = job.run([*DOCTOR, "--job", "--launcher", launcher([("a", MANY), ("b", FEW)])])
    assert re.search(r"^good     nodes +2 answered: (a, b|b, a)$", result.out, re.MULTILINE), result
    assert re.search(r"^warning  ulimit -n +b: 200 open files.*; raise it: ulimit -n 65536", result.out, re.MULTILINE)
    *lines, sums = result.out.splitlines()
    assert sums.startswith(f"{sum(line.startswith('good ') for line in lines)} good, "), result


def test_wrong_node_does_not_end_the_checks_of_the_others(job, launcher):
    """By a launcher that ends all when one fails. Each node's fault is named, though they differ in numbers only."""
    nodes = [(f"n{i}", f"ulimit -v {128 + i << 10}") for i in range(5)]
    result = job.run([*DOCTOR, "--json", "--job", "--launcher",
                      launcher(nodes, after="wait -n || kill -9 0; wait")], timeout=600).expect(1)
    found = as_json(result)
    assert [line["status"] for line in about(found, "ulimit -v")] == ["wrong"] * 5, about(found, "ulimit -v")
    assert only(found, "nodes")["finding"].startswith("5 answered: ")


def test_of_findings_that_differ_in_numbers_some_are_shown(doctor, launcher):
    nodes = [(f"n{i:02}", f"ulimit -n {200 + i}") for i in range(10)]
    found = doctor("--job", "--launcher", str(launcher(nodes)), timeout=600)
    files = about(found, "ulimit -n")
    assert [line["status"] for line in files] == ["warning"] * 4
    assert re.fullmatch(r"(n\d\d, ){6}n\d\d: as the 3 above, with other numbers", files[-1]["finding"])
    assert re.fullmatch(r"10 answered: (n\d\d, ){7}n\d\d and 2 more", only(found, "nodes")["finding"])


def test_allocation_of_slurm_is_found(doctor, launcher):
    srun = launcher([("a", ""), ("b", "")], "srun", 'echo "$@" >&2; wait')
    env = {"PATH": f"{srun.parent}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3"}
    srun.write_text(srun.read_text().replace("#!/bin/bash\n", "#!/bin/bash\n"
                    '[ "$1 $2 $3 $4" = "--nodes=3 --ntasks=3 --ntasks-per-node=1 --mem=0" ] || exit 9; shift 4\n'))
    good, missing = about(doctor("--job", env={**env, "SLURM_JOB_NODELIST": "[a-c]"}), "nodes")
    assert good["finding"].startswith("2 answered: ") and missing["finding"] == "1 of 3 did not answer ([a-c])"


@pytest.mark.parametrize("variable", ["PBS_NODEFILE", "PE_HOSTFILE"])
@pytest.mark.parametrize("version, expected", [("HYDRA build details: Version: 4", "-hosts one,two -ppn 1 -n 2"),
                                               ("mpirun (Open MPI) 4.1.4", "--host one,two --map-by ppr:1:node -n 2")])
def test_nodes_of_other_batch_systems_are_found(doctor, launcher, tmp_path, variable, version, expected):
    mpiexec = launcher([("one", ""), ("two", "")], "mpiexec")
    words = len(expected.split())
    mpiexec.write_text(mpiexec.read_text().replace("#!/bin/bash\n", f"""#!/bin/bash
[ "$1" != --version ] || {{ echo '{version}'; exit; }}
[ "${{*:1:{words}}}" = '{expected}' ] || exit 9; shift {words}
"""))
    (tmp_path / "hosts").write_text("one 4 all.q\none\ntwo 4 all.q\ntwo\n")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", variable: str(tmp_path / "hosts")}
    assert names_in(only(doctor("--job", env=env), "nodes")["finding"]) == ["one", "two"]


def test_node_that_does_not_answer_is_named(doctor, launcher, tmp_path):
    mpiexec = launcher([("one", "")], "mpiexec", "wait; echo 'cannot reach two' >&2; exit 1")
    mpiexec.write_text(mpiexec.read_text().replace("#!/bin/bash\n", """#!/bin/bash
[ "$1" != --version ] || { echo 'HYDRA build details: Version: 4'; exit; }
shift 6
"""))
    (tmp_path / "hosts").write_text("one\ntwo.cluster\n")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PBS_NODEFILE": str(tmp_path / "hosts")}
    found = doctor("--job", env=env)
    assert [line["finding"] for line in about(found, "nodes")] == ["1 answered: one",
                                                                   "1 of 2 did not answer: two.cluster"]
    assert only(found, "launcher of the job")["finding"].endswith("mpiexec -hosts one,two.cluster -ppn 1 -n 2: "
                                                                  "cannot reach two")


@pytest.mark.parametrize("hosts", ["", "one; rm -rf /\n$(reboot)\n", "n" * 300, None])
def test_file_that_names_no_nodes_is_reported(doctor, tmp_path, hosts):
    if hosts is not None:
        (tmp_path / "hosts").write_text(hosts)
    line, = doctor("--job", env={"PBS_NODEFILE": str(tmp_path / "hosts")})
    assert line["status"] == "wrong" and line["finding"].startswith(f"PBS_NODEFILE={tmp_path}/hosts names no nodes")


def test_job_without_an_allocation_says_what_to_do(doctor):
    line, = doctor("--job")
    assert line["status"] == "wrong" and "no job of a batch system" in line["finding"]
    assert "--launcher" in line["fix"]


DAMAGED = "not all findings arrived from a"


@pytest.mark.parametrize("script, findings", [
    ("echo cannot reach node a >&2; exit 3", ["LAUNCHER: cannot reach node a"]),
    ("exit 0", ["LAUNCHER: it printed nothing"]),
    ('"$@" | head -n 20', [DAMAGED]),
    ('"$@" | sed 5d', ["1 answered: a"]),
    ('"$@" | sed p', ["1 answered: a"]),
    ('"$@" | tail -n 20', [DAMAGED]),
    ('"$@" | sed "/ 4 0 [0-9]/d"', [DAMAGED]),
    ('"$@" | sed "s/$/ and more/"', [DAMAGED]),
    ('"$@" | sed "s/.|/|/"', [DAMAGED]),
    ('"$@" | sed "5{N;s/ *\\n//}"', ["1 answered: a"]),
    ('"$@" | tr -d "|"', [DAMAGED]),
    ('"$@" | sed -u "s/^/[0] /; s/$/\\r/"', ["1 answered: a"]),
    ('"$@"; echo late >&2; exit 1', ["1 answered: a", "LAUNCHER: late"])])
def test_launcher_that_fails_or_damages_what_it_passes_on(doctor, tmp_path, script, findings):
    path = tmp_path / "launcher"
    path.write_text(f"#!/bin/bash\nexport SLURMD_NODENAME=a\n{script}\n")
    path.chmod(0o755)
    found = doctor("--job", "--launcher", str(path))
    said = [line["finding"] for line in found if line["subject"] in ("nodes", "launcher of the job")]
    assert said == [text.replace("LAUNCHER", str(path)) for text in findings], said


def test_processes_on_one_node_are_not_taken_for_nodes(doctor, stock_mpi):
    """Nor as tasks, where a fork agent makes tasks of what the launcher starts."""
    agents = dict.fromkeys(("OMPI_MCA_orte_fork_agent", "PRTE_MCA_prte_odls_base_exec_agent"), f"{ONESPACE} run")
    found = doctor("--job", "--launcher", shlex.join(stock_mpi.command(2, [])), env={**stock_mpi.env, **agents})
    assert [line["status"] for line in about(found, "nodes")] == ["good", "warning"], about(found, "nodes")
    assert only(found, "address region")["status"] == "good"
    assert "several processes checked" in about(found, "nodes")[1]["finding"]


def test_interrupted_check_of_a_job_ends_its_launcher(job, tmp_path):
    command = job.start([*DOCTOR, "--job", "--launcher", "sh -c ': >started; exec sleep 600' sh"], cwd=tmp_path)
    assert eventually((tmp_path / "started").exists)
    command.process.send_signal(signal.SIGTERM)
    assert command.finish().code == 128 + signal.SIGTERM


@pytest.mark.parametrize("words", [["--job", "--ranks=2"], ["--launcher=x"], ["--job", "--launcher= "]])
def test_job_with_other_checks_is_refused(job, words):
    job.run([*DOCTOR, *words]).expect(2, says="Try `onespace doctor --help`")
