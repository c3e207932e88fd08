#include "sim/fault/sim_disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/check/sim_check.h"

#define FOLDER "/checkpoints/"

static struct sim_part *find_part(struct sim_disk *disk, uint64_t step, uint64_t generation,
                                  unsigned rank)
{
    for (unsigned i = 0; i < MIN(disk->part_count, (unsigned)SIM_PARTS_MAX); i++)
        if (disk->parts[i].step == step && disk->parts[i].generation == generation &&
            disk->parts[i].rank == rank)
            return &disk->parts[i];
    return NULL;
}

/* A second attempt at a checkpoint may divide it differently: its file replaces the first file. */
void sim_disk_write_part(struct sim *sim, const struct sim_part *part)
{
    struct sim_disk *disk = sim->disk;
    struct sim_part *there = find_part(disk, part->step, part->generation, part->rank);
    if (!there)
        there = &disk->parts[disk->part_count++ % SIM_PARTS_MAX];
    *there = *part;
}

void sim_disk_abandon(struct sim *sim, uint64_t step, uint64_t generation)
{
    struct sim_disk *disk = sim->disk;
    for (unsigned i = 0; i < MIN(disk->part_count, (unsigned)SIM_PARTS_MAX); i++)
        if (disk->parts[i].step == step && disk->parts[i].generation == generation)
            disk->parts[i] = (struct sim_part){0};
}

const struct sim_checkpoint *sim_disk_find(const struct sim *sim, uint64_t step)
{
    const struct sim_disk *disk = sim->disk;
    for (unsigned i = 0; i < disk->count; i++)
        if (disk->checkpoints[i].step == step)
            return &disk->checkpoints[i];
    return NULL;
}

void sim_disk_path(uint64_t step, char *ret_path, size_t size)
{
    snprintf(ret_path, size, FOLDER "step-%010" PRIu64, step);
}

uint64_t sim_disk_step(const char *path)
{
    size_t length = strlen(FOLDER "step-");
    return strncmp(path, FOLDER "step-", length) == 0 ? strtoull(path + length, NULL, 10) : 0;
}

const struct sim_checkpoint *sim_disk_open(const struct sim *sim, const char *path)
{
    return sim_disk_find(sim, sim_disk_step(path));
}

bool sim_disk_is_broken(const struct sim *sim, unsigned node)
{
    return (sim->disk->broken >> node % 64 & 1) != 0;
}

void sim_disk_strain(struct sim *sim, unsigned node)
{
    sim->disk->broken |= sim->disk->brittle & (uint64_t)1 << node % 64;
}

const struct sim_part *sim_disk_find_part(const struct sim *sim, uint64_t step, uint64_t generation,
                                          unsigned rank)
{
    return find_part(sim->disk, step, generation, rank);
}

void sim_disk_retain(struct sim *sim, uint64_t kept_from, uint64_t step)
{
    struct sim_disk *disk = sim->disk;
    for (unsigned i = 0; i < disk->count;) {
        if (disk->checkpoints[i].step < kept_from && disk->checkpoints[i].step <= step)
            disk->checkpoints[i] = disk->checkpoints[--disk->count];
        else
            i++;
    }
}

bool sim_disk_lose(struct sim *sim, uint64_t step)
{
    struct sim_disk *disk = sim->disk;
    for (unsigned i = 0; i < disk->count; i++)
        if (disk->checkpoints[i].step == step) {
            disk->checkpoints[i] = disk->checkpoints[--disk->count];
            return true;
        }
    return false;
}

static bool same_bits(const struct sim_checkpoint *a, const struct sim_checkpoint *b)
{
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (sim_unit_digest(&a->units[unit]) != sim_unit_digest(&b->units[unit]))
            return false;
    return true;
}

int sim_disk_commit(struct sim *sim, uint64_t step, uint64_t generation, unsigned world,
                    const bool *left_out)
{
    struct sim_disk *disk = sim->disk;
    struct sim_checkpoint checkpoint = {.step = step, .made_by = generation};
    if (disk->broken != 0)
        return -EIO;
    for (unsigned rank = 0; rank < world; rank++) {
        const struct sim_part *part =
            left_out[rank] ? NULL : sim_disk_find_part(sim, step, generation, rank);
        if (!part && !left_out[rank] && sim->bug != BUG_CHECKPOINT_NOT_DURABLE)
            return -ENOENT;
        for (unsigned unit = 0; part && unit < SIM_UNITS; unit++)
            if (part->units[unit].held)
                checkpoint.units[unit] = part->units[unit];
    }
    const struct sim_checkpoint *there = sim_disk_find(sim, step);
    if (there)
        return same_bits(there, &checkpoint) ? 0 : -EEXIST;
    sim_check_checkpoint(sim, &checkpoint);
    assert(disk->count < SIM_DISK_MAX);
    disk->checkpoints[disk->count++] = checkpoint;
    return 0;
}
