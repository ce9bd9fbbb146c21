meta:
  id: iocrec
  title: Segment of a log of iocrec, the flight recorder for EPICS IOCs
  file-extension: iocrec
  license: MIT OR Apache-2.0
  ks-version: "0.10"
  endian: le
  bit-endian: le
doc: |
  A segment from its headers down to its blocks, their lists of contents and the columns of their bodies. docs/format.md
  has the whole format, with what a reader does about damage, which this description takes for the end.

  Kaitai Struct knows no zstd: unpack `frames` of a block (several frames, one after the other) to `len_unpacked` bytes,
  and read those as `columns` where `encoding` says so. Facts inside columns are encoded by postcard, which docs/format.md
  describes.
seq:
  - id: headers
    type: segment_header
    size: 80
    repeat: expr
    repeat-expr: 2
    doc: The same twice; take the first whose checksum is right.
  - id: blocks
    type: block
    repeat: eos
types:
  segment_header:
    seq:
      - id: magic
        contents: [0x89, IOCREC, 0x0a]
      - id: version
        type: u2
        valid: 1
      - id: len_header
        type: u2
        valid: 80
      - id: num_kinds
        type: u2
        doc: How many kinds of facts the writer knew.
      - id: num_headers
        type: u2
        valid: 2
      - id: time_step_log2
        type: b6
        doc: Times were rounded down to multiples of two to this, ns.
      - id: compatible_flags
        type: b26
        doc: Others that may be ignored.
      - id: incompatible_flags
        type: u4
        valid: 0
        doc: A reader stops at one that it does not know.
      - id: run
        size: 16
        doc: Random number of the recorder's run, lowest byte first.
      - id: boot_id
        size: 16
        doc: Boot id of the host in the order in which it is printed; zero if not known.
      - id: created
        type: u8
        doc: CLOCK_MONOTONIC when the segment was begun, ns.
      - id: created_wall
        type: s8
        doc: Wall-clock time then, ns since 1970 UTC.
      - id: sequence
        type: u4
        doc: Number of the segment in its run.
      - id: tag
        type: u4
        doc: CRC-32 of the bytes before it, repeated in each block.
  block:
    seq:
      - id: header
        type: block_header
        size: 52
      - id: contents
        type: contents_frame
        if: header.flags.has_contents
      - id: frames
        size: "header.len_body - (header.flags.has_contents ? contents.len_frame + 8 : 0)"
        doc: Frames of zstd that give the unpacked body.
  block_header:
    seq:
      - id: magic
        contents: [0xb7, 0x4c, 0x0f, 0xe3]
      - id: tag
        type: u4
        valid: _root.headers[0].tag
      - id: sequence
        type: u4
        doc: Number of the block in the segment, from 0.
      - id: flags
        type: block_flags
        size: 2
      - id: encoding
        type: u2
        enum: encoding
      - id: len_unpacked
        type: u4
        valid:
          max: 262144
      - id: len_body
        type: u4
        valid:
          max: 263232
      - id: num_events
        type: u4
        valid:
          max: 32768
      - id: earliest
        type: u8
      - id: latest
        type: u8
      - id: crc_body
        type: u4
        doc: CRC-32 of the body in the file, contents and frames.
      - id: crc_header
        type: u4
        doc: CRC-32 of the bytes before it.
  block_flags:
    doc: Those behind has_classes are there if has_classes is.
    seq:
      - id: is_keyframe
        type: b1
      - id: defines
        type: b1
      - id: has_classes
        type: b1
      - id: has_put_field
        type: b1
      - id: has_put
        type: b1
      - id: has_network
        type: b1
      - id: has_processing
        type: b1
      - id: has_causes
        type: b1
      - id: has_link_puts
        type: b1
      - id: has_readings
        type: b1
      - id: has_notes
        type: b1
      - id: has_alarms
        type: b1
      - id: has_others
        type: b1
      - id: has_contents
        type: b1
      - id: has_snapshots
        type: b1
      - id: has_health
        type: b1
  contents_frame:
    doc: A skippable frame of zstd.
    seq:
      - id: magic
        contents: [0x5e, 0x2a, 0x4d, 0x18]
      - id: len_frame
        type: u4
      - id: list
        type: contents
        size: len_frame - 4
      - id: crc
        type: u4
        doc: CRC-32 of the list.
  contents:
    seq:
      - id: version
        type: u1
        valid: 1
      - id: num_kinds
        type: varint
      - id: kinds
        type: kind
        repeat: expr
        repeat-expr: num_kinds.value
      - id: num_threads_1
        type: varint
        doc: One more than the number of threads; 0 if they are not listed.
      - id: threads
        type: thread
        repeat: expr
        repeat-expr: "num_threads_1.value == 0 ? 0 : num_threads_1.value - 1"
      - id: num_circuits_1
        type: varint
        doc: One more than the number of circuits; 0 if they are not listed.
      - id: circuits
        type: circuit
        repeat: expr
        repeat-expr: "num_circuits_1.value == 0 ? 0 : num_circuits_1.value - 1"
      - id: readings
        type: set
        doc: Records in PactCheck, FieldValue, Snapshot and Properties.
      - id: more
        size-eos: true
        doc: What newer recorders may add.
  kind:
    seq:
      - id: number
        type: varint
      - id: num_facts
        type: varint
  thread:
    seq:
      - id: number
        type: varint
      - id: flags
        type: varint
        doc: 1 it has a Put of the kind PutField or Notify, 2 a CaLinkPut, 4 a Put of the kind Put, 8 the sites follow.
      - id: num_sites
        type: varint
        if: flags.value & 8 != 0
      - id: sites
        type: varint
        repeat: expr
        repeat-expr: num_sites.value
        if: flags.value & 8 != 0
      - id: records
        type: set
      - id: put_to
        type: set
        if: flags.value & 5 != 0
  circuit:
    seq:
      - id: number
        type: varint
      - id: channels
        type: set
  set:
    seq:
      - id: form
        type: varint
        doc: 0 any number; 1 bits; 2 and more, so many ranges and two.
      - id: num_bits_8
        type: varint
        if: form.value == 1
      - id: bits
        size: num_bits_8.value
        if: form.value == 1
      - id: ranges
        type: range
        repeat: expr
        repeat-expr: form.value - 2
        if: form.value >= 2
  range:
    seq:
      - id: distance_2
        type: varint
        doc: Twice the distance from the last number of the range before, plus 1 if it has more than one.
      - id: num_more
        type: varint
        if: distance_2.value & 1 == 1
        doc: How many more than two.
  columns:
    doc: An unpacked body with encoding 2.
    seq:
      - id: lengths
        type: varint
        repeat: expr
        repeat-expr: 17
      - id: columns
        size: lengths[_index].value
        repeat: expr
        repeat-expr: 17
        doc: In the order of docs/format.md, from the templates to the eight columns of differences.
  varint:
    doc: Seven bits in each byte, the lowest first; the highest bit says that more follow.
    seq:
      - id: groups
        type: group
        repeat: until
        repeat-until: not _.has_next
    instances:
      value:
        value: >-
          groups[0].bits
          + (groups.size > 1 ? groups[1].bits << 7 : 0)
          + (groups.size > 2 ? groups[2].bits << 14 : 0)
          + (groups.size > 3 ? groups[3].bits << 21 : 0)
          + (groups.size > 4 ? groups[4].bits << 28 : 0)
        doc: Of the numbers here none has more than 32 bits.
  group:
    seq:
      - id: bits
        type: b7
      - id: has_next
        type: b1
enums:
  encoding:
    1: times_then_facts
    2: columns
