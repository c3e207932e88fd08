/*
 * A real etcd of one or three members for tests: own temporary folder, free ports on 127.0.0.1,
 * ended by process id. Members die with the test program, however it ends.
 *
 * Every wait is for a condition (a member reports that it is healthy, which takes a quorum), with a
 * deadline.
 */
#pragma once

#include <ftw.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#define ETCD_FIXTURE_PROGRAM     "/usr/bin/etcd"
#define ETCD_FIXTURE_MEMBERS_MAX 3
#define ETCD_FIXTURE_TEXT_SIZE   256

struct etcd_member {
    pid_t pid; /* 0: not running */
    unsigned client_port, peer_port, health_port;
};

struct etcd_fixture {
    char folder[64];
    bool tls; /* clients speak TLS and show a certificate; the files are in the folder */
    unsigned member_count;
    struct etcd_member members[ETCD_FIXTURE_MEMBERS_MAX];
};

/** etcd_fixture_available() - return whether etcd is installed */
bool etcd_fixture_available(void);

/*
 * Return a free port below the range that the kernel gives to outgoing connections, so that no
 * client takes the port of a member that is dead for a moment.
 */
unsigned etcd_fixture_free_port(void);

/** etcd_fixture_url() - write the URL of a port of 127.0.0.1 */
void etcd_fixture_url(unsigned port, char text[ETCD_FIXTURE_TEXT_SIZE]);

/** etcd_fixture_file() - write the path of "ca.pem", "client.pem" or "client.key" in its folder */
void etcd_fixture_file(const struct etcd_fixture *fixture, const char *name,
                       char text[ETCD_FIXTURE_TEXT_SIZE]);

/* Write the endpoints for a client: "http://127.0.0.1:1,http://127.0.0.1:2". */
void etcd_fixture_endpoints(const struct etcd_fixture *fixture, char text[ETCD_FIXTURE_TEXT_SIZE]);

/** etcd_fixture_launch() - start a member, or start it again on its data */
void etcd_fixture_launch(struct etcd_fixture *fixture, unsigned member);

/** etcd_fixture_kill() - SIGKILL and reap; works on a paused member too */
void etcd_fixture_kill(struct etcd_fixture *fixture, unsigned member);

/** etcd_fixture_pause() - pause a member: it runs, but does not answer */
void etcd_fixture_pause(const struct etcd_fixture *fixture, unsigned member);

/** etcd_fixture_continue() - let a paused member continue */
void etcd_fixture_continue(const struct etcd_fixture *fixture, unsigned member);

/** etcd_fixture_wait() - wait until a member is healthy. Return false if it ended or time is over
 */
bool etcd_fixture_wait(struct etcd_fixture *fixture, unsigned member);
/** etcd_fixture_stop() - end all members and remove the folder; also after a failed start */
void etcd_fixture_stop(struct etcd_fixture *fixture);

/** etcd_fixture_start() - start a healthy store of 1 or 3 members */
bool etcd_fixture_start(struct etcd_fixture *fixture, unsigned member_count);

/** etcd_fixture_start_tls() - start a member that wants client certificates; needs openssl(1) */
bool etcd_fixture_start_tls(struct etcd_fixture *fixture);

/** etcd_fixture_remove() - remove one file or folder; for nftw() */
int etcd_fixture_remove(const char *path, const struct stat *status, int type,
                        struct FTW *position);
