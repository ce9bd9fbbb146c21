//! Answers the loop's requests.

use std::collections::HashSet;
use std::time::Duration;

use crate::ca::servers::{self, Server};
use crate::inspector::report::{CaServer, Finding, ProcessInfo, Report, ServedClient};
use crate::inspector::request::Request;
use crate::inspector::shared::Common;
use crate::ioc::clients::{clients, Client};
use crate::ioc::stack::Code;
use crate::ioc::IocProcess;
use crate::linux::elf::function_at;
use crate::linux::reader::Inspection;
use crate::linux::{diag, process, sockets};

/// Bytes to read for the answer to a request.
const MAX_BYTES: u64 = 96 << 20;
const MAX_TIME: Duration = Duration::from_secs(1);

/// Answers a request. If the process cannot be read the answer is empty.
pub(super) fn answer(common: &Common, request: Request) {
    let (pid, start) = request.ioc().map_or((0, 0), |ioc| (ioc.pid, ioc.start));
    let look = Inspection::begin(pid, MAX_BYTES, MAX_TIME);
    let finding = match request {
        Request::Servers { iocs, at_once, answered, only } => {
            // before the search, so that what begins to listen meanwhile is found the next time
            let listening = diag::listening();
            let before = std::mem::replace(&mut common.lock().listening, listening);
            let found = if !at_once && listening.is_some() && listening == before {
                Vec::new()
            } else {
                let found = servers::find(&|pid| iocs.contains(&pid), &answered, &only);
                // who serves is not known: the next search does not count on this one
                if found.is_err() {
                    common.lock().listening = None;
                }
                found.unwrap_or_default()
            };
            Finding::Servers(found.into_iter().filter_map(|server| described(server, &iocs)).collect())
        }
        Request::ServersAmong { iocs } => {
            let known = iocs.iter().copied().collect();
            let found = servers::of(&iocs).into_iter();
            Finding::ServersAmong(found.filter_map(|server| described(server, &known)).collect())
        }
        Request::Clients { ioc, ports } => {
            let threads = process::threads(pid).into_iter().collect();
            Finding::Clients(served(pid, clients(&ioc, &threads, None), &ports))
        }
        Request::ThreadClients { ioc, thread, tid, time, ports } => {
            let found = clients(&ioc, &HashSet::from([tid]), Some(tid));
            Finding::ThreadClients { thread, time, clients: served(pid, found, &ports) }
        }
        Request::CallSite { ioc, id, address } => {
            let (function, file) = call_site(&ioc, address);
            Finding::CallSite { id, function, file }
        }
        Request::Crash { ioc, number, ip, stack, from } => {
            let mut code = Code::of(&ioc);
            let place = code.place(ip);
            Finding::Crash { number, place, frames: code.return_addresses(&stack, from) }
        }
    };
    if look.end().is_some() && pid != 0 {
        common.lock().silent.insert(pid);
    }
    common.put_report(Report { pid, start, finding });
}
/// A server, described by /proc if it is not an IOC. `None` if it has ended.
fn described(server: Server, iocs: &HashSet<u32>) -> Option<CaServer> {
    let start = process::start(server.pid)?;
    let process = (!iocs.contains(&server.pid)).then(|| ProcessInfo::of(server.pid));
    Some(CaServer { server, start, process })
}

/// Sockets of a process that are listed at most: more than a server has clients, and their numbers take 2 MiB.
const MAX_SOCKETS: usize = 1 << 16;

/// The clients that are connected to one of these ports, each with the address that it is connected to.
fn served(pid: u32, clients: Vec<Client>, ports: &[u16]) -> Vec<ServedClient> {
    let connections = sockets::connections(pid);
    let held: HashSet<u64> = sockets::held(&process::directory(pid), MAX_SOCKETS).into_iter().collect();
    let served = clients.into_iter().filter_map(|client| {
        let server = sockets::local_end(&connections, client.address, ports, &held)?;
        Some(ServedClient { server, client })
    });
    served.collect()
}

/// The function that a return address lies in, and the name of its file; empty if unknown.
fn call_site(ioc: &IocProcess, address: u64) -> (String, String) {
    let module = ioc.module_at(address);
    // the return address points to the next instruction, which may belong to the next function
    let function = module.map(|module| function_at(&module.opened, address.wrapping_sub(module.bias + 1)));
    // also for code outside EPICS Base: a PVAccess server, a Python extension module
    let path = module.map(|module| module.path.clone()).or_else(|| {
        let mappings = process::mappings(ioc.pid).ok()?;
        Some(mappings.into_iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?.path)
    });
    let file = path.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_string();
    (function.unwrap_or_default(), file)
}
