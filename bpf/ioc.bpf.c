// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Entry probes on EPICS Base: each notes the thread, its stack pointer and caller, the record, and the values that
 * would be lost later. There are no return probes: the reader reconstructs the calls from the stack pointers.
 *
 * Compiled once for each tier. With IOCREC_RING events are written in place into a ring buffer (kernel 5.8). Without it
 * they are built on the stack and go through perf buffers, by the rules of kernel 4.4: no global data (5.2), no loops
 * (5.3), no calls between programs (4.16), no kernel BTF; buffers for helpers of constant size, on the stack, and
 * zeroed before. libbpf replaces bpf_probe_read_user (5.5) with bpf_probe_read if the kernel lacks it.
 *
 * A failed read leaves zeroes, and the event holds its number of valid bytes: a wrong pointer costs a value, never
 * more.
 */
#include "program.h"
#include "hits.h"
#include "processes.h"
#include "values.h"
#include "puts.h"
#include "buffers.h"
#include "chains.h"
#include "console.h"

/* DBADDR: the same in every Base since 3.14 (dbAddr.h) */
/* special.h, the same in all versions: the record type sets the address (arrays, long strings) */
#define SPC_DBADDR 2

struct db_address {
	__pointer record;
	__pointer pfield;
	__pointer field;
	__long elements;
	__s16 field_type;
	__s16 field_size;
	__s16 special;
	__s16 dbr_field_type;
};

INLINE int begins(struct pt_regs *regs, __u16 kind)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	__u64 record = ARGUMENT1(regs);

	if ((process->chains || process->selects) && process_left_out(regs, process, id, record))
		return 0;
	OPEN_OF_PUT(hit, hit, regs, id, record);
	begin(hit, regs, id, kind, record);
	no_alarm(hit);
	RETURN_ADDRESS(&hit->caller, regs);
	bpf_probe_read_user(&hit->detail, 1, (void *)(record + process->pact));
	SEND(regs, hit, hit);
	return 0;
}

SEC("uprobe") int db_process(struct pt_regs *regs)
{
	return begins(regs, KIND_PROCESS);
}

/* A record type's rset->process(dbCommon *), for IOCs whose dbProcess is not found */
SEC("uprobe") int process_routine(struct pt_regs *regs)
{
	return begins(regs, KIND_RSET_PROCESS);
}

/*
 * STAT and SEVR, which are adjacent both in the record and in the hit. Read in place: a copy would cost more than the
 * read.
 */
INLINE void read_alarm(struct hit *hit, struct process_layout *process, __u64 record)
{
	bpf_probe_read_user((__u8 *)hit + __builtin_offsetof(struct hit, status), 2 * sizeof(__u16),
			    (void *)(record + process->stat));
}

/* For an unknown record type: without a value. */
INLINE int completes(struct pt_regs *regs, struct process_layout *process, __u64 id, __u64 record)
{
	OPEN(complete, complete);
	begin(&complete->hit, regs, id, KIND_COMPLETE, record);
	read_alarm(&complete->hit, process, record);
	complete->count = 0;
	complete->bytes = 0;
	SEND(regs, complete, &complete->hit);
	return 0;
}

