/* Answers of S3 stores: the values read from accepted answers, and the refused answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/object/object_base64.h"
#include "checkpoint/object/object_xml.h"

static struct object_page page;
static struct object_list list;
static struct error error;

static int parse(const char *text)
{
    object_list_done(&list);
    error = (struct error){0};
    return object_xml_parse(text, strlen(text), &page, &list, &error);
}

static void test_objects(void **state)
{
    (void)state;
    assert_int_equal(
        parse(
            "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3\"><Name>b</Name>"
            "<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken>"
            "<Contents><Key>x&lt;y</Key><ETag>&quot;12&quot;</ETag><Size>5</Size><Owner><ID>1</ID>"
            "<Key>no</Key></Owner></Contents><Contents><Size>0</Size><Key>z</Key></Contents>"
            "<CommonPrefixes><Prefix>p</Prefix></CommonPrefixes></ListBucketResult>"),
        0);
    assert_string_equal(page.root, "ListBucketResult");
    assert_true(page.truncated);
    assert_string_equal(page.next, "a&b");
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].key, "x<y");
    assert_string_equal(list.items[0].tag, "\"12\"");
    assert_int_equal(list.items[0].size_bytes, 5);
    assert_string_equal(list.items[1].key, "z");
}

static void test_uploads_and_parts(void **state)
{
    (void)state;
    assert_int_equal(parse("<ListMultipartUploadsResult><NextKeyMarker>k</NextKeyMarker>"
                           "<NextUploadIdMarker>u</NextUploadIdMarker><Upload><Key>a</Key>"
                           "<UploadId>u1</UploadId></Upload></ListMultipartUploadsResult>"),
                     0);
    assert_string_equal(page.next_upload, "u");
    assert_string_equal(list.items[0].tag, "u1");
    assert_int_equal(parse("<ListPartsResult><UploadId>u</UploadId>"
                           "<ChecksumAlgorithm>CRC32C</ChecksumAlgorithm><Part>"
                           "<PartNumber>7</PartNumber><ETag>e</ETag><Size>9</Size>"
                           "<ChecksumCRC32C>mnG7TA==</ChecksumCRC32C></Part></ListPartsResult>"),
                     0);
    assert_true(list.checksums);
    assert_int_equal(list.items[0].number, 7);
    assert_true(list.items[0].has_crc);
    assert_int_equal(list.items[0].crc32c, 0x9a71bb4c);
    assert_string_equal(page.upload, "u");
}

static void test_error(void **state)
{
    (void)state;
    assert_int_equal(parse("<Error><Code>SlowDown</Code><Message>later</Message>"
                           "<Region>eu-1</Region></Error>"),
                     0);
    assert_string_equal(page.root, "Error");
    assert_string_equal(page.code, "SlowDown");
    assert_string_equal(page.message, "later");
    assert_string_equal(page.region, "eu-1");
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "no XML",
        "<a><b></a></b>",
        "<ListBucketResult>",
        "<!DOCTYPE a [<!ENTITY x \"y\">]><a><Code>&x;</Code></a>",
        "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
        "<r><Contents><Size>5</Size></Contents></r>",
        "<r><Contents><Key>k</Key><Size>-5</Size></Contents></r>",
        "<r><Contents><Key>k</Key><Size>99999999999999999999</Size></Contents></r>",
        "<r><Upload><Key>k</Key></Upload></r>",
        "<r><Part><ETag>e</ETag></Part></r>",
        "<r><Part><ETag>e</ETag><PartNumber>0</PartNumber></Part></r>",
        "<r><Part><ETag>e</ETag><PartNumber>10001</PartNumber></Part></r>",
        "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a/></a></a></a></a></a></a></a></a></a></a>"
        "</a></a></a></a></a></a>",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(parse(texts[i]), -EBADMSG);
        assert_non_null(strstr(error.text, "of the answer: "));
    }
}

static void test_long_values(void **state)
{
    (void)state;
    char text[4096] = "<r><Contents><Key>", *at = text + strlen(text);
    memset(at, 'k', OBJECT_KEY_SIZE - 1);
    strcpy(at + OBJECT_KEY_SIZE - 1, "</Key></Contents></r>");
    assert_int_equal(parse(text), 0);
    memset(at, 'k', OBJECT_KEY_SIZE);
    strcpy(at + OBJECT_KEY_SIZE, "</Key></Contents></r>");
    assert_int_equal(parse(text), -EBADMSG);
    char *large = calloc(1, OBJECT_XML_BYTES_MAX + 1);
    assert_int_equal(object_xml_parse(large, OBJECT_XML_BYTES_MAX + 1, &page, NULL, &error),
                     -EFBIG);
    free(large);
}

static void test_base64(void **state)
{
    (void)state;
    char text[OBJECT_BASE64_CRC_SIZE];
    uint32_t crc = 0;
    object_base64_text(0x9a71bb4c, text); /* CRC32C of "hello" */
    assert_string_equal(text, "mnG7TA==");
    assert_true(object_base64_crc(text, &crc));
    assert_int_equal(crc, 0x9a71bb4c);
    assert_false(object_base64_crc("", &crc));
    assert_false(object_base64_crc("mnG7TAA=", &crc));
    assert_false(object_base64_crc("mnG7T\n==", &crc));
    assert_false(object_base64_crc("mnG7", &crc));
}

static int tear_down(void **state)
{
    (void)state;
    object_list_done(&list);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects),     cmocka_unit_test(test_uploads_and_parts),
        cmocka_unit_test(test_error),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_long_values), cmocka_unit_test(test_base64),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
