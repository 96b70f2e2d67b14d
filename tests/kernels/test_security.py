"""tests/kernels/test_security.py: what audit, AppArmor, SELinux, IMA and fapolicyd see of tasks (docs/trust.md). In a
virtual machine with their tools: `scripts/fetch-nodes security`, ONESPACE_LONG=1."""
import os

import pytest

import machine
from jobs import BUILD, ONESPACE

# Below /opt, which is a file system of its own: copies of cat, and two files to read.
FILES = ["mount -t securityfs none /sys/kernel/security; mount -t selinuxfs none /sys/fs/selinux; "
         "mkdir -p /opt /var/log/audit /var/lib/fapolicyd; mount -t tmpfs none /opt; "
         "for i in cat executed mapped opened; do cp /bin/cat /opt/$i; done; "
         "echo public >/opt/public; echo secret >/opt/secret"]


@pytest.fixture
def run_there():
    """Runs commands there, with these parameters of the kernel: their exit statuses and outputs."""
    if not os.environ.get("ONESPACE_LONG"):
        pytest.skip("a virtual machine without KVM takes minutes: ONESPACE_LONG=1")
    if not machine.kernels(machine.SECURITY):
        pytest.skip("no tools of security modules for the virtual machine: scripts/fetch-nodes security")
    try:
        machine.check(kind=machine.SECURITY)
    except machine.Unavailable as missing:
        pytest.skip(str(missing))

    def run(commands, parameters=""):
        results, text = machine.run([*FILES, *commands], [ONESPACE, BUILD / "lib"], timeout=900, memory_mib=2048,
                                    kind=machine.SECURITY, parameters=parameters)
        assert len(results) == len(commands) + 1, text
        return results[1:]
    return run


def test_audit_records_the_command_and_what_tasks_do(run_there):
    ruled, _, executed, opened = run_there([
        "auditctl -e 1 && auditctl -a always,exit -F arch=b64 -S execve -k executed && "
        "auditctl -w /opt/secret -p r -k opened && auditd && sleep 2",
        f"echo 77 >/proc/self/loginuid; {ONESPACE} run -n 2 /opt/cat /opt/secret; sleep 2",
        "ausearch -k executed -i | grep EXECVE",
        "ausearch -k opened -i | grep syscall=openat"], "audit=1")
    assert ruled[0] == 0, ruled
    records = [line for line in executed[1].splitlines() if "/opt/cat" in line]
    assert len(records) == 1 and f"a0={ONESPACE} a1=run a2=-n a3=2 a4=/opt/cat a5=/opt/secret" in records[0], executed
    records = opened[1].splitlines()
    assert len(records) == 2, opened
    for record in records:
        assert "auid=unknown(77)" in record and f"exe={ONESPACE}" in record and "comm=cat" in record, record


APPARMOR = """
profile cat /opt/cat { /opt/cat mr, /usr/lib/** mr, /etc/ld.so.cache r, /opt/public r, }
profile confined { file, signal, ptrace, unix, network, capability, mount, deny /opt/secret rw, }
"""


def test_apparmor_confines_the_command_and_not_the_program(run_there):
    """A profile is attached to a program when it is executed."""
    loaded, process, task, confined = run_there([
        f"cat >/tmp/profiles <<'EOF'\n{APPARMOR}EOF\napparmor_parser -r /tmp/profiles",
        "/opt/cat /opt/public /opt/secret",
        f"{ONESPACE} run /opt/cat /opt/public /opt/secret",
        f"aa-exec -p confined -- {ONESPACE} run /opt/cat /opt/public /opt/secret"])
    assert loaded[0] == 0, loaded
    denied = (1, "public\ncat: /opt/secret: Permission denied")
    assert process == denied
    assert task == (0, "public\nsecret")
    assert confined == denied


# The smallest policy with two labels of processes. The kernel allows what it does not mention.
SIDS = """kernel security unlabeled fs file file_labels init any_socket port netif netmsg node igmp_packet icmp_socket
tcp_socket sysctl_modprobe sysctl sysctl_fs sysctl_kernel sysctl_net sysctl_net_unix sysctl_vm sysctl_dev kmod policy
scmp_packet devnull"""
LABEL = "(u object_r base_t ((s0) (s0)))"
SELINUX = "\n".join([
    "(handleunknown allow) (mls false)",
    *[f"(sid {name})" for name in SIDS.split()], f"(sidorder ({SIDS}))",
    "(class process (transition dyntransition)) (class file (entrypoint)) (classorder (process file))",
    "(sensitivity s0) (sensitivityorder (s0)) (user u) (userlevel u (s0)) (userrange u ((s0) (s0)))",
    "(role r) (role object_r) (userrole u r) (userrole u object_r)",
    "(type base_t) (type prog_t) (type prog_exec_t) (roletype r base_t) (roletype r prog_t)",
    "(roletype object_r base_t) (roletype object_r prog_exec_t)",
    *[f"(sidcontext {name} (u r base_t ((s0) (s0))))" for name in ("kernel", "init")],
    *[f"(sidcontext {name} {LABEL})" for name in ("unlabeled", "file", "security", "fs", "devnull")],
    f"(fsuse trans tmpfs {LABEL})",
    *[f'(genfscon {name} "/" {LABEL})' for name in ("rootfs", "proc", "sysfs", "selinuxfs")],
    "(typetransition base_t prog_exec_t process prog_t)",
    "(allow base_t base_t (process (transition))) (allow base_t prog_t (process (transition)))",
    "(allow prog_t prog_t (process (transition)))",
    "(allow base_t base_t (file (entrypoint))) (allow prog_t prog_exec_t (file (entrypoint)))\n"])
