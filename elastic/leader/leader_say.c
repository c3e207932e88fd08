/* The text of a decision, and the time of the next one. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "elastic/leader/leader_internal.h"

void leader_say(struct leader_context *context, enum job_state state, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    context->decision->state = state;
    vsnprintf(context->decision->text, sizeof(context->decision->text), format, arguments);
    va_end(arguments);
}

void leader_add(struct leader_context *context, const char *format, ...)
{
    char *text = context->decision->text;
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof(context->decision->text) - used, format, arguments);
    va_end(arguments);
}

void leader_wake(struct leader_context *context, uint64_t at_ns)
{
    context->decision->wake_at_ns = MIN(context->decision->wake_at_ns, at_ns);
}
