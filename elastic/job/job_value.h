/* Conversion of one value of a job file between JSON and its member in the structure, by type. */
#pragma once

#include "elastic/job/job_schema.h"

#define JOB_FOUND_SIZE 96

/**
 * job_value_decode() - store @value in the member of @key; false (nothing stored) when it is not
 * allowed
 */
bool job_value_decode(const struct schema_key *key, const json_t *value, struct job_spec *spec);

/** job_value_encode() - encode the member of @key; new reference, NULL when out of memory */
json_t *job_value_encode(const struct schema_key *key, const struct job_spec *spec);

/** job_value_is_default() - return whether @value of @key equals the key's default; false for a key
 * without a fixed default */
bool job_value_is_default(const struct schema_key *key, const json_t *value);

/**
 * job_value_describe() - describe a value of a job file, shortened: `the text "many"`, `5000`, `a
 * list of 3`
 */
void job_value_describe(const json_t *value, char ret_text[JOB_FOUND_SIZE]);
