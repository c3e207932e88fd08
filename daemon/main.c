/* firnd: the daemon of one node. */
#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mapped_blocks.h"
#include "base/secrecy.h"
#include "daemon/config/config.h"
#include "daemon/core/daemon.h"
#include "daemon/core/journal.h"

enum { EXIT_USAGE = 2 };

#define MAPPED_BYTES (128 * 1024)

int main(int argc, char **argv)
{
    struct config config;
    struct error error = {0};
    int status = config_load(argc, argv, &config, &error);

    if (status == 1)
        return EXIT_SUCCESS;
    if (status) {
        fprintf(stderr, "firnd: %s\n", error.text);
        return EXIT_USAGE;
    }
    signal(SIGPIPE, SIG_IGN);
    mapped_blocks_from(MAPPED_BYTES);
    secrecy_guard_process();
    log_set_prefix("firnd");
    if (config.journal)
        journal_use();
    return daemon_run(&config);
}
