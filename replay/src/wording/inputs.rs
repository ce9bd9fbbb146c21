//! What the inputs of a record tell of a change that no put made, in words, as `iocreplay why` weighs them.

use crate::model::inputs::From;
use crate::model::origins::{Cause, Inputs, Read, MAX_HOPS};
use crate::model::weighing::remark;
use crate::time::duration;
use std::fmt::Write as _;

/// Adds the cause, and what the inputs behind it tell.
pub fn push_all(text: &mut String, cause: &Cause, inputs: &[Inputs]) {
    push_cause(text, cause);
    for inputs in inputs {
        text.push_str("; ");
        push(text, inputs);
    }
}

/// What is known of the inputs of a record.
pub fn words(inputs: &Inputs) -> String {
    let mut text = String::new();
    push(&mut text, inputs);
    text
}

fn push(text: &mut String, inputs: &Inputs) {
    let record = &inputs.record;
    let causes = inputs.links.iter().filter(|read| read.may_be_the_cause()).count();
    let mut parts: Vec<String> = Vec::new();
    if let Some(unknown) = inputs.unknown {
        parts.push(format!("the inputs of {record} are not known: {unknown}"));
    }
    if inputs.none {
        parts.push(format!("no input link of {record} leads anywhere"));
    }
    if inputs.unchanged {
        parts.push(match inputs.since_before {
            true => format!("no input of {record} is known to have changed since it processed before"),
            false => format!("no change of an input of {record} was seen before it"),
        });
    }
    for (number, read) in inputs.links.iter().enumerate() {
        let told = of_input(read, inputs.device.as_deref());
        parts.push(match (causes > 1 && read.may_be_the_cause(), number) {
            (true, 0) => {
                format!("any of {causes} inputs of {record} may have been it, the latest first: ({told})")
            }
            (true, _) => format!("({told})"),
            (false, _) => told,
        });
    }
    if inputs.more > 0 {
        parts.push(format!("and {} more", inputs.more));
    }
    if let Some((age, field, cause)) = &inputs.put {
        let age = duration(u64::try_from(*age).unwrap_or(0));
        let mut told = format!("{record}.{field} was written {age} before: ");
        push_cause(&mut told, cause);
        parts.push(told);
    }
    text.push_str(&parts.join("; "));
}

fn of_input(read: &Read, support: Option<&str>) -> String {
    let Read { link, input, .. } = read;
    let support = support.map_or(String::new(), |name| format!(" (device support {name})"));
    let pv = match &input.from {
        From::Pv(pv) => pv,
        From::Device(device) => return format!("{link} reads a device, @{device}{support}"),
        From::Json(text) => return format!("{link} is {text}, which is not followed"),
        From::Hardware => return format!("{link} reads hardware whose address is not in the log{support}"),
    };
    let remark = remark(&input.field);
    let Some(cause) = read.cause.as_ref().filter(|_| read.may_be_the_cause()) else {
        let why = match read {
            Read { not_followed: true, .. } => "which was not looked for: too many inputs lead here",
            Read { elsewhere: true, .. } => "which is not in these logs",
            Read { forgotten: true, .. } => "which has changed too often since to tell what it did by then",
            _ => read.weighed.without_change(),
        };
        return format!("{link} reads {pv}, {why}{remark}");
    };
    let mut told = format!("{link} reads {pv}, {}{remark}: ", read.weighed.when(&read.changed, read.age));
    push_cause(&mut told, cause);
    for inputs in &read.behind {
        let _ = write!(told, "; {}", words(inputs));
    }
    told
}

/// A cause, and the CP links that led on from it.
pub fn push_cause(text: &mut String, cause: &Cause) {
    cause.text.push_to(text);
    if cause.through().is_empty() {
        return;
    }
    text.push_str(", by CP link of ");
    text.push_str(&cause.through().join(", "));
    if cause.through().len() >= MAX_HOPS {
        text.push_str(" and more");
    }
}
