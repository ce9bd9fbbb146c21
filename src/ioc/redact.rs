//! Removes secrets from an IOC's command line, and selects the variables of its environment that may be logged.
//!
//! A log is copied to other machines and read by people who have no access to /proc here. So a command line is kept,
//! but without values that follow `password`, `token`, `secret` or `key` in any notation, passwords in URLs, and
//! program text. A doubtful value is removed: `--monkey=7` loses its 7. A secret that is not marked as one (`-p
//! hunter2`) cannot be recognized; `--no-command-lines` leaves out everything.

/// Replaces removed text.
pub const REMOVED: &str = "***";

/// Names, in lower case, whose value is secret, wherever they occur in a word.
const SECRETS: [&str; 4] = ["password", "token", "secret", "key"];
/// The same, but only as a whole part of a word: too short to be searched for within words.
const SHORT_SECRETS: [&str; 5] = ["passwd", "passphrase", "pwd", "pass", "credentials"];

/// Variables that may be logged: those that EPICS Base and its PV Access document for how an IOC serves and finds PVs.
/// None of them holds a secret (`EPICS_PVA*_TLS_KEYCHAIN`, which may, is not among them).
pub const VARIABLES: [&str; 38] = [
    "EPICS_CAS_AUTO_BEACON_ADDR_LIST",
    "EPICS_CAS_BEACON_ADDR_LIST",
    "EPICS_CAS_BEACON_PERIOD",
    "EPICS_CAS_BEACON_PORT",
    "EPICS_CAS_IGNORE_ADDR_LIST",
    "EPICS_CAS_INTF_ADDR_LIST",
    "EPICS_CAS_SERVER_PORT",
    "EPICS_CAS_USE_HOST_NAMES",
    "EPICS_CA_ADDR_LIST",
    "EPICS_CA_AUTO_ADDR_LIST",
    "EPICS_CA_AUTO_ARRAY_BYTES",
    "EPICS_CA_BEACON_PERIOD",
    "EPICS_CA_CONN_TMO",
    "EPICS_CA_MAX_ARRAY_BYTES",
    "EPICS_CA_MAX_SEARCH_PERIOD",
    "EPICS_CA_MCAST_TTL",
    "EPICS_CA_NAME_SERVERS",
    "EPICS_CA_REPEATER_PORT",
    "EPICS_CA_SERVER_PORT",
    "EPICS_PVAS_AUTO_BEACON_ADDR_LIST",
    "EPICS_PVAS_BEACON_ADDR_LIST",
    "EPICS_PVAS_BEACON_PERIOD",
    "EPICS_PVAS_BROADCAST_PORT",
    "EPICS_PVAS_IGNORE_ADDR_LIST",
    "EPICS_PVAS_INTF_ADDR_LIST",
    "EPICS_PVAS_MAX_ARRAY_BYTES",
    "EPICS_PVAS_PROVIDER_NAMES",
    "EPICS_PVAS_SERVER_PORT",
    "EPICS_PVA_ADDR_LIST",
    "EPICS_PVA_AUTO_ADDR_LIST",
    "EPICS_PVA_BEACON_PERIOD",
    "EPICS_PVA_BROADCAST_PORT",
    "EPICS_PVA_CONN_TMO",
    "EPICS_PVA_DEBUG",
    "EPICS_PVA_INTF_ADDR_LIST",
    "EPICS_PVA_MAX_ARRAY_BYTES",
    "EPICS_PVA_NAME_SERVERS",
    "EPICS_PVA_SERVER_PORT",
];

/// Whether a variable may be logged.
pub fn is_logged(name: &str) -> bool {
    VARIABLES.contains(&name)
}

/// A command line without its secrets.
pub fn command(words: &[String]) -> Vec<String> {
    let code = crate::ioc::script::code(words);
    let mut redacted = Vec::with_capacity(words.len());
    let mut hide_next = false;
    for (place, word) in words.iter().enumerate() {
        if code == Some(place) {
            redacted.push(REMOVED.to_owned());
            continue;
        }
        if std::mem::take(&mut hide_next) && !word.starts_with("--") {
            redacted.push(REMOVED.to_owned());
            continue;
        }
        let (kept, next) = if place == 0 { (in_text(word), false) } else { argument(word) };
        hide_next = next;
        redacted.push(kept);
    }
    redacted
}