/* The caller of recGblFwdLink is the record's own process(), so it is not noted. */
SEC("uprobe") int rec_gbl_fwd_link(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	__u64 record = ARGUMENT1(regs);
	struct value_layout *layout;

	if ((process->chains || process->selects) && completion_left_out(regs, process, id, record))
		return 0;
	layout = value_of(process, id, record);
	/* on a separate path: see program.h */
	if (!layout)
		return completes(regs, process, id, record);
	COMPARED(layout);
	if (layout->form == FORM_NONE || layout->form == FORM_SCALAR) {
		OPEN_OF_PUT(complete, complete, regs, id, record);
		begin(&complete->hit, regs, id, KIND_COMPLETE, record);
		read_alarm(&complete->hit, process, record);
		complete->count = 0;
		complete->bytes = 0;
		if (layout->form == FORM_SCALAR &&
		    bpf_probe_read_user(complete->value, 8, (void *)(record + layout->value)) == 0) {
			complete->hit.dbf = layout->dbf;
			complete->count = 1;
			complete->bytes = 8;
		}
		SEND(regs, complete, &complete->hit);
	} else if (layout->form == FORM_STRING) {
		OPEN_OF_PUT(complete_string, complete, regs, id, record);
		begin(&complete->hit, regs, id, KIND_COMPLETE, record);
		read_alarm(&complete->hit, process, record);
		complete->hit.dbf = layout->dbf;
		complete->count = 1;
		complete->bytes = STRING_BYTES;
		if (bpf_probe_read_user(complete->value, STRING_BYTES, (void *)(record + layout->value)) < 0)
			complete->bytes = 0;
		SEND(regs, complete, &complete->hit);
	} else {
		OPEN_OF_PUT(complete_array, complete, regs, id, record);
		__u64 array = 0;
		__u32 count = 0;
		__u16 ftvl = layout->dbf;

		begin(&complete->hit, regs, id, KIND_COMPLETE, record);
		read_alarm(&complete->hit, process, record);
		array = read_pointer(record + layout->value);
		bpf_probe_read_user(&count, sizeof(count), (void *)(record + layout->nord));
		if (layout->form == FORM_ARRAY)
			bpf_probe_read_user(&ftvl, sizeof(ftvl), (void *)(record + layout->ftvl));
		complete->hit.detail = layout->form;
		complete->hit.dbf = ftvl;
		complete->count = count;
		complete->bytes = read_array(complete->value, (void *)array,
					     (__u64)count * element_bytes(process, ftvl));
		SEND(regs, complete, &complete->hit);
	}
	return 0;
}

/* Whether a DBF type, in the numbering of the process, is INLINK, OUTLINK or FWDLINK. */
INLINE int is_link(struct process_layout *process, __s16 dbf)
{
	__u16 first = process->no_int64 ? 12 : 14;

	return (__u16)(dbf - first) < 3;
}

/*
 * The text of a link before it is changed: dbPutField frees it. The agent assembles it from its parts and the link's
 * kind. Offsets are those of link.h in units of pointers, the same for 4 and 8 bytes. `old`: that of the put, which may be
 * one of an array, with more room there: a long string.
 */
INLINE void read_link(struct put *put, __u8 *old, struct process_layout *process, __u64 link)
{
	int since_3_16 = process->link_record != NO_OFFSET;
	__u16 parts[2] = { 0xf, 0 }; /* its kind; since 3.16 its flags */
	__u16 kind;
	__u16 mask = 0;
	__u64 text;

	bpf_probe_read_user(parts, sizeof(parts), (void *)(link + (since_3_16 ? 1 : 5) * sizeof(__pointer)));
	bpf_probe_read_user(&mask, sizeof(mask), (void *)(link + (since_3_16 ? 9 : 4) * sizeof(__pointer)));
	kind = parts[0];
	if (since_3_16 && parts[1] & 2) /* DBLINK_FLAG_TSELisTIME, before that pvlOptTSELisTime in the mask */
		mask |= 0x800;
	put->link = (kind & 0xf) << 12 | (mask & 0xfff);
	if (kind == 1 || kind == 10 || kind == 11) { /* PV_LINK, DB_LINK, CA_LINK */
		text = read_pointer(link + process->link_pvname);
	} else {
		/* a constant, a JSON link, `@` text; a constant that was never changed has only its raw text */
		text = read_pointer(link + (since_3_16 ? 4 * sizeof(__pointer) : 0));
		if (!text && since_3_16 && kind == 0)
			text = read_pointer(link + 3 * sizeof(__pointer));
	}
	old[0] = 0;
	put->old_bytes = 0;
	if (!text || bpf_probe_read_user(old, STRING_BYTES, (void *)text) == 0)
		put->old_bytes = STRING_BYTES;
	else if (bpf_probe_read_user(old, 8, (void *)text) == 0)
		put->old_bytes = 8;
}

