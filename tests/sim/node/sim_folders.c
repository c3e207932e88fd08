#include "sim/node/sim_folders.h"

#include <string.h>

#include "checkpoint/write/retain.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_disk.h"

static struct sim_folders *folders_of(const struct sim *sim, unsigned node)
{
    return &sim->disk->nodes[node];
}

static void drop(struct sim_folders *folders, struct sim_folder *folder)
{
    *folder = folders->list[--folders->count];
}

struct sim_folder *sim_folder_part(const struct sim *sim, unsigned node, uint64_t step,
                                   uint64_t generation)
{
    struct sim_folders *folders = folders_of(sim, node);
    for (unsigned i = 0; i < folders->count; i++)
        if (!folders->list[i].placed && folders->list[i].step == step &&
            folders->list[i].generation == generation)
            return &folders->list[i];
    return NULL;
}

struct sim_folder *sim_folder_placed(const struct sim *sim, unsigned node, uint64_t step)
{
    struct sim_folders *folders = folders_of(sim, node);
    for (unsigned i = 0; i < folders->count; i++)
        if (folders->list[i].placed && folders->list[i].step == step)
            return &folders->list[i];
    return NULL;
}

static struct sim_folder *find_or_make(struct sim *sim, unsigned node, uint64_t step,
                                       uint64_t generation)
{
    struct sim_folders *folders = folders_of(sim, node);
    struct sim_folder *folder = sim_folder_part(sim, node, step, generation);
    if (folder)
        return folder;
    assert(folders->count < SIM_FOLDERS_MAX);
    folder = &folders->list[folders->count++];
    *folder = (struct sim_folder){.step = step, .generation = generation};
    return folder;
}

static void add_units(struct sim_folder *folder, const struct sim_unit *units)
{
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (units[unit].held)
            folder->units[unit] = units[unit];
}

void sim_folders_write(struct sim *sim, unsigned node, const struct sim_part *part)
{
    struct sim_folder *folder = find_or_make(sim, node, part->step, part->generation);
    folder->ranks |= (uint64_t)1 << part->rank;
    add_units(folder, part->units);
    sim_disk_write_part(sim, part); /* to copy from, rank by rank */
}

bool sim_folders_copy(struct sim *sim, unsigned from, unsigned to, uint64_t step,
                      uint64_t generation, uint64_t ranks)
{
    const struct sim_folder *source = sim_folder_part(sim, from, step, generation);
    if (!source || (source->ranks & ranks) != ranks)
        return false;
    for (unsigned rank = 0; rank < 64; rank++) {
        const struct sim_part *part =
            (ranks >> rank & 1) != 0 ? sim_disk_find_part(sim, step, generation, rank) : NULL;
        if ((ranks >> rank & 1) != 0 && !part)
            return false;
        struct sim_folder *folder = find_or_make(sim, to, step, generation);
        folder->ranks |= part ? (uint64_t)1 << rank : 0;
        if (part)
            add_units(folder, part->units);
    }
    return true;
}

void sim_folders_place(struct sim *sim, unsigned node, uint64_t step, uint64_t generation,
                       uint64_t seal)
{
    struct sim_folder *there = sim_folder_placed(sim, node, step);
    if (there)
        drop(folders_of(sim, node), there);
    struct sim_folder *folder = sim_folder_part(sim, node, step, generation);
    assert(folder);
    folder->placed = true;
    folder->receipt = false;
    folder->seal = seal;
    sim_check_copies(sim);
}

void sim_folders_abandon(struct sim *sim, unsigned node, uint64_t step, uint64_t generation)
{
    struct sim_folder *folder = sim_folder_part(sim, node, step, generation);
    if (folder)
        drop(folders_of(sim, node), folder);
}

static bool is_recorded(const struct checkpoint_sweep *sweep, uint64_t step)
{
    for (size_t i = 0; i < sweep->step_count; i++)
        if (sweep->steps[i] == step)
            return true;
    return false;
}

void sim_folders_sweep(struct sim *sim, unsigned node, const struct checkpoint_sweep *sweep)
{
    struct sim_folders *folders = folders_of(sim, node);
    if (sweep->step_count == 0)
        return;
    for (unsigned i = 0; i < folders->count;) {
        const struct sim_folder *folder = &folders->list[i];
        bool spared = is_recorded(sweep, folder->step) && sim->bug != BUG_EARLY_SWEEP;
        bool goes = folder->placed ? folder->step < sweep->step && !spared
                                   : folder->generation < sweep->generation;
        if (goes)
            drop(folders, &folders->list[i]);
        else
            i++;
    }
    sim_check_copies(sim);
}

void sim_folders_wipe(struct sim *sim, unsigned node)
{
    folders_of(sim, node)->count = 0;
    sim_check_disk_lost(sim, node);
}

bool sim_folders_lose(struct sim *sim, unsigned node, uint64_t step)
{
    struct sim_folder *folder = sim_folder_placed(sim, node, step);
    if (!folder)
        return false;
    drop(folders_of(sim, node), folder);
    sim_check_disk_lost(sim, node);
    return true;
}

const struct sim_unit *sim_folders_find(const struct sim *sim, uint64_t nodes, uint64_t step,
                                        uint64_t generation, unsigned unit)
{
    for (unsigned node = 0; node < sim->node_count && node < 64; node++) {
        const struct sim_folder *folder =
            (nodes >> node & 1) != 0 ? sim_folder_placed(sim, node, step) : NULL;
        if (folder && folder->generation == generation && folder->units[unit].held)
            return &folder->units[unit];
    }
    return NULL;
}
