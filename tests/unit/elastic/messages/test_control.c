/*
 * Tests of the framing between firnd and its workers: whole, byte by byte, and with invalid input.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/json.h"
#include "elastic/messages/control.h"
#include "elastic/plan/versions.h"
#include "lib/elastic/sample_plan.h"
#include "lib/elastic/sample_report.h"

#define TYPES (CONTROL_ALARM + 1)

/* Return places on more nodes than any real cluster has. */
static char *sample_places(void)
{
    char *text = malloc(COPIES_SHARES_SIZE);
    assert_non_null(text);
    memset(text, 'n', COPIES_SHARES_SIZE - 1);
    text[COPIES_SHARES_SIZE - 1] = '\0';
    return text;
}

/* Make a message of type @type with every field of every type set. */
static void sample_message(struct control_message *message, enum control_type type)
{
    memset(message, 0, sizeof(*message));
    message->type = type;
    message->plan = sample_plan();
    sample_report(&message->status, 1);
    message->progress = (struct control_progress){.generation = 4,
                                                  .step = 12,
                                                  .frozen_layers = 2,
                                                  .kept = {5, 0.75},
                                                  .loss = 0.1,
                                                  .grad_norm = INFINITY,
                                                  .validation_loss = NAN,
                                                  .step_seconds = 0.25,
                                                  .tokens_per_second = 1e4,
                                                  .compute_seconds = 0.2,
                                                  .wait_seconds = 0.05,
                                                  .pause_seconds = -0.0,
                                                  .memory_bytes = 5ull << 30};
    message->progress.judgement_count = 2;
    message->progress.judgements[0].rank = 3;
    message->progress.judgements[0].speed = 1.0 / 3;
    message->progress.judgements[1].rank = 4095;
    message->progress.judgements[1].speed = 1;
    message->checkpoint = (struct control_checkpoint){.generation = 4,
                                                      .step = 10,
                                                      .path = "/var/lib/firn/checkpoints/demo/10",
                                                      .manifest_sha256 = "abcd",
                                                      .size_bytes = 1ull << 40,
                                                      .stall_seconds = 0.001,
                                                      .write_seconds = 1.5,
                                                      .shares = sample_places(),
                                                      .is_unproven = true};
    strcpy(message->text, "layers 0-1 frozen");
    message->committed = true;
}

static void check_back(const struct control_message *back, const struct control_message *sent)
{
    assert_int_equal(back->type, sent->type);
    switch (sent->type) {
    case CONTROL_PREPARE:
    case CONTROL_SWITCH:
        assert_non_null(back->plan);
        assert_string_equal(back->plan->change.text, sent->plan->change.text);
        return;
    case CONTROL_STATUS:
        assert_true(back->status.instance == sent->status.instance);
        assert_int_equal(back->status.record.step, 42);
        assert_int_equal(back->protocol_oldest, VERSIONS_CONTROL_OLDEST);
        assert_int_equal(back->protocol, VERSIONS_CONTROL);
        break;
    case CONTROL_EVENT:
        assert_string_equal(back->text, sent->text);
        assert_memory_equal(&back->progress, &sent->progress, sizeof(sent->progress));
        break;
    case CONTROL_HOLD:
    case CONTROL_GO_ON:
    case CONTROL_PROGRESS:
        assert_memory_equal(&back->progress, &sent->progress, sizeof(sent->progress));
        break;
    case CONTROL_CHECKPOINT:
        assert_string_equal(back->checkpoint.shares, sent->checkpoint.shares);
        assert_memory_equal(&back->checkpoint, &sent->checkpoint,
                            offsetof(struct control_checkpoint, shares));
        assert_true(back->checkpoint.is_unproven);
        assert_int_equal(back->checkpoint.kept_from, sent->checkpoint.kept_from);
        assert_int_equal(back->checkpoint.spared_step, sent->checkpoint.spared_step);
        assert_true(back->committed);
        assert_string_equal(back->text, sent->text);
        break;
    case CONTROL_ALARM:
        assert_string_equal(back->text, sent->text);
        break;
    case CONTROL_STOP:
        break;
    }
    assert_null(back->plan);
}

static void test_every_type_round_trips(void **state)
{
    (void)state;
    struct bytes stream = {0};
    struct control_message sent[TYPES], back;
    struct error error = {0};
    for (unsigned i = 0; i < TYPES; i++) {
        sample_message(&sent[i], (enum control_type)i);
        assert_int_equal(control_pack(&sent[i], &stream), 0);
    }
    for (unsigned i = 0; i < TYPES; i++) {
        assert_int_equal(control_unpack(&stream, &back, &error), 1);
        check_back(&back, &sent[i]);
        control_message_done(&back);
        control_message_done(&sent[i]);
    }
    assert_int_equal(control_unpack(&stream, &back, &error), 0);
    assert_int_equal(stream.size_bytes, 0);
    bytes_done(&stream);
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    struct bytes stream = {0}, arrived = {0};
    struct control_message sent, back;
    struct error error = {0};
    sample_message(&sent, CONTROL_SWITCH);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(control_pack(&sent, &stream), 0);
    unsigned taken = 0;
    for (size_t i = 0; i < stream.size_bytes; i++) {
        assert_int_equal(bytes_append(&arrived, stream.data + i, 1), 0);
        int status = control_unpack(&arrived, &back, &error);
        bool whole = (i + 1) % (stream.size_bytes / 3) == 0;
        assert_int_equal(status, whole);
        if (status == 1) {
            taken++;
            check_back(&back, &sent);
            control_message_done(&back);
        }
    }
    assert_int_equal(taken, 3);
    control_message_done(&sent);
    bytes_done(&stream);
    bytes_done(&arrived);
}

