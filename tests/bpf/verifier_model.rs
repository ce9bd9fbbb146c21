//! Test that the perf tier's programs pass the verifiers of kernels 4.4 and 4.9, on a machine that has neither: a model of
//! these verifiers walks through them.
//!
//! Newer kernels know much more of a program and let pass what that one refuses: an address inside a map's value that
//! was computed, a pointer that was compared with NULL in a register after it had been put on the stack, a NULL that
//! comes from there. The compiler decides whether such things occur. So each program is walked here on all its ways
//! with no more knowledge of its registers and stack than that kernel has. What was refused by a real one was refused
//! here (docs/kernels.md).
//!
//! When it fails, the message says at which instruction: `llvm-objdump -d` of the object in OUT_DIR shows it.

use std::collections::HashMap;

use crate::objects::{programs, Instruction, Program};

/// What is known of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    Number,
    Constant(i32),
    Context,
    /// The frame's end, or so far from it.
    Frame(i32),
    Map,
    /// Into a map's value.
    Value,
    /// What the look-up at this instruction gave, not compared with NULL.
    Found(usize),
}

/// What is known of eight bytes of the stack: which have been written, or that a pointer lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Written(u8),
    Pointer(Known),
}

/// Bytes of stack that a program has.
const STACK: i32 = 512;
/// Instructions on all ways together that 4.4 looks at before it gives up.
const MAX_STEPS: usize = 32_768;

/// Which kernel's knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// What is compared with NULL is known in that register alone.
    V4_4,
    /// It is known of all copies; but a NULL is any number.
    V4_9,
}

#[derive(Clone, PartialEq, Eq)]
struct State {
    registers: [Known; 11],
    stack: [Slot; STACK as usize / 8],
}

impl State {
    /// Whatever may follow here has been found good for less knowledge than this.
    fn is_within(&self, good: &State) -> bool {
        let registers = self.registers.iter().zip(&good.registers).all(|(own, good)| {
            own == good
                || *good == Known::Nothing
                || (*good == Known::Number && !matches!(own, Known::Nothing))
        });
        registers
            && self.stack.iter().zip(&good.stack).all(|(own, good)| match (own, good) {
                (_, Slot::Written(0)) => true,
                (Slot::Written(own), Slot::Written(good)) => own & good == *good,
                _ => own == good,
            })
    }

    /// Which slot, and the bytes of it.
    fn place(at: i32, size: i32) -> Result<(usize, u8), String> {
        if !(-STACK..0).contains(&at) || at % size != 0 {
            return Err(format!("the stack at {at}, {size} bytes"));
        }
        let from = at + STACK;
        Ok((from as usize / 8, (((1u16 << size) - 1) << (from % 8)) as u8))
    }

    fn write(&mut self, at: i32, size: i32, what: Known) -> Result<(), String> {
        let (slot, bytes) = State::place(at, size)?;
        let pointer =
            matches!(what, Known::Context | Known::Value | Known::Found(_) | Known::Map | Known::Frame(_));
        self.stack[slot] = match self.stack[slot] {
            _ if pointer && size == 8 => Slot::Pointer(what),
            _ if pointer => return Err("a part of a pointer is put on the stack".into()),
            Slot::Written(before) => Slot::Written(before | bytes),
            Slot::Pointer(_) => Slot::Written(bytes),
        };
        Ok(())
    }

    fn read(&self, at: i32, size: i32) -> Result<Known, String> {
        let (slot, bytes) = State::place(at, size)?;
        match self.stack[slot] {
            Slot::Pointer(what) if size == 8 => Ok(what),
            // constants are not remembered
            Slot::Written(written) if written & bytes == bytes => Ok(Known::Number),
            _ => Err(format!("the stack at {at} was not written")),
        }
    }

    /// A buffer on the stack of constant size, all of it written before.
    fn is_buffer(&self, pointer: usize, size: usize) -> Result<(), String> {
        let (Known::Frame(at @ ..0), Known::Constant(size @ 1..)) =
            (self.registers[pointer], self.registers[size])
        else {
            return Err(format!("no buffer on the stack of constant size in r{pointer} and r{size}"));
        };
        for byte in at..at + size {
            let (slot, bit) = State::place(byte, 1)?;
            if !matches!(self.stack[slot], Slot::Written(written) if written & bit == bit) {
                return Err(format!("the stack at {byte} is handed over unwritten"));
            }
        }
        Ok(())
    }

    fn is(&self, register: usize, what: Known) -> Result<(), String> {
        let found = self.registers[register];
        (found == what).then_some(()).ok_or_else(|| format!("r{register} is {found:?}, not {what:?}"))
    }

    fn is_on_stack(&self, register: usize) -> Result<(), String> {
        match self.registers[register] {
            Known::Frame(..0) => Ok(()),
            found => Err(format!("r{register} is {found:?}, not on the stack")),
        }
    }

    fn call(&mut self, at: usize, helper: i32) -> Result<(), String> {
        match helper {
            // map_lookup_elem, map_update_elem
            1 | 2 => {
                self.is(1, Known::Map)?;
                self.is_on_stack(2)?;
                if helper == 2 {
                    self.is_on_stack(3)?;
                }
            }
            // probe_read, and probe_read_user, which becomes it
            4 | 112 => self.is_buffer(1, 2)?,
            // perf_event_output
            25 => {
                self.is(1, Known::Context)?;
                self.is(2, Known::Map)?;
                self.is_buffer(4, 5)?;
            }
            _ => {}
        }
        self.registers[..6].fill(Known::Nothing);
        self.registers[0] = if helper == 1 { Known::Found(at) } else { Known::Number };
        Ok(())
    }