/* dbPut and dbPutField: (DBADDR *, short dbrType, const void *buffer, long count) */
INLINE int put(struct pt_regs *regs, __u16 kind)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	struct db_address address = {};
	__u16 dbr = ARGUMENT2(regs);
	__u64 count = ARGUMENT4(regs);
	const void *requested = (void *)(__u64)ARGUMENT3(regs);
	int outside = 1;

	bpf_probe_read_user(&address, sizeof(address), (void *)(__u64)ARGUMENT1(regs));
	if (put_left_out(regs, process, id, address.record, kind == KIND_PUT_FIELD))
		return 0;
	if (kind == KIND_PUT_FIELD)
		note_put(regs, id, address.record);
	else
		outside = is_of_put(regs, id, address.record);
	/* an array of one element is still one: its buffer is not where the address says */
	if (count <= 1 && address.elements <= 1 && address.special != SPC_DBADDR) {
		OPEN_PUT(put, put, outside);
		begin(&put->hit, regs, id, kind, address.record);
		no_alarm(&put->hit);
		RETURN_ADDRESS(&put->hit.caller, regs);
		put->hit.dbf = dbr;
		put->field = address.field;
		put->count = count;
		put->old_count = 1;
		put->old_dbf = address.field_type;
		put->requested_bytes = 0;
		put->old_bytes = 0;
		put->link = NO_LINK;
		if (count == 1) {
			if (element_bytes(process, dbr) == STRING_BYTES) {
				if (bpf_probe_read_user(put->requested, STRING_BYTES, requested) == 0)
					put->requested_bytes = STRING_BYTES;
			}
			/* also for a short string at the end of its memory */
			if (!put->requested_bytes && bpf_probe_read_user(put->requested, 8, requested) == 0)
				put->requested_bytes = 8;
		}
		if (is_link(process, address.field_type)) {
			read_link(put, put->old, process, address.pfield);
		} else if (address.field_size > 8) {
			if (bpf_probe_read_user(put->old, STRING_BYTES, (void *)(__u64)address.pfield) == 0)
				put->old_bytes = STRING_BYTES;
		} else if (bpf_probe_read_user(put->old, 8, (void *)(__u64)address.pfield) == 0) {
			put->old_bytes = 8;
		}
		SEND_PUT(regs, put, &put->hit, outside);
	} else {
		struct value_layout *layout = value_of(process, id, address.record);
		__u64 old = address.pfield;
		__u32 old_count = address.elements;

		if (layout && layout->form == FORM_ARRAY && layout->field == address.field) {
			/* an array record's buffer: DBADDR.pfield is updated inside dbPut only */
			old = read_pointer(address.record + layout->value);
			bpf_probe_read_user(&old_count, sizeof(old_count), (void *)((__u64)address.record + layout->nord));
		}
		OPEN_PUT(put_array, put, outside);
		begin(&put->hit, regs, id, kind, address.record);
		no_alarm(&put->hit);
		RETURN_ADDRESS(&put->hit.caller, regs);
		put->hit.dbf = dbr;
		put->field = address.field;
		put->count = count;
		put->old_dbf = address.field_type;
		put->link = NO_LINK;
		put->requested_bytes = read_array(put->requested, requested, count * element_bytes(process, dbr));
		put->old_count = old_count;
		if (is_link(process, address.field_type))
			read_link((struct put *)put, put->old, process, address.pfield);
		else
			put->old_bytes = read_array(put->old, (void *)old, (__u64)old_count * (__u16)address.field_size);
		SEND_PUT(regs, put, &put->hit, outside);
	}
	return 0;
}

SEC("uprobe") int db_put(struct pt_regs *regs)
{
	return put(regs, KIND_PUT);
}

SEC("uprobe") int db_put_field(struct pt_regs *regs)
{
	return put(regs, KIND_PUT_FIELD);
}

