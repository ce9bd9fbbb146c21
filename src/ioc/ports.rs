//! Finds the TCP ports on which an IOC serves Channel Access and PV Access.
//!
//! A listening socket does not reveal its purpose. Channel Access's port is certain: rsrv keeps it in `ca_server_port`,
//! even if the configured port was taken and it got another one. Any other port may be PV Access's if the process also
//! has the UDP socket on which PV Access servers are searched for; it is accepted if the environment names that port, or if it has
//! had PV Access before. The only other one is a guess: clients have that socket, too, and a web server may listen there.

use crate::ca::servers::Server;
use crate::ioc::module::addresses;
use crate::ioc::process::IocProcess;

/// Ports of PV Access unless the environment says otherwise (PV Access specification; EPICS_PVA_*).
const PVA_SERVER: u16 = 5075;
const PVA_SEARCH: u16 = 5076;

/// The Channel Access ports, the PV Access ports, and whether those are a guess.
pub type Divided = (Vec<u16>, Vec<u16>, bool);

/// Returns the ports of both. `known`: those that had PV Access when last looked at.
pub fn divide(ioc: &IocProcess, server: &Server, known: &[u16]) -> Divided {
    // 0 until the server has started; the program's copy of the variable comes first, as everywhere
    let ca_ports: Vec<u16> = addresses(&ioc.modules, "ca_server_port")
        .filter_map(|address| ioc.memory.bytes(address).map(u16::from_ne_bytes))
        .collect();
    let ca_port = ca_ports.iter().copied().find(|&port| port != 0).or(ca_ports.first().copied());
    let variable = |names: [&str; 2]| {
        let value = |name| ioc.environment.iter().find(|(found, _)| found == name);
        names.into_iter().find_map(|name| value(name)?.1.trim().parse().ok())
    };
    let search = variable(["EPICS_PVAS_BROADCAST_PORT", "EPICS_PVA_BROADCAST_PORT"]);
    let serve = variable(["EPICS_PVAS_SERVER_PORT", "EPICS_PVA_SERVER_PORT"]);
    let searched = server.udp.contains(&search.unwrap_or(PVA_SEARCH));
    divided(&server.ports, ca_port, searched.then_some(serve.unwrap_or(PVA_SERVER)), known)
}

/// `ca_port` is `None` if unknown, `pva_port` if no server of PV Access can be searched for.
fn divided(ports: &[u16], ca_port: Option<u16>, pva_port: Option<u16>, known: &[u16]) -> Divided {
    let mut left = ports.to_vec();
    let certain: Option<Vec<u16>> =
        ca_port.map(|port| left.extract_if(.., |&mut found| found == port).collect());
    let pva = match pva_port {
        Some(port) if left.contains(&port) => vec![port],
        Some(_) if certain.is_some() && left.len() == 1 => left.clone(),
        // whatever else listens; and the socket may be missing in a table of /proc that has changed while it was read
        _ => left.iter().copied().filter(|port| known.contains(port)).collect(),
    };
    left.retain(|port| !pva.contains(port));
    let is_guess =
        pva_port.is_some_and(|port| pva.iter().any(|found| *found != port && !known.contains(found)));
    // if nothing is certain, each of the others may serve Channel Access
    (certain.unwrap_or(left), pva, is_guess)
}

#[cfg(test)]
mod tests {
    use super::divided;

    #[test]
    fn what_is_certain_and_what_is_left() {
        let of = |ports: &[u16], ca_port, pva_port| {
            let (ca, pva, _) = divided(ports, ca_port, pva_port, &[]);
            (ca, pva)
        };
        let both = [5064, 5075];
        assert_eq!(of(&both, Some(5064), Some(5075)), (vec![5064], vec![5075]));
        // both had to take ports other than those configured
        assert_eq!(of(&[40001, 40002], Some(40002), Some(5075)), (vec![40002], vec![40001]));
        // the IOC serves something else as well
        assert_eq!(of(&[5064, 7001, 7002], Some(5064), Some(5075)), (vec![5064], vec![]));
        assert_eq!(of(&[5064, 5075, 7001], Some(5064), Some(5075)), (vec![5064], vec![5075]));
        assert_eq!(of(&[5064, 7001], Some(5064), None), (vec![5064], vec![]));
        // Channel Access has not started yet, or does not run here
        assert_eq!(of(&[7001], Some(0), None), (vec![], vec![]));
        assert_eq!(of(&[7001], Some(5064), None), (vec![], vec![]));
        // nothing is known of Channel Access
        assert_eq!(of(&both, None, Some(5075)), (vec![5064], vec![5075]));
        assert_eq!(of(&[5064], None, Some(5075)), (vec![5064], vec![]));
        assert_eq!(of(&both, None, None), (vec![5064, 5075], vec![]));
    }

    /// Else nothing of its circuits would be captured until the next look, and nobody would say so.
    #[test]
    fn who_listens_still_serves() {
        let both = [5064, 40001];
        assert_eq!(divided(&both, Some(5064), None, &[40001]), (vec![5064], vec![40001], false));
        assert_eq!(divided(&both, None, None, &[40001]), (vec![5064], vec![40001], false));
        assert_eq!(divided(&[5064], Some(5064), None, &[40001]), (vec![5064], vec![], false), "it has ended");
        let configured = divided(&[5064, 5075], Some(5064), Some(5075), &[40001]);
        assert_eq!(configured, (vec![5064], vec![5075], false));
        // a web server that the IOC has, too, or that it begins later
        let beside = divided(&[5064, 8080, 40001], Some(5064), Some(5075), &[40001]);
        assert_eq!(beside, (vec![5064], vec![40001], false));
    }

    /// A client of PV Access holds the socket for searches as well, and the port may be a web server's.
    #[test]
    fn the_only_other_port_is_a_guess() {
        let both = [5064, 8080];
        assert_eq!(divided(&both, Some(5064), Some(5075), &[]), (vec![5064], vec![8080], true));
        assert_eq!(divided(&both, Some(0), Some(5075), &[]), (vec![], vec![], false), "it may be either");
        assert_eq!(divided(&both, Some(5064), None, &[]), (vec![5064], vec![], false), "nobody searches");
        assert_eq!(divided(&both, Some(5064), Some(8080), &[]), (vec![5064], vec![8080], false));
    }
}