/// The word, and whether the next one is a secret.
fn argument(word: &str) -> (String, bool) {
    let name = word.trim_end_matches([':', '=']);
    let is_name = !name.contains(['=', ':', ' ']);
    let says_so = is_name && (name.starts_with('-') || name.len() < word.len()) && is_secret(name);
    (in_text(word), says_so || is_bare_secret(name))
}

/// `password hunter2`, without dashes.
fn is_bare_secret(word: &str) -> bool {
    SECRETS.iter().chain(&SHORT_SECRETS).any(|secret| word.eq_ignore_ascii_case(secret))
}

/// Whether a name marks its value as secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let parts = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    SECRETS.iter().any(|secret| name.contains(secret))
        || parts.into_iter().any(|part| SHORT_SECRETS.contains(&part))
}

/// Whether `key` occurs only within a longer word of it, and nothing else in it marks a secret.
fn is_only_like_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has_other = SECRETS.iter().any(|secret| *secret != "key" && name.contains(secret));
    let mut parts = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    !has_other && !parts.any(|part| part == "key" || SHORT_SECRETS.contains(&part))
}

/// A word, which may hold blanks and several name-value pairs, without the secret values.
fn in_text(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(place) = rest.find(['=', ':']) {
        let (before, after) = rest.split_at(place);
        if let Some(behind) = after.strip_prefix("://") {
            let end = behind.find(['/', ' ', '?', '#']).unwrap_or(behind.len());
            let (authority, tail) = behind.split_at(end);
            text.extend([before, "://", &without_password(authority)]);
            rest = tail;
            continue;
        }
        let (separator, value) = after.split_at(1);
        text.extend([before, separator]);
        rest = value;
        // the name precedes directly, without the quotes and blanks of program text and JSON
        let name = before.trim_end_matches([' ', '"', '\'']);
        let name =
            name.rsplit([' ', '"', '\'', ',', ';', '&', '?', '{', '(', '\t', '\n']).next().unwrap_or(name);
        // PV names have colons, too, and `key` occurs in names of manufacturers and places
        let of_pv = separator == ":" && !value.starts_with([' ', '"', '\'']);
        if is_secret(name) && !(of_pv && is_only_like_key(name)) {
            let (quote, length) = value_of(value);
            text.push_str(quote);
            if length > quote.len() {
                text.push_str(REMOVED);
            }
            rest = &value[length..];
        }
    }
    text.push_str(rest);
    text
}

/// The beginning of a value (blanks, a quote), and the value's length including it.
fn value_of(text: &str) -> (&str, usize) {
    let inner = text.trim_start_matches(' ');
    let blanks = text.len() - inner.len();
    for quote in ['"', '\''] {
        if let Some(quoted) = inner.strip_prefix(quote) {
            let end = quoted.find(quote).unwrap_or(quoted.len());
            return (&text[..blanks + 1], blanks + 1 + end);
        }
    }
    // a secret may contain anything but these
    let end = inner.find([' ', '&', '\t', '\n']).unwrap_or(inner.len());
    (&text[..blanks], blanks + end)
}