/* dbProcessNotify(processNotify *); 3.14: dbPutNotify(putNotify *) */
SEC("uprobe") int db_process_notify(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	struct db_address address = {};
	__u64 channel;

	channel = read_pointer((__u64)ARGUMENT1(regs) + process->notify_chan);
	bpf_probe_read_user(&address, sizeof(address), (void *)(channel + process->chan_address));
	if (put_left_out(regs, process, id, address.record, 1))
		return 0;
	note_put(regs, id, address.record);
	OPEN_PUT(put, put, 1);
	begin(&put->hit, regs, id, KIND_NOTIFY, address.record);
	no_alarm(&put->hit);
	RETURN_ADDRESS(&put->hit.caller, regs);
	put->field = address.field;
	put->count = 0;
	put->old_count = 0;
	put->old_dbf = address.field_type;
	put->requested_bytes = 0;
	put->old_bytes = 0;
	put->link = NO_LINK;
	SEND_PUT(regs, put, &put->hit, 1);
	return 0;
}

/* dbCaPutLinkCallback(struct link *, short dbrType, const void *buffer, long count, ...) */
SEC("uprobe") int db_ca_put_link_callback(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	__u64 link = ARGUMENT1(regs);
	__u16 dbr = ARGUMENT2(regs);
	__u64 name;
	const void *value = (void *)(__u64)ARGUMENT3(regs);

	if (request_left_out(regs, process, id, 0, 0))
		return 0;
	OPEN_PUT(link_put, put, 0);
	begin(&put->hit, regs, id, KIND_LINK_PUT, link);
	no_alarm(&put->hit);
	put->hit.dbf = dbr;
	put->count = ARGUMENT4(regs);
	put->bytes = 0;
	put->record = 0;
	if (process->link_record != NO_OFFSET)
		put->record = read_pointer(link + process->link_record);
	name = read_pointer(link + process->link_pvname);
	if (bpf_probe_read_user(put->pv, NAME_BYTES, (void *)name) < 0)
		put->pv[0] = 0;
	if (bpf_probe_read_user(put->value, STRING_BYTES, value) == 0)
		put->bytes = STRING_BYTES;
	else if (bpf_probe_read_user(put->value, 8, value) == 0)
		put->bytes = 8;
	SEND_PUT(regs, put, &put->hit, 0);
	return 0;
}

/*
 * A chid is the address of an oldChannelNotify (oldAccess.h): virtual table, context, nciu &. In an nciu (nciu.h, cac.h)
 * the number follows its virtual table and the cacChannelNotify &. Both are the same in all Bases since 3.14.
 */
#define CHANNEL_IO (2 * sizeof(__pointer))
#define CHANNEL_CID (2 * sizeof(__pointer))

/*
 * ca_array_put(chtype, unsigned long count, chid, const void *) and ca_array_put_callback(the same, ...): a thread of the
 * IOC puts as a client.
 */
SEC("uprobe") int ca_array_put(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	__u64 channel = ARGUMENT3(regs);
	__u32 cid = 0;

	if (client_put_left_out(process, channel))
		return 0;
	OPEN(cause, cause);
	begin(&cause->hit, regs, id, KIND_CLIENT_PUT, channel);
	no_alarm(&cause->hit);
	RETURN_ADDRESS(&cause->hit.caller, regs);
	bpf_probe_read_user(&cid, sizeof(cid), (void *)(read_pointer(channel + CHANNEL_IO) + CHANNEL_CID));
	cause->user = cid;
	SEND(regs, cause, &cause->hit);
	return 0;
}

/* CALLBACK.user: callback.h, {function, int priority, void *user, ...} */
#define CALLBACK_USER (2 * sizeof(__pointer))

INLINE int cause(struct pt_regs *regs, __u16 kind, __u64 object, __u64 user, int read_user)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);

	if (read_user)
		user = read_pointer(object + CALLBACK_USER);
	if (request_left_out(regs, process, id, user, kind == KIND_SCAN_ONCE))
		return 0;
	OPEN(cause, cause);
	begin(&cause->hit, regs, id, kind, object);
	no_alarm(&cause->hit);
	RETURN_ADDRESS(&cause->hit.caller, regs);
	cause->user = user;
	SEND(regs, cause, &cause->hit);
	return 0;
}

