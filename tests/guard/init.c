/* tests/guard/init.c: the first process of the virtual machine (tests/lib/machine.py): mounts what
 * programs expect, runs /commands, and turns the machine off. */
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
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
static void run_commands(void)
{
    int console = open("/dev/console", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(console, fd);
    setsid();
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", 1);
    setenv("HOME", "/root", 1);
    execl("/bin/sh", "sh", "/commands", NULL);
    _exit(127);
}

int main(void)
{
    static const struct rlimit cores = {0, 0};
    mount_all();
    begin_loopback();
    sethostname("machine", 7);
    setrlimit(RLIMIT_CORE, &cores);
    pid_t shell = fork();
    if (shell == 0)
        run_commands();
    for (pid_t ended = 0; ended != shell;) /* and whatever else ends: this is its parent */
        ended = wait(NULL);
    sync();
    reboot(RB_POWER_OFF);
    return 1;
}
