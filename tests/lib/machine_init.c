/* tests/lib/machine_init.c: the first process of a virtual machine: mounts what programs expect,
 * runs /commands, and turns the machine off.
 *
 * With tests/lib/machine.py the initial file system has all files. With tests/lib/cluster.py it has
 * the modules that its own root needs, which is another machine's directory; what is written there
 * stays in memory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void begin_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
        request.ifr_flags |= IFF_UP | IFF_RUNNING;
        ioctl(fd, SIOCSIFFLAGS, &request);
    }
    close(fd);
}

/* /modules/00.ko, /modules/01.ko and so on: each comes after those that it needs. */
static void load_modules(void)
{
    char path[32];
    for (int i = 0, fd = 0; fd >= 0; i++) {
        snprintf(path, sizeof(path), "/modules/%02d.ko", i);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && syscall(SYS_finit_module, fd, "", 0) != 0)
            perror(path);
        close(fd);
    }
}

static void mount_directory(const char *tag, const char *path)
{
    static const char options[] = "trans=virtio,version=9p2000.L,cache=loose,msize=1048576";
    if (mount(tag, path, "9p", MS_RDONLY, options) != 0)
        perror(tag);
}

/* Makes the directory `root` of the other machine the root, and mounts its directory `files` as
 * /run/machine, where the commands are. */
static void enter_root(void)
{
    mount_directory("root", "/lower");
    mount("tmpfs", "/upper", "tmpfs", 0, "mode=0755");
    mkdir("/upper/data", 0755);
    mkdir("/upper/work", 0755);
    if (mount("overlay", "/root", "overlay", 0,
              "lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work") != 0)
        perror("overlay");
    if (chroot("/root") != 0 || chdir("/") != 0)
        perror("/root");
    mount("tmpfs", "/run", "tmpfs", 0, "mode=0755");
    mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777");
    mkdir("/run/machine", 0755);
    mount_directory("files", "/run/machine");
}

static void mount_all(void)
{
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    mkdir("/dev/shm", 01777);
    mkdir("/dev/pts", 0755);
    mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
    mount("devpts", "/dev/pts", "devpts", 0, NULL);
    (void)!symlink("/proc/self/fd", "/dev/fd");
}

/* The console turns newlines into two characters; the tests read one. */
static void run_commands(const char *commands)
{
    int console = open("/dev/console", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(console, fd);
    setsid();
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", 1);
    setenv("HOME", "/root", 1);
    execl("/bin/sh", "sh", commands, NULL);
    _exit(127);
}

int main(void)
{
    static const struct rlimit cores = {0, 0};
    int has_own_root = access("/modules", F_OK) == 0;
    if (has_own_root) {
        load_modules();
        enter_root();
    }
    mount_all();
    begin_loopback();
    sethostname("machine", 7);
    setrlimit(RLIMIT_CORE, &cores);
    pid_t shell = fork();
    if (shell == 0)
        run_commands(has_own_root ? "/run/machine/commands" : "/commands");
    for (pid_t ended = 0; ended != shell;) /* and whatever else ends: this is its parent */
        ended = wait(NULL);
    sync();
    reboot(RB_POWER_OFF);
    return 1;
}
