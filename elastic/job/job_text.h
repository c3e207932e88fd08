/* Sizes of the texts in a job's sections, terminators included. */
#pragma once

#define JOB_PATH_SIZE 1024
#define JOB_WORD_SIZE 16 /* of a word among choices: "adamw" */
