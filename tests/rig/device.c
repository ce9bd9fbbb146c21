/* A sub record that talks to a device over TCP, as device support does: it connects when it is not connected, asks, waits
 * for the answer, and closes the connection when that fails.
 *
 * ioc.py --routines loads it and calls register_routines(). C is the device's address as a number, 0 for
 * loopback, and B its port; A: 0 to be
 * disconnected, 1 to talk, 2 to talk and to keep the socket of a connection that has failed.
 */
#include <poll.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <registryFunction.h>
#include <subRecord.h>

static int device = -1;
static int has_failed;

static void hang_up(void)
{
    if (device >= 0)
        close(device);
    device = -1;
    has_failed = 0;
}

static int connect_to(double ip, double port)
{
    struct sockaddr_in to;

    device = socket(AF_INET, SOCK_STREAM, 0);
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(ip > 0 ? (unsigned)ip : INADDR_LOOPBACK);
    to.sin_port = htons((unsigned short)port);
    return connect(device, (struct sockaddr *)&to, sizeof to);
}

/* VAL counts the answers. */
static long talk(struct subRecord *record)
{
    struct pollfd wait = {-1, POLLIN, 0};
    char answer[16];

    if (record->a < 1 || (has_failed && record->a < 2))
        hang_up();
    if (record->a < 1 || has_failed)
        return 0;
    if (device < 0 && connect_to(record->c, record->b) < 0) {
        hang_up();
        return 0;
    }
    wait.fd = device;
    if (send(device, "?\n", 2, MSG_NOSIGNAL) == 2 && poll(&wait, 1, 1000) == 1 &&
        recv(device, answer, sizeof answer, MSG_DONTWAIT) > 0) {
        record->val += 1;
        return 0;
    }
    if (record->a < 2)
        hang_up();
    else
        has_failed = 1;
    return 0;
}

void register_routines(void)
{
    registryFunctionAdd("talk", (REGISTRYFUNCTION)talk);
}
