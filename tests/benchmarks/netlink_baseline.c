/* The kernel's own cost: messages that were encoded beforehand are sent, and answers received, and nothing else is
 * done. Usage: netlink_baseline send <FILE, or netlink_baseline dump. Prints the seconds that it took. */
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { AT_A_TIME = 128 };

static char answers[1 << 16], messages[1 << 20];

static ssize_t checked(ssize_t result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int open_netlink(void) {
    int fd = checked(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), "socket"), size = 1 << 22, one = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof one);
    setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &one, sizeof one);
    return fd;
}

/* Sends all messages; the last of each batch has an answer. */
static void install(int fd, size_t length) {
    for (size_t begin = 0, end = 0; begin < length; begin = end) {
        struct nlmsghdr *last = NULL;
        for (int count = 0; end < length && count < AT_A_TIME; count++) {
            last = (struct nlmsghdr *)(messages + end);
            end += NLMSG_ALIGN(last->nlmsg_len);
        }
        last->nlmsg_flags |= NLM_F_ACK;
        checked(send(fd, messages + begin, end - begin, 0), "send");
        checked(recv(fd, answers, sizeof answers, 0), "recv");
        checked(((struct nlmsgerr *)NLMSG_DATA((struct nlmsghdr *)answers))->error, "a route was refused");
    }
}

/* Receives all IPv4 routes. */
static void dump(int fd) {
    struct {
        struct nlmsghdr header;
        struct rtmsg route;
    } request = {{sizeof request, RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {.rtm_family = AF_INET}};
    checked(send(fd, &request, sizeof request, 0), "send");
    for (;;) {
        unsigned left = checked(recv(fd, answers, sizeof answers, 0), "recv");
        struct nlmsghdr *header = (struct nlmsghdr *)answers;
        for (; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left))
            if (header->nlmsg_type == NLMSG_DONE)
                return;
    }
}

int main(int argc, char **argv) {
    size_t length = 0;
    int fd = open_netlink(), is_sending = argc > 1 && *argv[1] == 's';
    for (ssize_t count = is_sending; count > 0; length += count > 0 ? count : 0)
        count = checked(read(0, messages + length, sizeof messages - length), "read");
    double begun = now();
    if (is_sending)
        install(fd, length);
    else
        dump(fd);
    printf("%.9f\n", now() - begun);
}
