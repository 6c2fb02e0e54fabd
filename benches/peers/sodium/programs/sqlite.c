/* SQLite with a database in memory: inserts, an index, joins, groups and updates. */
#include "program.h"
#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sqlite3 *db;
static char row[256];
static unsigned rows, hash;
static uint64_t state = 141;

/* A file system without files: SQLite asks for one even if it opens none. */
static int no_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    return SQLITE_CANTOPEN;
}

static int no_delete(sqlite3_vfs *vfs, const char *name, int synced)
{
    return SQLITE_OK;
}

static int no_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    *out = 0;
    return SQLITE_OK;
}

static int same_name(sqlite3_vfs *vfs, const char *name, int bytes, char *out)
{
    snprintf(out, bytes, "%s", name);
    return SQLITE_OK;
}

static int no_random(sqlite3_vfs *vfs, int bytes, char *out)
{
    memset(out, 7, bytes);
    return bytes;
}

static int no_time(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
    *out = 0;
    return SQLITE_OK;
}

int sqlite3_os_init(void)
{
    static sqlite3_vfs none = {
        .iVersion = 2, .szOsFile = sizeof(sqlite3_file), .mxPathname = 64, .zName = "none", .xOpen = no_open,
        .xDelete = no_delete, .xAccess = no_access, .xFullPathname = same_name, .xRandomness = no_random,
        .xCurrentTimeInt64 = no_time,
    };
    return sqlite3_vfs_register(&none, 1);
}

int sqlite3_os_end(void)
{
    return SQLITE_OK;
}

static int take(void *unused, int columns, char **values, char **names)
{
    rows++;
    row[0] = 0;
    for (int i = 0; i < columns; i++) {
        const char *value = values[i] ? values[i] : "NULL";
        hash = fnv(hash, value, strlen(value));
        strncat(row, value, 40);
        strcat(row, " ");
    }
    return 0;
}

static void run(const char *sql)
{
    char *error = NULL;
    if (sqlite3_exec(db, sql, take, NULL, &error) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, error ? error : "");
        abort();
    }
}

static sqlite3_stmt *statement(const char *sql)
{
    sqlite3_stmt *made = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &made, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        abort();
    }
    return made;
}

void prepare(void)
{
    if (sqlite3_open(":memory:", &db) != SQLITE_OK) {
        fprintf(stderr, "cannot open: %s\n", sqlite3_errmsg(db));
        abort();
    }
}

void pass(void)
{
    rows = 0;
    run("CREATE TABLE town(id INTEGER PRIMARY KEY, name TEXT, size REAL);"
        "CREATE TABLE person(id INTEGER PRIMARY KEY, town INTEGER, name TEXT, age INTEGER, about TEXT); BEGIN");
    sqlite3_stmt *towns = statement("INSERT INTO town VALUES(?1, ?2, ?3)");
    for (int id = 1; id <= 40; id++) {
        sqlite3_bind_int(towns, 1, id);
        sqlite3_bind_text(towns, 2, next_word(&state), -1, SQLITE_STATIC);
        sqlite3_bind_double(towns, 3, next_number(&state) / 1024.0);
        sqlite3_step(towns);
        sqlite3_reset(towns);
    }
    sqlite3_finalize(towns);
    sqlite3_stmt *persons = statement("INSERT INTO person VALUES(NULL, ?1, ?2, ?3, ?4)");
    for (int i = 0; i < 1500; i++) {
        char about[64];
        write_text(about, sizeof about, &state);
        sqlite3_bind_int(persons, 1, next_number(&state) % 40 + 1);
        sqlite3_bind_text(persons, 2, next_word(&state), -1, SQLITE_STATIC);
        sqlite3_bind_int(persons, 3, next_number(&state) % 90);
        sqlite3_bind_text(persons, 4, about, sizeof about, SQLITE_TRANSIENT);
        sqlite3_step(persons);
        sqlite3_reset(persons);
    }
    sqlite3_finalize(persons);
    run("COMMIT; CREATE INDEX by_town ON person(town, age)");
    run("SELECT town.name, count(*), avg(age), max(about) FROM person JOIN town ON town.id = person.town"
        " WHERE age BETWEEN 20 AND 60 GROUP BY town.id ORDER BY 3 DESC, 1");
    run("SELECT name, length(about), upper(substr(about, 3, 9)) FROM person WHERE about LIKE '%ship%' ORDER BY about");
    run("UPDATE person SET age = age + 1 WHERE town IN (SELECT id FROM town WHERE size > 1000000)");
    run("DELETE FROM person WHERE id % 3 = 0");
    run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
        " SELECT sum(i * age) FROM n JOIN person ON person.id = n.i");
    run("DROP TABLE person; DROP TABLE town");
}

void tell(void)
{
    printf("%u rows, %08x, the last: %s\n", rows, hash, row);
}