/// `user:password@host`
fn without_password(authority: &str) -> String {
    match authority.rsplit_once('@') {
        Some((who, host)) => match who.split_once(':') {
            Some((user, _)) => format!("{user}:{REMOVED}@{host}"),
            // a token alone, as for git; a user's name alone is lost with it
            None => format!("{REMOVED}@{host}"),
        },
        None => authority.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_testing::chance::{fuzz, mutate, Random};

    fn redacted(line: &[&str]) -> Vec<String> {
        command(&line.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn what_says_that_it_is_secret() {
        for (word, kept) in [
            ("--password=hunter2", "--password=***"),
            ("PASSWORD=hunter2", "PASSWORD=***"),
            ("-DTOKEN=hunter2", "-DTOKEN=***"),
            ("db_password=hunter2", "db_password=***"),
            ("--dbPassword=hunter2", "--dbPassword=***"),
            ("--api-key=hunter2", "--api-key=***"),
            ("Secret:hunter2", "Secret:***"),
            ("api-key:hunter2", "api-key:***"),
            ("--pass=hunter2", "--pass=***"),
            ("-Dmysql.pwd=hunter2", "-Dmysql.pwd=***"),
            ("--password=\"hunter2 and more\"", "--password=\"***\""),
            ("USER=op,PASSWORD=hunter2,more", "USER=op,PASSWORD=***"),
            ("http://host/get?token=hunter2&user=op", "http://host/get?token=***&user=op"),
            ("mysql://op:hunter2@db:3306/logs", "mysql://op:***@db:3306/logs"),
            ("postgres://op:hunter@2@db/logs", "postgres://op:***@db/logs"),
            ("https://hunter2@git.site/x", "https://***@git.site/x"),
            ("{\"token\": \"hunter2\", \"port\": 1}", "{\"token\": \"***\", \"port\": 1}"),
            ("password = 'hunter2'; port = 1", "password = '***'; port = 1"),
        ] {
            assert_eq!(redacted(&["ioc", word])[1], kept);
        }
    }

    #[test]
    fn the_word_behind() {
        assert_eq!(
            redacted(&["ioc", "--password", "hunter2", "st.cmd"]),
            ["ioc", "--password", "***", "st.cmd"]
        );
        assert_eq!(redacted(&["ioc", "-key", "hunter2"]), ["ioc", "-key", "***"]);
        assert_eq!(redacted(&["ioc", "--db_PassWord", "hunter2"]), ["ioc", "--db_PassWord", "***"]);
        assert_eq!(redacted(&["ioc", "token", "hunter2"]), ["ioc", "token", "***"]);
        assert_eq!(redacted(&["ioc", "password:", "hunter2"]), ["ioc", "password:", "***"]);
        assert_eq!(redacted(&["ioc", "--db-token=", "hunter2"]), ["ioc", "--db-token=", "***"]);
        assert_eq!(redacted(&["ioc", "--password", "-hunter2"]), ["ioc", "--password", "***"]);
        // a separate option follows, or nothing
        assert_eq!(redacted(&["ioc", "--no-password", "--port=1"]), ["ioc", "--no-password", "--port=1"]);
        assert_eq!(redacted(&["ioc", "--password"]), ["ioc", "--password"]);
    }

    #[test]
    fn the_rest_stays() {
        for line in [
            &["../../bin/linux-x86_64/vac", "st.cmd"][..],
            &["softIocPVA", "-m", "P=LI:VAC:,R=1", "-d", "vac.db"],
            &["ioc", "-m", "P=KEYENCE1:,R=TURKEY:POS"],
            &["ioc", "passive", "EPICS_CA_ADDR_LIST=10.0.0.1:5064", "http://host:80/x", "bypass"],
            &[],
        ] {
            assert_eq!(redacted(line), line);
        }
    }

    #[test]
    fn program_text() {
        assert_eq!(redacted(&["python3", "-c", "connect('hunter2')", "x"]), ["python3", "-c", "***", "x"]);
        assert_eq!(
            redacted(&["/usr/bin/python", "-uc", "connect('hunter2')"]),
            ["/usr/bin/python", "-uc", "***"]
        );
        assert_eq!(
            redacted(&["python3", "-m", "ioc", "-c", "x.cfg"]),
            ["python3", "-m", "ioc", "-c", "x.cfg"]
        );
    }

    #[test]
    fn variables_are_in_order_and_hold_no_secrets() {
        assert!(VARIABLES.is_sorted());
        assert!(VARIABLES.iter().all(|name| !is_secret(name)));
        let guide = include_str!("../../docs/operating.md");
        let documented: Vec<&str> =
            guide.split_ascii_whitespace().filter(|word| word.starts_with("EPICS_")).collect();
        assert_eq!(documented, VARIABLES, "the operating guide lists them");
        assert!(
            !is_logged("EPICS_PVAS_TLS_KEYCHAIN") && !is_logged("EPICS_CA_PASSWORD") && !is_logged("TOP")
        );
    }

    /// Whatever surrounds it.
    #[test]
    fn lines_that_were_changed() {
        let seeds = ["--x=1", "http://a:b@c/d?e=f", "{\"a\": \"b\"}", "A=b,C=d", "\u{fc}'\""];
        fuzz(5000, |random: &mut Random| {
            let mut bytes = seeds[random.below(seeds.len())].as_bytes().to_vec();
            mutate(random, &mut bytes);
            let noise = String::from_utf8_lossy(&bytes).into_owned();
            for word in [format!("--password=hunter2 {noise}"), format!("x {noise} --a_token=hunter2")] {
                let quoted = noise.contains(['"', '\'']);
                let kept = command(&["ioc".into(), word.clone()]).concat();
                assert!(quoted || !kept.contains("hunter2"), "{word}: {kept}");
            }
        });
    }
}