SEC("uprobe") int callback_request(struct pt_regs *regs)
{
	return cause(regs, KIND_CALLBACK_REQUEST, ARGUMENT1(regs), 0, 1);
}

SEC("uprobe") int callback_request_delayed(struct pt_regs *regs)
{
	return cause(regs, KIND_CALLBACK_DELAYED, ARGUMENT1(regs), 0, 1);
}

/* (CALLBACK *, int priority, void *record) */
SEC("uprobe") int callback_request_process(struct pt_regs *regs)
{
	return cause(regs, KIND_CALLBACK_PROCESS, ARGUMENT1(regs), ARGUMENT3(regs), 0);
}

/* (CALLBACK *, int priority, void *record, double seconds) */
SEC("uprobe") int callback_request_process_delayed(struct pt_regs *regs)
{
	return cause(regs, KIND_CALLBACK_PROCESS_DELAYED, ARGUMENT1(regs), ARGUMENT3(regs), 0);
}

/* scanOnce(dbCommon *) and scanOnceCallback(dbCommon *, callback, void *) */
SEC("uprobe") int scan_once(struct pt_regs *regs)
{
	return cause(regs, KIND_SCAN_ONCE, ARGUMENT1(regs), ARGUMENT1(regs), 0);
}

SEC("uprobe") int scan_io_request(struct pt_regs *regs)
{
	return cause(regs, KIND_SCAN_IO_REQUEST, ARGUMENT1(regs), 0, 0);
}

/* postEvent(EVENTPVT); 3.14: post_event(int) */
SEC("uprobe") int post_event(struct pt_regs *regs)
{
	return cause(regs, KIND_POST_EVENT, ARGUMENT1(regs), 0, 0);
}

/* How much is written if that is not known; more than any call takes. */
#define MUCH 0xFFFFFFFF

/*
 * Bytes from `from` that the process writes to a descriptor, `length` in all. Only standard output and standard error are
 * its console.
 */
INLINE int writes(struct pt_regs *regs, __u64 descriptor, __u64 from, __u64 bytes, __u64 length)
{
	__u64 id = bpf_get_current_pid_tgid();

	if (console_left_out(id, 1))
		return 0;
	OPEN(console, console);
	begin(&console->hit, regs, id, KIND_CONSOLE, descriptor);
	no_alarm(&console->hit);
	console->length = length;
	console->bytes = read_array(console->text, (void *)from, bytes);
	SEND(regs, console, &console->hit);
	return 0;
}

#define IS_CONSOLE(descriptor) ((__u32)(descriptor) == 1 || (__u32)(descriptor) == 2)

/* ssize_t write(int, const void *, size_t) of the C library */
SEC("uprobe") int libc_write(struct pt_regs *regs)
{
	__u64 descriptor = ARGUMENT1(regs);

	if (!IS_CONSOLE(descriptor))
		return 0;
	return writes(regs, descriptor, ARGUMENT2(regs), ARGUMENT3(regs), ARGUMENT3(regs));
}

struct piece {
	__pointer base;
	__pointer length;
};

/*
 * ssize_t writev(int, const struct iovec *, int), as C++ streams call it. At most four pieces are read; then the last of them
 * says that there were more.
 */
