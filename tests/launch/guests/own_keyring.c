/* own_keyring PROGRAM...: executes it with a session keyring of its own. 77: there are none. */
#include <linux/keyctl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2 || syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
        return 77;
    execvp(argv[1], argv + 1);
    return 127;
}
