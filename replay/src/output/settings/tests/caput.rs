//! The calls in the script. That they restore the values is tried on real IOCs (tests/e2e/scripts.rs).

use super::*;

#[test]
fn traps() {
    let one = Setting { rtype: "waveform".into(), ..setting("T:ONE", Dbf::NoAccess, Value::Int(4)) };
    let unknown = Setting { dbf: None, ..setting("T:X", Dbf::Long, Value::Int(3)) };
    let (script, _) = written(
        "caput",
        &[
            setting("T:AO", Dbf::Double, Value::Double(0.1)),
            setting("T:I64", Dbf::Int64, Value::Int(i64::MAX)),
            state("T:MODE", 1, &["Off", "On"]),
            text("T:STR", b"it's \\ $(x)"),
            long("T:LSO", b"long"),
            array("T:UCH", Dbf::UChar, 2, &[200, 1]),
            texts("T:WFS", &["a b", ""]),
            array("T:STATES", Dbf::Enum, 2, &[3, 0, 255, 255]),
            one,
            unknown,
            Setting { remark: Some("by alice\nreboot".into()), ..setting("T:R", Dbf::Long, Value::Int(1)) },
        ],
    );
    let calls: Vec<&str> = script.lines().skip_while(|line| !line.starts_with("restore T:AO")).collect();
    assert_eq!(
        calls[..12],
        [
            "restore T:AO '-g 17' 0.10000000000000001 T:AO 0.10000000000000001",
            "restore T:I64 -s 9223372036854775807 T:I64 9223372036854775807",
            "restore T:MODE -n 1 -n T:MODE 1",
            r"restore T:STR '-g 17' 'it\'\''s \\ $(x)' T:STR 'it'\''s \\ $(x)'",
            "restore 'T:LSO.$' -S long -S 'T:LSO.$' long",
            "restore T:UCH '-g 17 -# 2' '2 -56 1' -a T:UCH 2 -56 1",
            "restore T:WFS '-g 17 -# 2' '2 a b ' -a T:WFS 2 'a b' ''",
            "restore T:STATES '-n -# 2' '2 3 -1' -n -a T:STATES 2 3 65535",
            "restore T:ONE '-g 17 -# 1' '1 4' -a T:ONE 1 4",
            "restore T:X '-n -g 17' 3 -n T:X 3",
            "# by alice\\nreboot",
            "restore T:R '-g 17' 1 T:R 1",
        ]
    );
    let cut = "caput would cut its text after 39 characters, escapes included";
    for (setting, expected) in [
        (text("T", &[1; 39]), cut),
        (array("T", Dbf::Long, 0, b""), "caget can't show that an array is empty"),
        (setting("T", Dbf::Double, Value::Double(1e-320)), "caput refuses numbers so close to 0"),
        (Setting { read_only: true, ..setting("T", Dbf::Long, Value::Int(1)) }, "it is only read"),
    ] {
        assert_eq!(reason("caput", setting), expected);
    }
}
