//! IOCs with EPICS Base in the program, whatever symbols are left in it.

use crate::attaching::{checked, is_recorded};
use crate::rig::own::{Build, Own};
use crate::rig::spans::{shape, spans};
use crate::rig::Rig;
use serde_json::json;

const PORT: u16 = 5074;

/// A put to ONE:SP of first.db on a static IOC, as far as it has no other IOC to write to.
const CHAIN: &str = "\
caput ONE:SP
  process ONE:SP
    process ONE:CALC
      process ONE:FAN
        process ONE:A
          process ONE:A1
        process ONE:B
        process ONE:SLOW
          process ONE:LATE
          process ONE:AFTERSLOW
        process ONE:LINK
    process ONE:LAST
";

/// What Base from 3.15 on builds as static IOC: also when it is stripped it has its dynamic symbols.
#[test]
fn a_static_ioc_also_when_stripped() {
    for strip in [false, true] {
        let Some(rig) = Rig::new("linkage-static") else { return };
        let Some(own) = Own::build(&rig, Build::Static) else { return };
        if strip {
            own.strip();
        }
        let ioc = own.start(&rig, PORT, "first.db", &[]);
        let found = checked(&ioc);
        assert_eq!((&found["name"], &found["linkage"]), (&json!("own"), &json!("static")), "{found}");
        assert_eq!((&found["records"], &found["ca_ports"]), (&json!(16), &json!([PORT])), "{found}");
        assert!(
            found["base_version"].as_str().is_some_and(|version| version.starts_with("7.0.10")),
            "{found}"
        );
        is_recorded(&rig, &ioc);
        let spans = spans(&rig);
        let root = spans.iter().rfind(|span| span.name == "caput ONE:SP").expect("the put's tree");
        assert_eq!(shape(&spans, root), CHAIN);
    }
}

/// Nothing exported, but the table of symbols is there.
#[test]
fn a_static_ioc_that_exports_nothing() {
    let Some(rig) = Rig::new("linkage-hidden") else { return };
    let Some(own) = Own::build(&rig, Build::Hidden) else { return };
    let ioc = own.start(&rig, PORT, "first.db", &[]);
    assert_eq!(checked(&ioc)["linkage"], "static");
    is_recorded(&rig, &ioc);
}
