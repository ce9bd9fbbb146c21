//! The machine that a recording is made on, and the tier that it allows.

use iocrec_log::event::{Host, Tier, TierChoice};
use nix::sys::utsname::uname;

use crate::deaths::Lacks;
use crate::linux::clock;
use crate::probes::tiers::TierRequest;
use crate::recorder::error::HostError;

/// This machine.
///
/// # Errors
/// uname(2) fails: not on Linux.
pub fn host() -> Result<Host, HostError> {
    let names = uname().map_err(HostError)?;
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Ok(Host {
        name: text(names.nodename()),
        kernel: text(names.release()),
        arch: text(names.machine()),
        boot_id: boot_id.trim().into(),
        recorder: env!("CARGO_PKG_VERSION").into(),
        utc_offset: clock::utc_offset(),
    })
}

/// A tier's name, on the command line and for people.
pub fn name_of(tier: Tier) -> &'static str {
    match tier {
        Tier::Ring => "ring",
        Tier::Perf => "perf",
        Tier::Packet => "packet",
    }
}

/// A line for the user if the tier is lower than requested. A reason that two tiers share is given once.
pub fn lower_tier(request: TierRequest, choice: &TierChoice) -> Option<String> {
    let mut reasons: Vec<(String, &str)> = Vec::new();
    for (tier, reason) in &choice.refused {
        match reasons.last_mut() {
            Some((names, same)) if same == reason => *names = format!("{names} and {}", name_of(*tier)),
            _ => reasons.push((name_of(*tier).into(), reason)),
        }
    }
    let reasons: Vec<String> = reasons.iter().map(|(names, reason)| format!("{names}: {reason}")).collect();
    (!reasons.is_empty() && request != TierRequest::Only(choice.tier)).then(|| {
        format!("recording on the {} tier; refused were {}", name_of(choice.tier), reasons.join("; "))
    })
}

/// Lines for the user about what is not told of deaths, and why the log has no crashes and signals, if it has none. A
/// reason that the tier's choice has given is not repeated, nor what was asked for.
pub fn deaths_lack(
    request: TierRequest,
    choice: &TierChoice,
    is_open: bool,
    lacks: &[Lacks],
) -> (Vec<String>, Option<String>) {
    if is_open {
        let asked = request == TierRequest::Only(Tier::Perf);
        let parts =
            lacks.iter().filter(|lack| !(lack.is_refusal() || asked && matches!(lack, Lacks::Parts { .. })));
        return (parts.map(ToString::to_string).collect(), None);
    }
    let Some(why) = lacks.last().map(ToString::to_string) else {
        return (Vec::new(), Some("the packet tier has none".into()));
    };
    let is_new = choice.refused.iter().all(|(_, reason)| *reason != why);
    let line = is_new.then(|| format!("signals to IOCs and their crashes are not recorded: {why}"));
    (line.into_iter().collect(), Some(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_tier_that_was_asked_for_is_why_there_are_no_crashes() {
        let choice = TierChoice { tier: Tier::Packet, refused: Vec::new() };
        let (lines, why) = deaths_lack(TierRequest::Only(Tier::Packet), &choice, false, &[]);
        assert_eq!((lines, why.as_deref()), (Vec::new(), Some("the packet tier has none")));
        let (lines, why) = deaths_lack(TierRequest::Auto, &choice, true, &[]);
        assert_eq!((lines, why), (Vec::new(), None));
    }

    #[test]
    fn a_reason_that_two_tiers_share_is_given_once() {
        let refused = vec![(Tier::Ring, "no root".to_string()), (Tier::Perf, "no root".to_string())];
        let choice = TierChoice { tier: Tier::Packet, refused };
        assert_eq!(
            lower_tier(TierRequest::Auto, &choice).as_deref(),
            Some("recording on the packet tier; refused were ring and perf: no root")
        );
        assert_eq!(lower_tier(TierRequest::Only(Tier::Packet), &choice), None, "it is what was asked for");
        assert_eq!(
            lower_tier(TierRequest::Auto, &TierChoice { tier: Tier::Ring, refused: Vec::new() }),
            None
        );
    }
}