static int unpack_frame(uint32_t length, const char *text, struct error *error)
{
    struct bytes stream = {0};
    struct control_message back = {.type = CONTROL_ALARM, .text = "untouched"};
    uint8_t header[4];
    bytes_put_u32(header, length);
    assert_int_equal(bytes_append(&stream, header, sizeof(header)), 0);
    assert_int_equal(bytes_append(&stream, text, strlen(text)), 0);
    int status = control_unpack(&stream, &back, error);
    if (status < 0) {
        assert_string_equal(back.text, "untouched");
        assert_int_equal(stream.size_bytes, 4 + strlen(text));
    } else if (status == 1) {
        control_message_done(&back);
    }
    bytes_done(&stream);
    return status;
}

static void test_lengths_are_bounded_before_anything_arrives(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(unpack_frame(0, "", &error), -EBADMSG);
    assert_int_equal(unpack_frame(CONTROL_MESSAGE_MAX + 1, "", &error), -EBADMSG);
    assert_int_equal(unpack_frame(UINT32_MAX, "", &error), -EBADMSG);
    assert_int_equal(error.code, -EBADMSG);
    assert_int_equal(unpack_frame(CONTROL_MESSAGE_MAX, "", &error), 0);
}

#define PROGRESS(kept)                                                                             \
    "{\"type\":\"progress\",\"progress\":{\"generation\":1,\"step\":1,\"frozen_layers\":0,"        \
    "\"loss\":\"0\",\"grad_norm\":\"0\",\"validation_loss\":\"0\",\"step_seconds\":\"0\","         \
    "\"tokens_per_second\":\"0\",\"compute_seconds\":\"0\",\"wait_seconds\":\"0\","                \
    "\"pause_seconds\":\"0\",\"kept\":" kept "}}"

static void test_garbage_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x",
        "{",
        "[]",
        "\"stop\"",
        "{}",
        "{\"type\":7}",
        "{\"type\":\"dance\"}",
        "{\"type\":\"a word that is longer than any type\"}",
        "{\"type\":\"prepare\"}",
        "{\"type\":\"prepare\",\"plan\":7}",
        "{\"type\":\"switch\",\"plan\":{}}",
        "{\"type\":\"status\",\"status\":{}}",
        "{\"type\":\"progress\"}",
        "{\"type\":\"progress\",\"progress\":{\"generation\":1,\"step\":1,\"frozen_layers\":0}}",
        PROGRESS("[5]"),
        PROGRESS("[0,0.5]"),
        PROGRESS("[5,1.5]"),
        PROGRESS("7"),
        "{\"type\":\"event\",\"text\":\"x\"}",
        "{\"type\":\"alarm\"}",
        "{\"type\":\"alarm\",\"text\":[]}",
        "{\"type\":\"checkpoint\",\"text\":\"\",\"checkpoint\":{}}",
        "{\"type\":\"stop\",\"type\":\"stop\"}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct error error = {0};
        int status = unpack_frame((uint32_t)strlen(texts[i]), texts[i], &error);
        if (status != -EBADMSG)
            fail_msg("%s: %d", texts[i], status);
        assert_int_equal(error.code, -EBADMSG);
        assert_true(error.text[0] != '\0');
    }
}

/* A message of an unknown type is refused, even if it has every field of a known type. */
static void test_unknown_type_with_everything_else_is_refused(void **state)
{
    (void)state;
    for (int type = 0; type < TYPES; type++) {
        struct control_message message;
        struct bytes stream = {0};
        sample_message(&message, (enum control_type)type);
        assert_int_equal(control_pack(&message, &stream), 0);
        assert_int_equal(bytes_append(&stream, "", 1), 0);
        char *text = (char *)stream.data + 4, *word = strstr(text, "\"type\":\"");
        assert_non_null(word);
        word[strlen("\"type\":\"")] ^= 1;
        struct error error = {0};
        assert_int_equal(unpack_frame((uint32_t)strlen(text), text, &error), -EBADMSG);
        control_message_done(&message);
        bytes_done(&stream);
    }
}

/* A newer firnd may send keys that an older worker does not know. */
static void test_unknown_keys_are_left_alone(void **state)
{
    (void)state;
    static const char text[] = "{\"type\":\"stop\",\"since\":\"tomorrow\"}";
    assert_int_equal(unpack_frame(sizeof(text) - 1, text, NULL), 1);
}

static void test_text_too_long_is_refused(void **state)
{
    (void)state;
    char text[CONTROL_TEXT_SIZE + 64], filler[CONTROL_TEXT_SIZE + 1] = {0};
    memset(filler, 'x', CONTROL_TEXT_SIZE);
    int length = snprintf(text, sizeof(text), "{\"type\":\"alarm\",\"text\":\"%s\"}", filler);
    assert_int_equal(unpack_frame((uint32_t)length, text, NULL), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_round_trips),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_lengths_are_bounded_before_anything_arrives),
        cmocka_unit_test(test_garbage_is_refused),
        cmocka_unit_test(test_unknown_type_with_everything_else_is_refused),
        cmocka_unit_test(test_unknown_keys_are_left_alone),
        cmocka_unit_test(test_text_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
