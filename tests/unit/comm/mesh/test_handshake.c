/* The handshake as a pure machine: admission, and every way of refusal. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "comm/mesh/handshake.h"

#define CONNECTOR 5u
#define ACCEPTOR  2u

static bool expects_connector(void *context, unsigned rank)
{
    (void)context;
    return rank == CONNECTOR;
}

struct both {
    struct handshake_identity connector_identity, acceptor_identity;
    struct handshake connector, acceptor;
    struct handshake_reply hello, challenge, proof, answer;
};

static void both_init(struct both *both)
{
    memset(both, 0, sizeof(*both));
    both->acceptor_identity = (struct handshake_identity){.job = "demo",
                                                          .generation = 9,
                                                          .key = {7, 7, 7},
                                                          .rank = ACCEPTOR,
                                                          .expects = expects_connector};
    both->connector_identity = both->acceptor_identity;
    both->connector_identity.rank = CONNECTOR;
}

static void both_start(struct both *both)
{
    const uint8_t of_connector[HANDSHAKE_CHALLENGE_SIZE] = {1},
                  of_acceptor[HANDSHAKE_CHALLENGE_SIZE] = {2};
    handshake_accept(&both->acceptor, &both->acceptor_identity, of_acceptor);
    handshake_connect(&both->connector, &both->connector_identity, ACCEPTOR, of_connector,
                      &both->hello);
}

static int feed(struct handshake *handshake, const struct handshake_reply *from,
                struct handshake_reply *ret_reply)
{
    assert_true(from->present);
    return handshake_step(handshake, &from->frame, from->payload, ret_reply);
}

/* Up to the acceptor's answer to HELLO. */
static int answer_hello(struct both *both)
{
    both_start(both);
    return feed(&both->acceptor, &both->hello, &both->challenge);
}

static void up_to_proof(struct both *both)
{
    assert_int_equal(answer_hello(both), 0);
    assert_int_equal(feed(&both->connector, &both->challenge, &both->proof), 0);
}

static void test_both_prove_themselves(void **state)
{
    (void)state;
    struct both both;
    struct handshake_reply none;
    both_init(&both);
    up_to_proof(&both);
    assert_int_equal(both.acceptor.peer_rank, CONNECTOR);
    assert_int_equal(feed(&both.acceptor, &both.proof, &both.answer), 0);
    assert_int_equal(both.acceptor.state, HANDSHAKE_PROVEN);
    assert_int_equal(both.connector.state,
                     HANDSHAKE_WANTS_PROOF); /* not before it has the answer */
    assert_int_equal(feed(&both.connector, &both.answer, &none), 0);
    assert_int_equal(both.connector.state, HANDSHAKE_PROVEN);
    assert_false(none.present);
}

static void test_each_direction_has_a_key_of_this_conversation(void **state)
{
    (void)state;
    struct both both;
    struct handshake_reply none;
    uint8_t keys[2][2][FRAME_SEAL_KEY_SIZE], again[2][FRAME_SEAL_KEY_SIZE];
    both_init(&both);
    up_to_proof(&both);
    assert_int_equal(feed(&both.acceptor, &both.proof, &both.answer), 0);
    assert_int_equal(feed(&both.connector, &both.answer, &none), 0);
    handshake_keys(&both.acceptor, keys[0][0], keys[0][1]);
    handshake_keys(&both.connector, keys[1][0], keys[1][1]);
    assert_memory_equal(keys[0][0], keys[1][1], FRAME_SEAL_KEY_SIZE);
    assert_memory_equal(keys[0][1], keys[1][0], FRAME_SEAL_KEY_SIZE);
    assert_memory_not_equal(keys[0][0], keys[0][1], FRAME_SEAL_KEY_SIZE);
    both.acceptor.connector_challenge[31] ^= 1; /* another conversation */
    handshake_keys(&both.acceptor, again[0], again[1]);
    assert_memory_not_equal(again[0], keys[0][0], FRAME_SEAL_KEY_SIZE);
}

/* Return the seals that both ends agree on; @connector and @acceptor: their offers. */
static enum frame_seal_kind seals_of(bool connector, bool acceptor)
{
    struct both both;
    struct handshake_reply none;
    both_init(&both);
    both.connector_identity.checksums = connector;
    both.acceptor_identity.checksums = acceptor;
    up_to_proof(&both);
    assert_int_equal(feed(&both.acceptor, &both.proof, &both.answer), 0);
    assert_int_equal(feed(&both.connector, &both.answer, &none), 0);
    assert_int_equal(handshake_seals(&both.acceptor), handshake_seals(&both.connector));
    return handshake_seals(&both.connector);
}

