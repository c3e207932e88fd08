/*
 * Log messages with fields. The process has one sink, set once at start before threads exist:
 * standard error by default (plain lines), the journal in firnd. A message is one sentence for
 * users; fields (JOB, GENERATION, STEP, NODE, ...) are for machines.
 */
#pragma once

#include <stddef.h>

enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7
};

struct log_field {
    const char *name; /* upper case, as the journal requires */
    const char *value;
};

#define LOG_FIELDS_MAX 16

typedef void (*log_sink_function)(enum log_level level, const char *message,
                                  const struct log_field *fields, size_t field_count,
                                  void *context);

/** log_set_sink() - replace the sink; NULL restores standard error */
void log_set_sink(log_sink_function sink, void *context);

/** log_set_level() - drop messages above this level; LOG_LEVEL_INFO at start */
void log_set_level(enum log_level level);

/**
 * log_set_prefix() - set a prefix of every line on standard error ("firnd", "worker a/0"); copied
 */
void log_set_prefix(const char *prefix);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_event(enum log_level level, const struct log_field *fields, size_t field_count,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
