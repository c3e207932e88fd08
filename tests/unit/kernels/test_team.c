#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/cpu/team.h"

#define MEMBERS 5

struct tally {
    unsigned calls[MEMBERS]; /* each member writes its own: the team must order them with reads */
};

static void count_call(void *context, unsigned member, unsigned member_count)
{
    struct tally *tally = context;
    assert(member < member_count && member_count <= MEMBERS);
    tally->calls[member]++;
}

static void test_every_member_once_a_round(void **state)
{
    (void)state;
    for (unsigned members = 1; members <= MEMBERS; members++) {
        struct team *team;
        struct tally tally = {0};
        assert_int_equal(team_new(members, &team, NULL), 0);
        assert_int_equal(team_size(team), members);
        for (unsigned round = 1; round <= 300; round++) {
            team_run(team, count_call, &tally);
            for (unsigned i = 0; i < MEMBERS; i++)
                assert_int_equal(tally.calls[i], i < members ? round : 0);
        }
        team_free(team);
    }
}

/* Long enough for the members to have gone to sleep when the next round begins. */
static void stay_late(void *context, unsigned member, unsigned member_count)
{
    if (member == 0)
        usleep(2000);
    count_call(context, member, member_count);
}

static void test_members_wake_up(void **state)
{
    (void)state;
    struct team *team;
    struct tally tally = {0};

    assert_int_equal(team_new(MEMBERS, &team, NULL), 0);
    for (unsigned round = 1; round <= 10; round++) {
        team_run(team, stay_late, &tally);
        usleep(2000);
        for (unsigned i = 0; i < MEMBERS; i++)
            assert_int_equal(tally.calls[i], round);
    }
    team_free(team);
}

static void test_free_of_an_idle_team(void **state)
{
    (void)state;
    struct team *team;
    assert_int_equal(team_new(MEMBERS, &team, NULL), 0);
    team_free(team);
    team_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_member_once_a_round),
        cmocka_unit_test(test_members_wake_up),
        cmocka_unit_test(test_free_of_an_idle_team),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