static void test_checksums_will_do_where_both_say_so(void **state)
{
    (void)state;
    assert_int_equal(seals_of(true, true), SEAL_CHECKSUMS);
    assert_int_equal(seals_of(true, false), SEAL_AUTHENTICATED);
    assert_int_equal(seals_of(false, true), SEAL_AUTHENTICATED);
    assert_int_equal(seals_of(false, false), SEAL_AUTHENTICATED);
}

/*
 * An attacker in the middle alters the connector's offer: the ends disagree, and the proof fails.
 */
static void test_nobody_else_can_agree_on_checksums(void **state)
{
    (void)state;
    for (unsigned offers = 0; offers < 4; offers++) {
        struct both both;
        both_init(&both);
        both.connector_identity.checksums = offers & 1;
        both.acceptor_identity.checksums = offers & 2;
        both_start(&both);
        both.hello.frame.tag ^= 1;
        assert_int_equal(feed(&both.acceptor, &both.hello, &both.challenge), 0);
        assert_int_equal(feed(&both.connector, &both.challenge, &both.proof), 0);
        bool differ = both.acceptor.checksums != both.connector.checksums;
        assert_int_equal(differ, (offers & 2) != 0);
        assert_int_equal(feed(&both.acceptor, &both.proof, &both.answer), differ ? -EPERM : 0);
    }
}

/* The acceptor ends with @acceptor_code, and sends the same answer for every reason. */
static void expect_refused(struct both *both, int acceptor_code)
{
    struct handshake_reply none;
    struct handshake after;
    assert_int_equal(answer_hello(both), 0);
    assert_false(handshake_fits(&both->acceptor) && acceptor_code != -EPERM);
    assert_int_equal(both->challenge.frame.type, FRAME_CHALLENGE);
    assert_int_equal(both->challenge.frame.generation, both->connector_identity.generation);
    assert_int_equal(both->challenge.frame.source, ACCEPTOR); /* that was asked for */
    assert_int_equal(feed(&both->connector, &both->challenge, &both->proof), 0);
    after = both->acceptor;
    assert_int_equal(feed(&both->acceptor, &both->proof, &both->answer), acceptor_code);
    assert_int_equal(both->answer.frame.type, FRAME_REFUSED);
    assert_int_equal(both->answer.frame.tag, HANDSHAKE_COME_AGAIN);
    assert_int_equal(both->answer.frame.length, 0);
    assert_int_equal(both->answer.frame.generation, both->connector_identity.generation);
    assert_int_equal(both->answer.frame.source, ACCEPTOR);
    assert_int_equal(feed(&both->connector, &both->answer, &none), -EBUSY);
    assert_int_equal(both->connector.state, HANDSHAKE_FAILED);
    assert_int_equal(feed(&both->acceptor, &both->hello, &none), -EPROTO); /* and stays so */
    both->proof.payload[0] ^= 1;
    assert_int_equal(feed(&after, &both->proof, &none), acceptor_code); /* no oracle for the key */
}

static void test_generations_fence(void **state)
{
    (void)state;
    struct both both;
    both_init(&both);
    both.connector_identity.generation = 8;
    expect_refused(&both, -EBUSY);
    both.connector_identity.generation = 10;
    expect_refused(&both, -ESTALE);
}

static void test_strangers_are_refused(void **state)
{
    (void)state;
    struct both both;
    both_init(&both);
    strcpy(both.connector_identity.job, "demo2");
    expect_refused(&both, -ENOENT);
    both_init(&both);
    both.connector_identity.rank = 6; /* not one of my peers */
    expect_refused(&both, -ENOENT);
    both_init(&both);
    both.connector_identity.rank = 1; /* I connect to that one, it does not connect to me */
    expect_refused(&both, -ENOENT);
    both_init(&both);
    both.acceptor_identity.rank = 3; /* not the wanted rank */
    expect_refused(&both, -ENOENT);
}

static void test_another_key_is_refused_like_a_stranger(void **state)
{
    (void)state;
    struct both both;
    both_init(&both);
    both.connector_identity.key[31] ^= 1;
    expect_refused(&both, -EPERM);
}