SEC("uprobe") int libc_writev(struct pt_regs *regs)
{
	__u64 descriptor = ARGUMENT1(regs);
	__u64 at = ARGUMENT2(regs);
	__u32 count = ARGUMENT3(regs);
	struct piece pieces[4] = {};

	if (!IS_CONSOLE(descriptor))
		return 0;
	if (count > 0)
		bpf_probe_read_user(&pieces[0], sizeof(pieces[0]), (void *)at);
	if (count > 1)
		bpf_probe_read_user(&pieces[1], sizeof(pieces[0]), (void *)(at + sizeof(pieces[0])));
	if (count > 2)
		bpf_probe_read_user(&pieces[2], sizeof(pieces[0]), (void *)(at + 2 * sizeof(pieces[0])));
	if (count > 3)
		bpf_probe_read_user(&pieces[3], sizeof(pieces[0]), (void *)(at + 3 * sizeof(pieces[0])));
	if (pieces[0].length)
		writes(regs, descriptor, pieces[0].base, pieces[0].length, pieces[0].length);
	if (pieces[1].length)
		writes(regs, descriptor, pieces[1].base, pieces[1].length, pieces[1].length);
	if (pieces[2].length)
		writes(regs, descriptor, pieces[2].base, pieces[2].length, pieces[2].length);
	if (pieces[3].length || count > 4)
		writes(regs, descriptor, pieces[3].base, pieces[3].length, count > 4 ? MUCH : pieces[3].length);
	return 0;
}

/* A message for errlog: who sent it, since from 7.0.7 on another thread prints it. */
INLINE int errlog(struct pt_regs *regs, __u64 severity, __u64 format)
{
	__u64 id = bpf_get_current_pid_tgid();

	if (console_left_out(id, 0))
		return 0;
	OPEN(console, console);
	begin(&console->hit, regs, id, KIND_ERRLOG, severity);
	no_alarm(&console->hit);
	RETURN_ADDRESS(&console->hit.caller, regs);
	console->length = 0;
	console->bytes = READ_TEXT(console->text, format);
	SEND(regs, console, &console->hit);
	return 0;
}

/* errlogVprintf(const char *format, va_list), which errlogPrintf and errlogMessage call */
SEC("uprobe") int errlog_vprintf(struct pt_regs *regs)
{
	return errlog(regs, NO_SEVERITY, ARGUMENT1(regs));
}

/* errlogSevVprintf(errlogSevEnum, const char *format, va_list), which errlogSevPrintf calls */
SEC("uprobe") int errlog_sev_vprintf(struct pt_regs *regs)
{
	return errlog(regs, (__u32)ARGUMENT1(regs), ARGUMENT2(regs));
}

/* errPrintf(long status, const char *file, int line, const char *format, ...) */
SEC("uprobe") int err_printf(struct pt_regs *regs)
{
	return errlog(regs, NO_SEVERITY, ARGUMENT4(regs));
}

/* void exit(int) of the C library */
SEC("uprobe") int libc_exit(struct pt_regs *regs)
{
	__u32 status = ARGUMENT1(regs);
	__u64 id = bpf_get_current_pid_tgid();

	if (!has_console(id))
		return 0;
	OPEN(cause, cause);
	begin(&cause->hit, regs, id, KIND_EXIT, 0);
	no_alarm(&cause->hit);
	RETURN_ADDRESS(&cause->hit.caller, regs);
	cause->user = status;
	SEND(regs, cause, &cause->hit);
	return 0;
}

/* epicsAssert(const char *file, unsigned line, const char *expression, const char *author): suspends the thread */
SEC("uprobe") int epics_assert(struct pt_regs *regs)
{
	__u64 file = ARGUMENT1(regs);
	__u32 line = ARGUMENT2(regs);
	__u64 expression = ARGUMENT3(regs);
	__u64 id = bpf_get_current_pid_tgid();

	if (!has_console(id))
		return 0;
	OPEN(assertion, assertion);
	begin(&assertion->hit, regs, id, KIND_ASSERTION, line);
	no_alarm(&assertion->hit);
	RETURN_ADDRESS(&assertion->hit.caller, regs);
	READ_TEXT(assertion->file, file);
	READ_TEXT(assertion->expression, expression);
	SEND(regs, assertion, &assertion->hit);
	return 0;
}

/* So that bpf_probe_read_user and bpf_ringbuf_* may be used; see LICENSE. */
char _license[] SEC("license") = "Dual BSD/GPL";