SHOW = "/proc/thread-self/attr/current"


def test_programs_that_selinux_runs_under_another_label_are_refused(run_there):
    loaded, process, script, refused, refused_script, task, relabelled, same = (
        (status, output.strip("\0\n ")) for status, output in run_there([
            f"cat >/tmp/policy.cil <<'EOF'\n{SELINUX}EOF\nsecilc -c 33 -o /tmp/policy -f /dev/null /tmp/policy.cil && "
            "cat /tmp/policy >/sys/fs/selinux/load && printf '#!/bin/sh\\nread label <" + SHOW + "; echo $label' >"
            "/opt/script && chmod 755 /opt/script && "
            "mkdir -p /etc/selinux && : >/etc/selinux/config && "  # else runcon says that there is no SELinux
            "for i in cat script; do setfattr -n security.selinux -v u:object_r:prog_exec_t /opt/$i || exit; done",
            f"/opt/cat {SHOW}", "/opt/script",
            f"{ONESPACE} run /opt/cat {SHOW}", f"{ONESPACE} run /opt/script",
            f"{ONESPACE} run /opt/opened {SHOW}",
            f"runcon -t prog_t {ONESPACE} run /opt/opened {SHOW}",
            f"runcon -t prog_t {ONESPACE} run /opt/cat {SHOW}"], "security=selinux"))
    assert loaded[0] == 0, loaded
    assert process == script == (0, "u:r:prog_t")
    for name, (status, output) in (("cat", refused), ("script", refused_script)):
        assert status == 126 and output == (
            f"onespace run: /opt/{name}: runs as u:r:prog_t by SELinux's policy, and a task keeps u:r:base_t: Run it "
            "as a process of its own, or onespace run itself with that label (runcon)."), output
    assert task == (0, "u:r:base_t")
    assert relabelled == same == (0, "u:r:prog_t")


def test_ima_measures_and_appraises_what_is_mapped_or_opened(run_there):
    """Of a task's program: rules for execution do not apply. Files without a hash fail where they are appraised."""
    rules = ("measure func=BPRM_CHECK mask=MAY_EXEC\nmeasure func=MMAP_CHECK mask=MAY_EXEC\n"
             "appraise func=BPRM_CHECK fowner=1\nappraise func=MMAP_CHECK mask=MAY_EXEC fowner=2\n"
             "appraise func=FILE_CHECK mask=MAY_READ fowner=3\n")
    loaded, process, executed, mapped, opened, _, measured = run_there([
        "chown 1 /opt/executed; chown 2 /opt/mapped; chown 3 /opt/opened; "
        f"printf '{rules}' >/tmp/rules && cat /tmp/rules >/sys/kernel/security/ima/policy",
        "/opt/executed /opt/public",
        *[f"{ONESPACE} run /opt/{name} /opt/public" for name in ("executed", "mapped", "opened", "cat")],
        "grep /opt/cat /sys/kernel/security/ima/ascii_runtime_measurements"])
    assert loaded[0] == 0, loaded
    assert process[0] == 126 and "Permission denied" in process[1], process
    assert executed == (0, "public")
    assert mapped[0] == 127 and "failed to map segment" in mapped[1], mapped
    assert opened[0] == 126 and "/opt/opened: may not be read by this user" in opened[1], opened
    assert measured[0] == 0, measured


FAPOLICYD = """permissive = 0
nice_val = 0
q_size = 640
uid = 0
gid = 0
do_stat_report = 0
detailed_report = 0
db_max_size = 20
subj_cache_size = 1549
obj_cache_size = 8191
watch_fs = tmpfs
trust = file
integrity = none
syslog_format = rule,dec,perm,auid,pid,exe,:,path,ftype
"""


@pytest.mark.parametrize("rule, process, task", [
    ("deny perm=execute all : dir=/opt/", 126, 0),
    (f"deny perm=open exe={ONESPACE} : ftype=application/x-executable dir=/opt/", 0, 126),
], ids=["rule for execution", "rule for onespace"])
def test_fapolicyd_sees_that_a_program_is_opened(run_there, rule, process, task):
    begun, *results = run_there([
        f"printf '{FAPOLICYD}' >/etc/fapolicyd/fapolicyd.conf; echo >/etc/fapolicyd/fapolicyd.trust; "
        f"printf '{rule}\\nallow perm=any all : all\\n' >/etc/fapolicyd/compiled.rules; "
        "(fapolicyd --debug >/tmp/log 2>&1 &); "
        "for i in 1 2 3 4 5 6 7 8 9; do grep -q 'listen for events' /tmp/log && exit 0; sleep 2; done; "
        "cat /tmp/log; exit 1",
        "/opt/cat /opt/public", f"{ONESPACE} run /opt/cat /opt/public"])
    assert begun[0] == 0, begun
    assert [status for status, _ in results] == [process, task], results
    for status, output in results:
        assert ("public" == output) == (status == 0) and ("not permitted" in output) == (status != 0), results
