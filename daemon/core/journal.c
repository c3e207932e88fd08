#include "daemon/core/journal.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "base/log.h"

#define FIELD_SIZE 640

static void to_journal(enum log_level level, const char *message, const struct log_field *fields,
                       size_t field_count, void *context)
{
    char texts[LOG_FIELDS_MAX][FIELD_SIZE], priority[16], sentence[2048];
    struct iovec entries[LOG_FIELDS_MAX + 2];
    int count = 0;

    (void)context;
    snprintf(priority, sizeof(priority), "PRIORITY=%d", (int)level);
    snprintf(sentence, sizeof(sentence), "MESSAGE=%s", message);
    entries[count++] = (struct iovec){priority, strlen(priority)};
    entries[count++] = (struct iovec){sentence, strlen(sentence)};
    for (size_t i = 0; i < field_count && i < LOG_FIELDS_MAX; i++) {
        snprintf(texts[i], FIELD_SIZE, "FIRN_%s=%s", fields[i].name, fields[i].value);
        entries[count++] = (struct iovec){texts[i], strlen(texts[i])};
    }
    if (sd_journal_sendv(entries, count) < 0)
        fprintf(stderr, "%s\n", message);
}

void journal_use(void)
{
    log_set_sink(to_journal, NULL);
}
