//! Probes placed in an IOC, one function after the other, each looked at before.

use super::functions::{Function, FUNCTIONS};
use super::place::{place, Cost};
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

/// Looks at a function of an IOC.
///
/// # Errors
/// Why it is left out, in words.
pub fn target<'a>(ioc: &'a IocProcess, function: &Function) -> Result<Target<'a>, String> {
    let found = function.symbols.iter().find_map(|&symbol| Some((symbol, ioc.function(symbol)?)));
    let (symbol, (module, offset)) =
        found.ok_or_else(|| format!("{}: no such symbol", function.symbols[0]))?;
    let machine = module.elf.machine;
    if Some(machine) != super::architecture() {
        return Err(format!("{symbol}: code for another machine than the kernel's ({machine:?})"));
    }
    let place = place(machine, offset, &elf::code(&module.open, offset))
        .map_err(|reason| format!("{symbol}: {reason}"))?;
    if place.cost == Cost::Stepped && !function.core {
        return Err(format!("{symbol}: left out, the kernel would single-step its first instruction"));
    }
    Ok(Target { symbol, offset: offset + place.offset, module, cost: place.cost })
}

/// Places all probes; gives back what is not in place and why, a line each.
pub fn attach(kernel: &mut Kernel, ioc: &IocProcess, puts: bool, process: bool) -> Vec<String> {
    let wanted = |function: &&Function| if is_put(function) { puts } else { process };
    let place = |function: &Function| {
        let target = target(ioc, function)?;
        let attached = kernel.attach(function, target.module.file, &target.module.open, target.offset);
        attached.map_err(|reason| format!("{}: {reason}", target.symbol))
    };
    FUNCTIONS.iter().filter(wanted).map(place).filter_map(Result::err).collect()
}

/// Does the function put values (else process records)?
fn is_put(function: &Function) -> bool {
    matches!(function.program, "db_put" | "db_put_field" | "db_process_notify" | "db_ca_put_link_callback")
}
