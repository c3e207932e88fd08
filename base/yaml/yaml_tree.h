/*
 * Parse a YAML text to a JSON tree, with the line of each key.
 *
 * One document of maps, lists and scalars. Plain scalars get the types of YAML 1.2's core schema
 * (null, true, 12, 0x1f, 1e-3), so `yes` and `on` stay texts; quoted ones are always texts.
 * Ambiguous input is refused with its line: duplicate keys, tags other than !!str, merge keys,
 * infinite and NaN numbers, a second document.
 *
 * Everything is bounded below; an alias counts as all the nodes that it represents, and the texts
 * of all aliases together are at most as long as a file may be.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"

#define YAML_TREE_SIZE_MAX  (1u << 20) /* bytes of text */
#define YAML_TREE_DEPTH_MAX 16
#define YAML_TREE_NODES_MAX 20000

#define YAML_TREE_BLANKED_MAX 16 /* lines that are not YAML, after which parsing continues */

struct yaml_tree;

struct yaml_tree_options {
    /*
     * Every scalar is a text, as written: `slots: 010` is the text "010". Tags and anchors mean
     * nothing, aliases are refused, documents after the first are skipped, and UTF-16 with a byte
     * order mark is read as well.
     */
    bool texts;
    /*
     * NULL: the first mistake ends the parsing. Else it is called for each mistake, in no order of
     * lines, and the tree has null in the place of a value with a mistake. Lines that are not YAML
     * are left out, with the lines that continue them.
     */
    void (*mistake)(void *context, unsigned line, const char *words);
    void *context;
};

/**
 * yaml_tree_parse() - parse @text, which need not end with a zero
 * @where: the file's name, for messages
 *
 * Return: 0; -EINVAL with "demo.yaml:12: ..."; -E2BIG (one of the bounds above); -ENOMEM.
 */
int yaml_tree_parse(const char *text, size_t size_bytes, const char *where,
                    struct yaml_tree **ret_tree, struct error *error) CHECK_RESULT;

/**
 * yaml_tree_parse_as() - parse @text as @options say
 *
 * Return: as yaml_tree_parse(). With options->mistake: 0 also after mistakes; the errors only if no
 * tree could be made, and that mistake was reported too.
 */
int yaml_tree_parse_as(const char *text, size_t size_bytes, const struct yaml_tree_options *options,
                       const char *where, struct yaml_tree **ret_tree,
                       struct error *error) CHECK_RESULT;

void yaml_tree_free(struct yaml_tree *tree);

static inline void yaml_tree_free_pointer(struct yaml_tree **tree)
{
    yaml_tree_free(*tree);
}
#define AUTO_YAML_TREE CLEANUP(yaml_tree_free_pointer)

/** yaml_tree_root() - return the tree, borrowed; null for an empty text */
json_t *yaml_tree_root(const struct yaml_tree *tree);

/** yaml_tree_root_line() - return the line on which the tree begins, from 1; 0: an empty text */
unsigned yaml_tree_root_line(const struct yaml_tree *tree);

/**
 * yaml_tree_line() - return the line of the key @key_path ("train.optimizer.lr"), from 1; 0: none;
 * @tree: a struct yaml_tree; void * is the type for job_spec_decode()
 */
unsigned yaml_tree_line(void *tree, const char *key_path);
