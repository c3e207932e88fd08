/* The functions behind the table of commands (ctl/command_table.c), by file. */
#pragma once

#include "ctl/command/arguments.h"

/* help.c */
int run_help(const struct arguments *arguments, struct error *error);
int run_version(const struct arguments *arguments, struct error *error);

/* local_command.c */
int run_local_up(const struct arguments *arguments, struct error *error);
int run_local_down(const struct arguments *arguments, struct error *error);
int run_local_env(const struct arguments *arguments, struct error *error);
int run_local_kill(const struct arguments *arguments, struct error *error);
int run_local_start(const struct arguments *arguments, struct error *error);
int run_local_status(const struct arguments *arguments, struct error *error);

/* node_command.c */
int run_node_list(const struct arguments *arguments, struct error *error);
int run_node_drain(const struct arguments *arguments, struct error *error);
int run_node_resume(const struct arguments *arguments, struct error *error);

/* job_submit.c, job_list.c, job_change.c */
int run_job_submit(const struct arguments *arguments, struct error *error);
int run_job_list(const struct arguments *arguments, struct error *error);
int run_job_show(const struct arguments *arguments, struct error *error);
int run_job_scale(const struct arguments *arguments, struct error *error);
int run_job_pause(const struct arguments *arguments, struct error *error);
int run_job_resume(const struct arguments *arguments, struct error *error);
int run_job_cancel(const struct arguments *arguments, struct error *error);
int run_job_remove(const struct arguments *arguments, struct error *error);

/* job_logs.c, job_events.c, watch.c, top.c, metrics_command.c, trace_command.c */
int run_job_logs(const struct arguments *arguments, struct error *error);
int run_job_events(const struct arguments *arguments, struct error *error);
int run_watch(const struct arguments *arguments, struct error *error);
int run_top(const struct arguments *arguments, struct error *error);
int run_metrics(const struct arguments *arguments, struct error *error);
int run_trace(const struct arguments *arguments, struct error *error);

/* checkpoint_command.c, checkpoint_keep.c, checkpoint_export.c, plan_command.c, sample_command.c,
 * report.c */
int run_checkpoint_list(const struct arguments *arguments, struct error *error);
int run_checkpoint_show(const struct arguments *arguments, struct error *error);
int run_checkpoint_verify(const struct arguments *arguments, struct error *error);
int run_checkpoint_pin(const struct arguments *arguments, struct error *error);
int run_checkpoint_unpin(const struct arguments *arguments, struct error *error);
int run_checkpoint_remove(const struct arguments *arguments, struct error *error);
int run_checkpoint_fetch(const struct arguments *arguments, struct error *error);
int run_checkpoint_export(const struct arguments *arguments, struct error *error);
int run_plan(const struct arguments *arguments, struct error *error);
int run_sample(const struct arguments *arguments, struct error *error);
int run_report(const struct arguments *arguments, struct error *error);
