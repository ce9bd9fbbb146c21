//! A POSIX shell script.

/// A word of a command, in quotes if it needs them: the shell takes nothing in it for its own.
pub fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Words of a command.
pub fn words<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<String> = words.into_iter().map(|one| word(one.as_ref())).collect();
    words.join(" ")
}

/// Lines that read the one option of a script: without it, the script only shows what it would do.
pub const OPTION: &str = r#"write=
case "$#,${1-}" in
0,) ;;
1,--yes) write=yes ;;
*) echo "usage: $0 [--yes]" >&2; exit 2 ;;
esac
failed=0"#;

/// Lines that end a script.
pub const END: &str = r#"[ "$failed" = 0 ] || echo "$failed failed" >&2
[ "$failed" = 0 ]"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_shell_gets_each_word_as_it_is() {
        let odd = [
            "a",
            "",
            "it's",
            "$(reboot)`id`",
            "a b",
            "\\n",
            "*",
            "~",
            "!x",
            "#",
            "é",
            "'",
            "''",
            "-n",
            "\"",
            "{a}",
        ];
        assert_eq!(words(["put", "T:AO", "5"]), "put T:AO 5");
        let script = format!("printf '<%s>' {}", words(odd));
        let done = Command::new("sh").arg("-c").arg(script).output().unwrap();
        let expected: String = odd.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(String::from_utf8(done.stdout).unwrap(), expected);
    }
}
