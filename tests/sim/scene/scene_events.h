/* The events of a scene: actions of an operator, and faults. */
#pragma once

#include "sim/scene/scene.h"

/* ---- an operator ---- */

/** scene_wish() - ask for a state and a size of the job, as firnctl does */
void scene_wish(struct scene *scene, const struct desired_record *wish);
/** scene_drain() - drain @node, which leaves at @deadline_ns; SCENE_NO_DEADLINE: at any time */
void scene_drain(struct scene *scene, unsigned node, uint64_t deadline_ns);
void scene_drain_no_more(struct scene *scene, unsigned node);
/** scene_stop_daemon() - stop firnd as systemd does; its workers continue */
void scene_stop_daemon(struct scene *scene, unsigned node);
/** scene_start_daemon() - start firnd, which finds the running workers */
void scene_start_daemon(struct scene *scene, unsigned node);
/** scene_upgrade() - install programs of the next link protocol, and restart firnd: new workers
 * speak it, and the running workers train on */
void scene_upgrade(struct scene *scene, unsigned node);
/** scene_take_out() - take a slot out of service: for a while if @comes_back, else until
 * scene_excuse() */
void scene_take_out(struct scene *scene, unsigned node, unsigned slot, bool comes_back);
/** scene_excuse() - bring all slots of @node back into service: firnctl node resume */
void scene_excuse(struct scene *scene, unsigned node);
/** scene_add_checkpoint() - record the checkpoint of @step that @generation of an earlier run of
 * the job has written */
void scene_add_checkpoint(struct scene *scene, uint64_t step, uint64_t generation);

/* ---- faults ---- */

/** scene_kill_worker() - end the worker of a slot as SIGKILL does */
void scene_kill_worker(struct scene *scene, unsigned node, unsigned slot);
/** scene_kill_node() - switch a machine off, without notice */
void scene_kill_node(struct scene *scene, unsigned node);
/** scene_return_node() - switch a machine on that was on before */
void scene_return_node(struct scene *scene, unsigned node);
/** scene_change_leader() - cut the leader off from etcd until another node leads */
void scene_change_leader(struct scene *scene);
