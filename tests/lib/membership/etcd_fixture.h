/*
 * A real etcd of one or three members for tests: own temporary folder, free ports on 127.0.0.1,
 * ended by process id. Members die with the test program, whatever ends that.
 *
 * Everything waits for a condition (a member says it is healthy, which takes a quorum), with a
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
 * A free port below the range that the kernel gives to outgoing connections, so that no client
 * takes the port of a member that is dead for a moment.
 */
unsigned etcd_fixture_free_port(void);

/** etcd_fixture_url() - write the URL of a port of 127.0.0.1 */
void etcd_fixture_url(unsigned port, char text[ETCD_FIXTURE_TEXT_SIZE]);

/** etcd_fixture_file() - "ca.pem", "client.pem", "client.key": a file in its folder */
void etcd_fixture_file(const struct etcd_fixture *fixture, const char *name,
                       char text[ETCD_FIXTURE_TEXT_SIZE]);

/* "http://127.0.0.1:1,http://127.0.0.1:2": what a client is given. */
void etcd_fixture_endpoints(const struct etcd_fixture *fixture, char text[ETCD_FIXTURE_TEXT_SIZE]);

/** etcd_fixture_launch() - start a member, or start it again on its data */
void etcd_fixture_launch(struct etcd_fixture *fixture, unsigned member);

/** etcd_fixture_kill() - SIGKILL and reap; works on a paused member too */
void etcd_fixture_kill(struct etcd_fixture *fixture, unsigned member);

/** etcd_fixture_pause(), etcd_fixture_continue() - a member that is there but does not answer */
void etcd_fixture_pause(const struct etcd_fixture *fixture, unsigned member);

/** etcd_fixture_continue() - let a paused member go on */
void etcd_fixture_continue(const struct etcd_fixture *fixture, unsigned member);

/** etcd_fixture_wait() - until a member is healthy. Returns false when it ended or the time is over
 */
bool etcd_fixture_wait(struct etcd_fixture *fixture, unsigned member);
/** etcd_fixture_stop() - ends all members and removes the folder; also after a failed start */
void etcd_fixture_stop(struct etcd_fixture *fixture);

/** etcd_fixture_start() - a healthy store of 1 or 3 members */
bool etcd_fixture_start(struct etcd_fixture *fixture, unsigned member_count);

/** etcd_fixture_start_tls() - one member that wants client certificates; needs openssl(1) */
bool etcd_fixture_start_tls(struct etcd_fixture *fixture);

/** etcd_fixture_remove() - remove one file or folder; for nftw() */
int etcd_fixture_remove(const char *path, const struct stat *status, int type,
                        struct FTW *position);
