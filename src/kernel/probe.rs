//! Probes placed in an IOC, one function after the other, each looked at before.

use super::functions::{Function, FUNCTIONS, ROUTINE};
use super::place::{place, place_for, Cost};
use super::Kernel;
use crate::ioc::{elf, IocProcess, Module};

/// Where a function's probe would go.
pub struct Target<'a> {
    /// Name of the function in this IOC.
    pub symbol: &'static str,
    /// What defines it.
    pub module: &'a Module,
    /// Offset in that file.
    pub offset: u64,
    /// What it costs there.
    pub cost: Cost,
}

/// What that means where `dbProcess` is missing.
const ROUTINES_ALONE: &str =
    ": of processing only the entry of records' process routines is recorded, without \
    what caused it or came of it";

/// Why nothing but process routines is probed in an IOC without symbols.
pub const NO_SYMBOLS: &str =
    "its program has no symbols: puts are taken from packets alone, and of processing only \
    the entry of records' process routines is recorded, without what caused it or came of it";

/// Looks at a function of an IOC.
///
/// # Errors
/// Why it is left out, in words.
pub fn target<'a>(ioc: &'a IocProcess, function: &Function) -> Result<Target<'a>, String> {
    let found = function.symbols.iter().find_map(|&symbol| Some((symbol, ioc.function(symbol)?)));
    let instead = if function.symbols == ["dbProcess"] { ROUTINES_ALONE } else { "" };
    let (symbol, (module, offset)) =
        found.ok_or_else(|| format!("{}: no such symbol{instead}", function.symbols[0]))?;
    let machine = module.elf.machine;
    if Some(machine) != super::architecture() {
        return Err(format!("{symbol}: code for another machine than the kernel's ({machine:?})"));
    }
    let place = place_for(machine, offset, &elf::code(&module.open(), offset), function.arguments())
        .map_err(|reason| format!("{symbol}: {reason}"))?;
    if place.cost == Cost::Stepped && !function.core {
        return Err(format!("{symbol}: left out, the kernel would single-step its first instruction"));
    }
    Ok(Target { symbol, offset: offset + place.offset, module, cost: place.cost })
}

/// Where the probes on the process routines of an IOC's record types go, where its `dbProcess` cannot be found; and
/// why which are left out, a line each. Nothing where `dbProcess` is there, or as long as the record types are
/// not known.
pub fn routines(ioc: &IocProcess) -> (Vec<Target<'_>>, Vec<String>) {
    let (mut targets, mut left_out) = (Vec::new(), Vec::new());
    let layout = ioc.layout.as_ref().ok().filter(|_| ioc.function("dbProcess").is_none());
    for (rtype, address) in layout.into_iter().flat_map(|layout| layout.routines(&ioc.memory)) {
        let symbol = ROUTINE.symbols[0];
        let place_of = || {
            let module = ioc.module_at(address).ok_or("its code is in no file that is known")?;
            let offset = module.elf.code_offset(address.wrapping_sub(module.bias)).ok_or("it is no code")?;
            let machine = module.elf.machine;
            if Some(machine) != super::architecture() {
                return Err(format!("code for another machine than the kernel's ({machine:?})"));
            }
            let place = place(machine, offset, &elf::code(&module.open(), offset))?;
            Ok(Target { symbol, module, offset: offset + place.offset, cost: place.cost })
        };
        match place_of() {
            Ok(target) => targets.push(target),
            Err(reason) => left_out.push(format!("{symbol} of {rtype}: {reason}")),
        }
    }
    (targets, left_out)
}

/// Places those probes; a line for each that is not in place.
pub fn attach_routines(kernel: &mut Kernel, ioc: &IocProcess) -> Vec<String> {
    let (targets, mut left_out) = routines(ioc);
    for target in targets {
        let attached = kernel.attach(&ROUTINE, target.module.file, &target.module.open(), target.offset);
        left_out.extend(attached.err().map(|reason| format!("{}: {reason}", target.symbol)));
    }
    left_out
}

/// Places all probes; gives back how many are in place, and what is not and why, a line each.
pub fn attach(kernel: &mut Kernel, ioc: &IocProcess, puts: bool, process: bool) -> (usize, Vec<String>) {
    if ioc.is_hidden() {
        return (0, vec![NO_SYMBOLS.into()]);
    }
    let wanted = |function: &&Function| if is_put(function) { puts } else { process };
    let place = |function: &Function| {
        let target = target(ioc, function)?;
        let attached = kernel.attach(function, target.module.file, &target.module.open(), target.offset);
        attached.map_err(|reason| format!("{}: {reason}", target.symbol))
    };
    let (placed, left_out): (Vec<_>, Vec<_>) =
        FUNCTIONS.iter().filter(wanted).map(place).partition(Result::is_ok);
    (placed.len(), left_out.into_iter().filter_map(Result::err).collect())
}

/// Does the function put values (else process records)?
fn is_put(function: &Function) -> bool {
    matches!(function.program, "db_put" | "db_put_field" | "db_process_notify" | "db_ca_put_link_callback")
}
