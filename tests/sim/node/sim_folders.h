/*
 * The checkpoint folders of nodes with local disks, for checkpoints with copies. Each folder holds
 * shares that the node's workers wrote, and copies of other nodes' shares.
 */
#pragma once

#include "checkpoint/write/retain.h"
#include "checkpoint/write/writer.h"
#include "sim/worker/sim_state.h"

#define SIM_FOLDERS_MAX 64

struct sim_part;

/* A checkpoint's folder on one node: step-N.gG.part, then under its final name. */
struct sim_folder {
    uint64_t step, generation;
    bool placed;                      /* it has its final name */
    uint64_t seal;                    /* of its manifest, different for every attempt; 0: none */
    bool receipt;                     /* the folder has a receipt, which lists */
    uint64_t copied;                  /* the nodes of whose shares it has copies, a bit each */
    uint64_t ranks;                   /* ranks whose files are here, a bit each */
    struct sim_unit units[SIM_UNITS]; /* the content of these files */
};

struct sim_folders {
    struct sim_folder list[SIM_FOLDERS_MAX];
    unsigned count;
};

/** sim_folder_part(), sim_folder_placed() - Return the folder; NULL: none */
struct sim_folder *sim_folder_part(const struct sim *sim, unsigned node, uint64_t step,
                                   uint64_t generation);
struct sim_folder *sim_folder_placed(const struct sim *sim, unsigned node, uint64_t step);

/** sim_folders_write() - Write a rank's share on its own node */
void sim_folders_write(struct sim *sim, unsigned node, const struct sim_part *part);
/** sim_folders_copy() - Copy the files of @ranks from @from to @to; false: @from lacks them */
bool sim_folders_copy(struct sim *sim, unsigned from, unsigned to, uint64_t step,
                      uint64_t generation, uint64_t ranks);
/** sim_folders_place() - Give the checkpoint of @seal its final name; drop a folder of that name
 */
void sim_folders_place(struct sim *sim, unsigned node, uint64_t step, uint64_t generation,
                       uint64_t seal);
void sim_folders_abandon(struct sim *sim, unsigned node, uint64_t step, uint64_t generation);
/** sim_folders_sweep() - Do checkpoint_sweep() on this node */
void sim_folders_sweep(struct sim *sim, unsigned node, const struct checkpoint_sweep *sweep);
/** sim_folders_wipe() - Lose the disk; sim_folders_lose() - Lose one checkpoint; false: none there
 */
void sim_folders_wipe(struct sim *sim, unsigned node);
bool sim_folders_lose(struct sim *sim, unsigned node, uint64_t step);

/** sim_folders_find() - Find @unit of a checkpoint on one of @nodes (a bit each); NULL: none */
const struct sim_unit *sim_folders_find(const struct sim *sim, uint64_t nodes, uint64_t step,
                                        uint64_t generation, unsigned unit);
