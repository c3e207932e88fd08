/* Tests of the list of GPUs and their health, from a fake library (fake_nvml.c). */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/node/gpu_slots.h"
#include "daemon/node/nvml.h"
#include "unit/daemon/fake_nvml.h"

static void *library;
static struct fake_nvml *fake;
static struct gpu_list list;

static int load(void **state)
{
    (void)state;
    library = dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    fake = library ? dlsym(library, "fake_nvml") : NULL;
    return fake ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    return dlclose(library);
}

static int reset(void **state)
{
    (void)state;
    memset(fake, 0, sizeof(*fake));
    fake->count = FAKE_GPUS;
    for (unsigned i = 0; i < FAKE_GPUS; i++)
        fake->gpus[i].links_to = -1;
    return 0;
}

static struct nvml *open_it(void)
{
    struct nvml *nvml;
    struct error error = {0};
    int status = nvml_open(FAKE_NVML, &nvml, &list, &error);
    if (status)
        fail_msg("%s", error.text);
    return nvml;
}

static void test_list(void **state)
{
    (void)state;
    fake->gpus[1].broken = true;
    struct nvml *nvml = open_it();
    assert_int_equal(list.count, FAKE_GPUS - 1); /* the broken one is left out */
    assert_int_equal(list.gpus[1].index, 2);
    assert_string_equal(list.gpus[1].uuid, "GPU-0000-2");
    assert_string_equal(list.gpus[1].name, "Imaginary 100");
    assert_int_equal(list.gpus[1].memory_bytes, 80ull << 30);
    assert_int_equal(list.gpus[1].compute_major, 9);
    nvml_close(nvml);
    assert_int_equal(fake->initialized, 0);
}

static void test_absent(void **state)
{
    struct nvml *nvml;
    struct error error = {0};
    (void)state;
    assert_int_equal(nvml_open("libno-such-library.so", &nvml, &list, &error), -ENOENT);
    assert_non_null(strstr(error.text, "not installed"));
    fake->init_code = 9;
    assert_int_equal(nvml_open(FAKE_NVML, &nvml, &list, &error), -ENOENT);
    assert_non_null(strstr(error.text, "Driver Not Loaded"));
    fake->init_code = 999;
    assert_int_equal(nvml_open(FAKE_NVML, &nvml, &list, &error), -EIO);
    fake->init_code = 0;
    fake->count = 0;
    nvml = open_it();
    assert_int_equal(list.count, 0);
    nvml_close(nvml);
}

/* 0 and 1 are linked, 2 and 3 reach a switch; 0, 1 and 2 are attached to one processor. */
static void test_topology(void **state)
{
    (void)state;
    fake->gpus[0].links_to = 1;
    fake->gpus[1].links_to = 0;
    fake->gpus[2].links_to = fake->gpus[3].links_to = -2;
    fake->gpus[3].socket = 1;
    struct nvml *nvml = open_it();
    assert_int_equal(list.gpus[0].paths[0], GPU_PATH_SELF);
    assert_int_equal(list.gpus[0].paths[1], GPU_PATH_NVLINK);
    assert_int_equal(list.gpus[2].paths[3], GPU_PATH_NVLINK);
    assert_int_equal(list.gpus[0].paths[2], GPU_PATH_PCIE);
    assert_int_equal(list.gpus[1].paths[3], GPU_PATH_SYSTEM);
    nvml_close(nvml);
}

static void check_fault(unsigned place, const char *words)
{
    char text[128];
    if (!gpu_fault(&list.gpus[place], text, sizeof(text)))
        fail_msg("GPU %u passes for healthy", place);
    if (!strstr(text, words))
        fail_msg("\"%s\" does not say %s", text, words);
}

static void test_health(void **state)
{
    char text[128];
    (void)state;
    struct nvml *nvml = open_it();
    for (unsigned i = 0; i < list.count; i++)
        assert_false(gpu_fault(&list.gpus[i], text, sizeof(text)));
    fake->gpus[0].uncorrected = 2;
    fake->gpus[1].pending_rows = 1;
    fake->gpus[2].failed_rows = 1;
    fake->gpus[3].mig = 1;
    nvml_look(nvml, &list);
    check_fault(0, "2 uncorrected memory errors");
    check_fault(1, "pending");
    check_fault(2, "spare rows");
    check_fault(3, "MIG");
    fake->gpus[3].lost = true;
    nvml_look(nvml, &list);
    check_fault(3, "lost");
    nvml_close(nvml);
}

static void tell_xid(unsigned gpu, unsigned long long xid)
{
    fake->events[fake->event_count].gpu = gpu;
    fake->events[fake->event_count++].xid = xid;
}

/*
 * An error that a program causes itself is no fault of the device; a severe error outlasts a
 * harmless one.
 */
static void test_xid(void **state)
{
    char text[128];
    (void)state;
    struct nvml *nvml = open_it();
    tell_xid(0, 31);
    tell_xid(1, 79);
    tell_xid(1, 45);
    tell_xid(2, 43);
    tell_xid(2, 48);
    nvml_look(nvml, &list);
    assert_int_equal(fake->event_count, 0);
    assert_false(gpu_fault(&list.gpus[0], text, sizeof(text)));
    check_fault(1, "Xid 79");
    check_fault(2, "Xid 48");
    nvml_close(nvml);
}

static void test_slots(void **state)
{
    static struct node_record self;
    (void)state;
    fake->gpus[2].mig = 1;
    struct nvml *nvml = open_it();
    gpu_slots(&list, 3, 4, &self);
    assert_int_equal(self.slot_count, 3);
    assert_string_equal(self.slots[0].kind, "cuda");
    assert_string_equal(self.slots[1].device, "GPU-0000-1");
    assert_int_equal(self.slots[1].thread_count, 4);
    assert_int_equal(self.slots[1].memory_bytes, 78ull << 30);
    assert_string_equal(self.slots[1].bad, "");
    assert_non_null(strstr(self.slots[2].bad, "MIG")); /* keeps its index */
    assert_false(gpu_slots_update(&list, &self));
    tell_xid(1, 79);
    nvml_look(nvml, &list);
    assert_true(gpu_slots_update(&list, &self));
    assert_non_null(strstr(self.slots[1].bad, "bus"));
    nvml_close(nvml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_list, reset),     cmocka_unit_test_setup(test_absent, reset),
        cmocka_unit_test_setup(test_topology, reset), cmocka_unit_test_setup(test_health, reset),
        cmocka_unit_test_setup(test_xid, reset),      cmocka_unit_test_setup(test_slots, reset),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