static void test_every_bit_of_a_proof_counts(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < FRAME_PROOF_SIZE * 8; bit++) {
        struct both both;
        struct handshake_reply none;
        both_init(&both);
        up_to_proof(&both);
        struct handshake_reply changed = both.proof;
        changed.payload[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        struct handshake acceptor = both.acceptor;
        assert_int_equal(feed(&acceptor, &changed, &none), -EPERM);
        assert_int_equal(feed(&both.acceptor, &both.proof, &both.answer), 0);
        both.answer.payload[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_equal(feed(&both.connector, &both.answer, &none), -EPERM);
    }
}

/* A proof covers every value of the conversation: another value gives another proof. */
static void test_a_proof_is_for_one_conversation_only(void **state)
{
    (void)state;
    struct both first, second;
    struct handshake_reply none;
    both_init(&first);
    up_to_proof(&first);
    both_init(&second);
    up_to_proof(&second);
    second.acceptor.acceptor_challenge[0] ^= 1; /* replayed later: the challenge is another */
    assert_int_equal(feed(&second.acceptor, &first.proof, &none), -EPERM);
    up_to_proof(&second);
    second.acceptor.connector_challenge[0] ^= 1;
    assert_int_equal(feed(&second.acceptor, &first.proof, &none), -EPERM);
    up_to_proof(&second);
    second.acceptor_identity.rank = 1;
    assert_int_equal(feed(&second.acceptor, &first.proof, &none), -EPERM);
    both_init(&second);
    up_to_proof(&second);
    second.acceptor_identity.job[0] = 'x';
    assert_int_equal(feed(&second.acceptor, &first.proof, &none), -EPERM);
    both_init(&second);
    up_to_proof(&second);
    struct handshake_reply reflected = second.proof; /* its own proof, sent back to it */
    reflected.frame.source = ACCEPTOR;
    assert_int_equal(feed(&second.connector, &reflected, &none), -EPERM);
}

static void test_frames_out_of_turn_are_refused(void **state)
{
    (void)state;
    static const uint8_t payload[FRAME_SMALL_MAX] = {0};
    for (unsigned stage = 0; stage < 5; stage++) {
        for (unsigned type = FRAME_HELLO; type < FRAME_TYPE_END; type++) {
            struct both both;
            struct handshake_reply none;
            both_init(&both);
            up_to_proof(&both);
            struct handshake machines[5] = {both.acceptor, both.connector};
            both_start(&both);
            machines[2] = both.acceptor;
            machines[3] = both.connector;
            up_to_proof(&both);
            assert_int_equal(feed(&both.acceptor, &both.proof, &both.answer), 0);
            machines[4] = both.acceptor; /* proven: nothing more is for it */
            struct handshake *machine = &machines[stage];
            static const unsigned wanted[] = {FRAME_PROOF, FRAME_PROOF, FRAME_HELLO,
                                              FRAME_CHALLENGE, 0};
            if (type == wanted[stage] || (machine->connector && type == FRAME_REFUSED))
                continue;
            struct frame frame = {
                .type = (enum frame_type)type,
                .source = machine->connector ? ACCEPTOR : CONNECTOR,
                .generation = 9,
            };
            assert_int_equal(handshake_step(machine, &frame, payload, &none), -EPROTO);
            assert_int_equal(machine->state, HANDSHAKE_FAILED);
        }
    }
}

static void test_a_refusal_of_an_older_build_is_understood(void **state)
{
    (void)state;
    struct both both;
    struct handshake_reply none;
    both_init(&both);
    both_start(&both);
    for (unsigned tag = 0; tag <= 77; tag++) {
        struct frame refusal = {
            .type = FRAME_REFUSED, .source = ACCEPTOR, .generation = 10, .tag = tag};
        struct handshake connector = both.connector;
        assert_int_equal(handshake_step(&connector, &refusal, NULL, &none),
                         tag >= 1 && tag <= HANDSHAKE_REASON_MAX ? -EBUSY : -EPROTO);
    }
}

static int start_sodium(void **state)
{
    (void)state;
    return sodium_init() < 0 ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_prove_themselves),
        cmocka_unit_test(test_each_direction_has_a_key_of_this_conversation),
        cmocka_unit_test(test_checksums_will_do_where_both_say_so),
        cmocka_unit_test(test_nobody_else_can_agree_on_checksums),
        cmocka_unit_test(test_generations_fence),
        cmocka_unit_test(test_strangers_are_refused),
        cmocka_unit_test(test_another_key_is_refused_like_a_stranger),
        cmocka_unit_test(test_every_bit_of_a_proof_counts),
        cmocka_unit_test(test_a_proof_is_for_one_conversation_only),
        cmocka_unit_test(test_frames_out_of_turn_are_refused),
        cmocka_unit_test(test_a_refusal_of_an_older_build_is_understood),
    };
    return cmocka_run_group_tests(tests, start_sodium, NULL);
}
