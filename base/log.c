/* The default sink writes each message as one line with one write(2), so that lines of threads do
 * not mix. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"

#define MESSAGE_SIZE 2048
#define LINE_SIZE    4096
#define PREFIX_SIZE  64

static void write_standard_error(enum log_level level, const char *message,
                                 const struct log_field *fields, size_t field_count, void *context);

/* The only process-wide state of base: set before threads exist, read-only afterwards. */
static struct {
    log_sink_function sink;
    void *context;
    enum log_level level;
    char prefix[PREFIX_SIZE];
} logger = {write_standard_error, NULL, LOG_LEVEL_INFO, ""};

void log_set_sink(log_sink_function sink, void *context)
{
    logger.sink = sink ? sink : write_standard_error;
    logger.context = context;
}

void log_set_level(enum log_level level)
{
    logger.level = level;
}

void log_set_prefix(const char *prefix)
{
    snprintf(logger.prefix, sizeof(logger.prefix), "%s", prefix);
}

struct line {
    char text[LINE_SIZE];
    size_t length;
};

static void line_add(struct line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append text and truncate it at the end; one byte stays free for the newline. */
static void line_add(struct line *line, const char *format, ...)
{
    size_t room = sizeof(line->text) - 1 - line->length;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line->text + line->length, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        line->length += MIN((size_t)length, room - 1);
}

static void line_add_time(struct line *line)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    line_add(line, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ", utc.tm_year + 1900, utc.tm_mon + 1,
             utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
}

/* Replace control characters. A message may quote untrusted bytes, which must not forge a line or
 * control a terminal. */
static void line_close(struct line *line)
{
    for (size_t i = 0; i < line->length; i++)
        if ((unsigned char)line->text[i] < ' ' || line->text[i] == 0x7f)
            line->text[i] = ' ';
    line->text[line->length++] = '\n';
}

static const char *level_word(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return "error: ";
    case LOG_LEVEL_WARNING:
        return "warning: ";
    case LOG_LEVEL_DEBUG:
        return "debug: ";
    case LOG_LEVEL_INFO:
        break;
    }
    return "";
}

static void write_standard_error(enum log_level level, const char *message,
                                 const struct log_field *fields, size_t field_count, void *context)
{
    (void)context;
    struct line line;
    line.length = 0;
    line_add_time(&line);
    if (logger.prefix[0] != '\0')
        line_add(&line, "%s: ", logger.prefix);
    line_add(&line, "%s%s", level_word(level), message);
    for (size_t i = 0; i < field_count; i++)
        line_add(&line, " %s=%s", fields[i].name, fields[i].value);
    line_close(&line);
    /* A failure of standard error cannot be reported. */
    ssize_t written = write(STDERR_FILENO, line.text, line.length);
    (void)written;
}

static void log_message(enum log_level level, const struct log_field *fields, size_t field_count,
                        const char *format, va_list arguments)
    __attribute__((format(printf, 4, 0)));

static void log_message(enum log_level level, const struct log_field *fields, size_t field_count,
                        const char *format, va_list arguments)
{
    if (level > logger.level)
        return;
    int saved_errno = errno; /* logging a failure must not change the caller's errno */
    char message[MESSAGE_SIZE];
    vsnprintf(message, sizeof(message), format, arguments);
    logger.sink(level, message, fields, MIN(field_count, (size_t)LOG_FIELDS_MAX), logger.context);
    errno = saved_errno;
}

void log_write(enum log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_message(level, NULL, 0, format, arguments);
    va_end(arguments);
}

void log_event(enum log_level level, const struct log_field *fields, size_t field_count,
               const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_message(level, fields, field_count, format, arguments);
    va_end(arguments);
}
