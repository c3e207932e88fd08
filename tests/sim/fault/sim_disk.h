/*
 * The checkpoint folder that all nodes share: parts of shares, and whole checkpoints, which appear
 * atomically. Writing fails while the disk is broken. With copies each node has its own disk
 * instead (sim_folders.h).
 */
#pragma once

#include "sim/node/sim_folders.h"

#define SIM_DISK_MAX  256
#define SIM_PARTS_MAX 256

struct sim_part {
    uint64_t step, generation;
    unsigned rank;
    struct sim_unit units[SIM_UNITS];
};

struct sim_checkpoint {
    uint64_t step, made_by; /* made_by: the generation; distinguishes two manifests */
    struct sim_unit units[SIM_UNITS];
};

struct sim_disk {
    struct sim_part parts[SIM_PARTS_MAX]; /* the oldest are overwritten */
    unsigned part_count;
    struct sim_checkpoint checkpoints[SIM_DISK_MAX];
    unsigned count;
    uint64_t broken;  /* nodes whose writes fail, a bit each, */
    uint64_t brittle; /* and nodes whose writes will fail from the next receipt on */
    struct sim_folders nodes[SIM_NODES_MAX];
};

/** sim_disk_is_broken() - Return whether writing fails on @node; without copies on all or none */
bool sim_disk_is_broken(const struct sim *sim, unsigned node);
/** sim_disk_strain() - Break the disk of @node if it is brittle: the node is about to write a
 * receipt */
void sim_disk_strain(struct sim *sim, unsigned node);
void sim_disk_write_part(struct sim *sim, const struct sim_part *part);
/** sim_disk_abandon() - Remove the parts of an abandoned checkpoint */
void sim_disk_abandon(struct sim *sim, uint64_t step, uint64_t generation);
/** sim_disk_find_part() - Return the part; NULL: none */
const struct sim_part *sim_disk_find_part(const struct sim *sim, uint64_t step, uint64_t generation,
                                          unsigned rank);
/** sim_disk_commit() - Return 0, -EIO (broken), -ENOENT (no such part) or -EEXIST (other bits) */
int sim_disk_commit(struct sim *sim, uint64_t step, uint64_t generation, unsigned world,
                    const bool *left_out);
/**
 * sim_disk_retain() - Remove the checkpoints up to @step that are older than @kept_from; 0: none
 */
void sim_disk_retain(struct sim *sim, uint64_t kept_from, uint64_t step);
/** sim_disk_lose() - Damage or remove a checkpoint, recorded or not; false: it does not exist */
bool sim_disk_lose(struct sim *sim, uint64_t step);
const struct sim_checkpoint *sim_disk_find(const struct sim *sim, uint64_t step);
/** sim_disk_path() - Write the path of a checkpoint; sim_disk_step() - Return the step of a path,
 * 0: no checkpoint; sim_disk_open() - Return whether the checkpoint is there and whole */
void sim_disk_path(uint64_t step, char *ret_path, size_t size);
uint64_t sim_disk_step(const char *path);
const struct sim_checkpoint *sim_disk_open(const struct sim *sim, const char *path);
