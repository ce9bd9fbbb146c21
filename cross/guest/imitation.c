/*
 * An imitation of an IOC, for kernels that no IOC can be had for: a static program with a record database, laid
 * out in memory as EPICS Base lays it out, and functions with the names of Base's. It is no IOC: what works
 * with it is what iocrec does with the kernel and with the widths of pointers, no more.
 *
 * Ten records form a chain. Each 50 ms a number is put to the first; each record adds one and processes the
 * next; the last prints its value to standard error once a second. The program checks what comes out, and ends with 1
 * if a probe has made it compute something wrong.
 *
 * usage: imitation SECONDS     ends earlier at SIGTERM; dies at an address of no page after SIGUSR1
 */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORDS 10
#define ROUNDS_A_SECOND 20
#define FUNCTION __attribute__((noinline, visibility("default")))

/* The structures of dbBase.h, as far as the offsets reach; sizes are checked below. */
struct node { struct node *next, *previous; };
struct list { struct node *first, *last; int count; };

struct field {
	char *prompt, *name, *extra;
	struct record_type *type;
	short in_type, special;
	int field_type;
	unsigned process_passive, base;
	short prompt_group, interest;
	int as_level;
	char *initial;
	void *private;
	short size, offset;
};

struct record_type {
	struct node node;
	struct list attributes, records, devices, definitions;
	char *name;
	short fields, prompts, links;
	short *link_indices;
	char **sorted_names;
	short *sorted_indices;
	struct field *value;
	short value_index;
	struct field **descriptions;
	void *rset;
	int record_size;
};

struct record_node {
	struct node node;
	struct record *record;
	char *name;
	struct list infos;
	int flags, order;
	void *aliased;
};

struct base { struct list menus, types; };

struct record {
	char name[61];
	uint16_t stat, sevr;
	uint8_t pact;
	struct record_type *rdes;
	double val;
	struct record *next;
};

struct address {
	struct record *record;
	void *value;
	struct field *field;
	long elements;
	short field_type, field_size, special, request_type;
};

_Static_assert(sizeof(struct record_type) == (sizeof(void *) == 8 ? 192 : 100), "dbRecordType");
_Static_assert(sizeof(struct field) == (sizeof(void *) == 8 ? 80 : 52), "dbFldDes");
_Static_assert(offsetof(struct record_node, flags) == (sizeof(void *) == 8 ? 56 : 28), "dbRecordNode");

enum { STRING = 0, UCHAR = 2, DOUBLE = 10, MENU = 12, NOACCESS = 17 };

static struct record records[RECORDS];
static struct record_node nodes[RECORDS];
static struct record_type type;

#define FIELD(label, member, number) \
	{ .name = label, .type = &type, .field_type = number, \
	  .size = sizeof(records[0].member), .offset = offsetof(struct record, member) }
static struct field fields[] = {
	FIELD("NAME", name, STRING), FIELD("STAT", stat, MENU), FIELD("SEVR", sevr, MENU),
	FIELD("PACT", pact, UCHAR), FIELD("RDES", rdes, NOACCESS), FIELD("VAL", val, DOUBLE),
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))
static struct field *descriptions[FIELDS];

static struct base base;
struct base *pdbbase;

/* Empty statements that no optimiser looks into: the functions are called as they stand here. */
#define OPAQUE() __asm__ volatile("" ::: "memory")

FUNCTION long dbProcess(struct record *record);

static void print(const struct record *record)
{
	char line[80];
	int length = snprintf(line, sizeof(line), "%s is %g\n", record->name, record->val);

	if (write(2, line, length) != length)
		_exit(2);
}

FUNCTION void recGblFwdLink(struct record *record)
{
	OPAQUE();
	if (record->next) {
		record->next->val = record->val;
		dbProcess(record->next);
	}
	OPAQUE();
}

FUNCTION long dbProcess(struct record *record)
{
	OPAQUE();
	record->pact = 1;
	record->val += 1;
	record->sevr = record->val > 1000 ? 2 : 0;
	record->stat = record->sevr ? 3 : 0;
	if (!record->next && (long)record->val % ROUNDS_A_SECOND == 0)
		print(record);
	recGblFwdLink(record);
	record->pact = 0;
	OPAQUE();
	return 0;
}

FUNCTION long dbPut(struct address *address, short request_type, const void *buffer, long count)
{
	OPAQUE();
	if (request_type == DOUBLE && count == 1)
		memcpy(address->value, buffer, sizeof(double));
	OPAQUE();
	return 0;
}

FUNCTION long dbPutField(struct address *address, short request_type, const void *buffer, long count)
{
	long status = dbPut(address, request_type, buffer, count);

	OPAQUE();
	return status ? status : dbProcess(address->record);
}

static void append(struct list *list, struct node *node)
{
	node->previous = list->last;
	*(list->last ? &list->last->next : &list->first) = node;
	list->last = node;
	list->count++;
}

static void build(void)
{
	for (size_t i = 0; i < FIELDS; i++)
		descriptions[i] = &fields[i];
	type.name = "calc";
	type.fields = FIELDS;
	type.descriptions = descriptions;
	type.record_size = sizeof(struct record);
	for (int i = 0; i < RECORDS; i++) {
		snprintf(records[i].name, sizeof(records[i].name), "GUEST:R%d", i);
		records[i].rdes = &type;
		records[i].next = i + 1 < RECORDS ? &records[i + 1] : NULL;
		nodes[i].record = &records[i];
		nodes[i].name = records[i].name;
		append(&type.records, &nodes[i].node);
	}
	append(&base.types, &type.node);
	pdbbase = &base;
}

static volatile sig_atomic_t ended, falls;

static void end(int number)
{
	if (number == SIGTERM)
		ended = 1;
	else
		falls = 1;
}

FUNCTION void fall(volatile int *where)
{
	*where = 1;
	OPAQUE();
}

int main(int count, char **arguments)
{
	int rounds = count > 1 ? atoi(arguments[1]) * ROUNDS_A_SECOND : ROUNDS_A_SECOND;
	struct address address = { &records[0], &records[0].val, &fields[FIELDS - 1], 1, DOUBLE, sizeof(double), 0, DOUBLE };

	build();
	signal(SIGTERM, end);
	signal(SIGUSR1, end);
	for (int round = 0; round < rounds && !ended; round++) {
		double value = round;

		dbPutField(&address, DOUBLE, &value, 1);
		for (int i = 0; i < RECORDS; i++)
			if (records[i].val != value + i + 1) {
				printf("imitation: %s is %g, not %g\n", records[i].name, records[i].val, value + i + 1);
				return 1;
			}
		if (falls)
			fall((int *)(uintptr_t)0x1230);
		usleep(50000);
	}
	printf("imitation: computed right\n");
	return 0;
}
