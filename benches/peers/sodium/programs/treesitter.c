/* The parser generator tree-sitter with its grammar of JavaScript: parses a program, visits the
   tree, changes the text, and parses again with the old tree. */
#include "program.h"
#include "tree_sitter/api.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const TSLanguage *tree_sitter_javascript(void);

static const char piece[] = {
#include "script.js.inc"
};

#define COPIES 4

static char text[COPIES * sizeof piece];
static TSParser *parser;
static unsigned nodes, named, errors, hash;

void prepare(void)
{
    for (int i = 0; i < COPIES; i++) {
        memcpy(text + i * sizeof piece, piece, sizeof piece);
    }
    parser = ts_parser_new();
    if (!ts_parser_set_language(parser, tree_sitter_javascript())) {
        fprintf(stderr, "the grammar has another version\n");
        abort();
    }
}

static void visit(TSTree *tree)
{
    TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree));
    for (;;) {
        TSNode node = ts_tree_cursor_current_node(&cursor);
        nodes++;
        named += ts_node_is_named(node);
        errors += ts_node_is_error(node);
        hash = hash * 31 + ts_node_symbol(node) + ts_node_end_byte(node);
        if (ts_tree_cursor_goto_first_child(&cursor)) {
            continue;
        }
        while (!ts_tree_cursor_goto_next_sibling(&cursor)) {
            if (!ts_tree_cursor_goto_parent(&cursor)) {
                ts_tree_cursor_delete(&cursor);
                return;
            }
        }
    }
}

void pass(void)
{
    nodes = named = errors = 0;
    TSTree *tree = ts_parser_parse_string(parser, NULL, text, sizeof text);
    visit(tree);
    /* The seed in the first lines is a digit. */
    char *digit = strstr(text, "seed = ") + 7;
    uint32_t at = digit - text;
    *digit = *digit == '9' ? '1' : *digit + 1;
    TSInputEdit edit = { at, at + 1, at + 1, { 0, 0 }, { 0, 1 }, { 0, 1 } };
    ts_tree_edit(tree, &edit);
    TSTree *next = ts_parser_parse_string(parser, tree, text, sizeof text);
    visit(next);
    ts_tree_delete(tree);
    ts_tree_delete(next);
}

void tell(void)
{
    printf("%u nodes, %u named, %u errors, %08x\n", nodes, named, errors, hash);
}