    /// Carries out what is no jump.
    fn step(&mut self, instruction: &Instruction, relocated: bool) -> Result<(), String> {
        let (to, from) = (usize::from(instruction.destination), usize::from(instruction.source));
        let size = [4, 2, 1, 8][usize::from(instruction.code >> 3 & 3)];
        let at = i32::from(instruction.offset);
        match instruction.code & 7 {
            // 64 bits by two instructions
            0 => self.registers[to] = if relocated { Known::Map } else { Known::Number },
            1 => {
                self.registers[to] = match self.registers[from] {
                    Known::Frame(0) => self.read(at, size)?,
                    Known::Context | Known::Value => Known::Number,
                    other => return Err(format!("a read through r{from}, which is {other:?}")),
                }
            }
            class @ (2 | 3) => {
                let what = if class == 3 { self.registers[from] } else { Known::Number };
                match self.registers[to] {
                    _ if what == Known::Nothing => return Err(format!("r{from} is not set")),
                    Known::Frame(0) => self.write(at, size, what)?,
                    Known::Value => {}
                    other => return Err(format!("a write through r{to}, which is {other:?}")),
                }
            }
            class => {
                let (constant, wide) = (instruction.code & 8 == 0, class == 7);
                let other =
                    if constant { Known::Constant(instruction.immediate) } else { self.registers[from] };
                self.registers[to] = match (instruction.code & 0xf0, self.registers[to]) {
                    _ if other == Known::Nothing => return Err(format!("r{from} is not set")),
                    // a copy, or a constant
                    (0xb0, _) if constant || wide => other,
                    (0x00, Known::Frame(0)) if constant && wide => Known::Frame(instruction.immediate),
                    _ => Known::Number,
                };
            }
        }
        Ok(())
    }

    /// All copies of what a look-up gave.
    fn replace(&mut self, found: Known, known: Known) {
        self.registers
            .iter_mut()
            .filter(|register| **register == found)
            .for_each(|register| *register = known);
        let kept = if known == Known::Number { Slot::Written(u8::MAX) } else { Slot::Pointer(known) };
        self.stack.iter_mut().filter(|slot| **slot == Slot::Pointer(found)).for_each(|slot| *slot = kept);
    }

    /// What is known where a jump is not taken, and where it is; each `None` where that cannot be.
    fn branch(&self, instruction: &Instruction, kernel: Kernel) -> (Option<State>, Option<State>) {
        let register = usize::from(instruction.destination);
        let (equal, differs) = match (instruction.code & 0xf0, instruction.code & 8) {
            (0x10, 0) => (true, false),
            (0x50, 0) => (false, true),
            _ => return (Some(self.clone()), Some(self.clone())),
        };
        let knowing = |is_equal: bool| {
            let mut state = self.clone();
            state.registers[register] = match (self.registers[register], is_equal) {
                (Known::Constant(value), _) if (value == instruction.immediate) != is_equal => return None,
                (found @ Known::Found(_), _) if instruction.immediate == 0 && kernel == Kernel::V4_9 => {
                    state.replace(found, if is_equal { Known::Number } else { Known::Value });
                    return Some(state);
                }
                (Known::Found(_), false) if instruction.immediate == 0 => Known::Value,
                (before, false) => before,
                (_, true) => Known::Constant(instruction.immediate),
            };
            Some(state)
        };
        (knowing(!equal), knowing(!differs))
    }
}

/// Walks all ways through a program; how many instructions were looked at.
fn walk(program: &Program, kernel: Kernel) -> Result<usize, String> {
    let mut first = State { registers: [Known::Nothing; 11], stack: [Slot::Written(0); STACK as usize / 8] };
    first.registers[1] = Known::Context;
    first.registers[10] = Known::Frame(0);
    let mut good: HashMap<usize, Vec<State>> = HashMap::new();
    let mut ways = vec![(0, first)];
    let mut looked = 0;
    while let Some((mut at, mut state)) = ways.pop() {
        let mut is_landing = true;
        loop {
            if is_landing {
                let known = good.entry(at).or_default();
                if known.iter().any(|good| state.is_within(good)) {
                    break;
                }
                known.push(state.clone());
            }
            looked += 1;
            if looked > MAX_STEPS {
                return Err(format!("more than {MAX_STEPS} instructions on all ways"));
            }
            let instruction = &program.instructions[at];
            let failed = |what: String| format!("instruction {at}: {what}");
            let target = (at + 1).wrapping_add_signed(instruction.offset.into());
            is_landing = instruction.code & 7 == 5;
            match (instruction.code & 7, instruction.code & 0xf0) {
                (5, 0x90) => {
                    if state.registers[0] == Known::Nothing {
                        return Err(failed("nothing is returned".into()));
                    }
                    break;
                }
                (5, 0x80) => {
                    state.call(at, instruction.immediate).map_err(failed)?;
                    at += 1;
                }
                (5, 0x00) => at = target,
                (5, _) => {
                    let (on, away) = state.branch(instruction, kernel);
                    ways.extend(away.map(|state| (target, state)));
                    let Some(next) = on else { break };
                    state = next;
                    at += 1;
                }
                _ => {
                    state.step(instruction, program.relocated.contains(&at)).map_err(failed)?;
                    at += if instruction.code == 0x18 { 2 } else { 1 };
                }
            }
        }
    }
    Ok(looked)
}

#[test]
fn kernels_4_4_and_4_9_would_load_them() {
    let mut failed = Vec::new();
    for kernel in [Kernel::V4_4, Kernel::V4_9] {
        for program in programs() {
            failed.extend(
                walk(&program, kernel).err().map(|why| format!("{kernel:?}, {}: {why}", program.label)),
            );
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
