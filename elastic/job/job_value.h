/* One value of a job file: from JSON into its place in the structure and back, by its type. */
#pragma once

#include "elastic/job/job_schema.h"

#define JOB_FOUND_SIZE 96

/** job_value_decode() - store @value where @key says; false (nothing stored) when it is not allowed
 */
bool job_value_decode(const struct schema_key *key, const json_t *value, struct job_spec *spec);

/** job_value_encode() - new reference, NULL when memory is short */
json_t *job_value_encode(const struct schema_key *key, const struct job_spec *spec);

/** job_value_describe() - what a user wrote, shortened: `the text "many"`, `5000`, `a list of 3` */
void job_value_describe(const json_t *value, char ret_text[JOB_FOUND_SIZE]);
