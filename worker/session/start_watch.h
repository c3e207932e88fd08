/*
 * Report that a start progresses: a device opens, data is read, memory is taken. These calls take
 * seconds or minutes. The leader waits for a worker for as long as it reports progress
 * (elastic/leader/leader_starting.h).
 *
 * The measure of progress is the text that the call notes. For a call that notes nothing it is the
 * processor time of this process, which a hung call does not use. A thread sends the reports while
 * the main thread is in such a call.
 */
#pragma once

#include "worker/session/control_server.h"
#include "worker/session/options.h"

struct start_watch;

/** start_watch_new() - make a watch; @control is borrowed. -ENOMEM, or errno of making a thread */
int start_watch_new(const struct worker_options *options, uint64_t instance,
                    struct control_server *control, struct start_watch **ret_watch) CHECK_RESULT;
/** start_watch_free() - end the thread; NULL allowed */
void start_watch_free(struct start_watch *watch);

/** start_watch_begin() - begin a call that may take long, as a worker of @generation (0: none yet)
 * @doing: a literal for people, "opens its device" */
void start_watch_begin(struct start_watch *watch, uint64_t generation, const char *doing);
/** start_watch_note() - note the progress of the call in words for people, from any thread; from
 * now on only a changed text counts as progress */
void start_watch_note(struct start_watch *watch, const char *text);
/** start_watch_end() - end the call: no report is sent after this. Return: whether one was sent */
bool start_watch_end(struct start_watch *watch);
