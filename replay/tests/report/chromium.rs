//! A headless Chromium, driven through a pipe by its own protocol (Chrome DevTools Protocol).
//!
//! Everything is bounded in time: an answer that does not come is a failure, and the browser is killed at the end.

use serde_json::{json, Value};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

/// Longer than anything takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Programs that are Chromium.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page.
pub struct Chromium {
    child: Child,
    input: ChildStdin,
    answers: Receiver<Value>,
    /// Events that came while something else was waited for.
    pub events: VecDeque<Value>,
    session: String,
    count: u64,
    _profile: tempfile::TempDir,
}

/// The program, if it is there.
pub fn program() -> Option<&'static str> {
    let path = std::env::var_os("PATH")?;
    let is_there = |name: &str| std::env::split_paths(&path).any(|directory| directory.join(name).exists());
    PROGRAMS.into_iter().find(|name| is_there(name))
}

impl Chromium {
    /// Starts it.
    pub fn start(program: &str) -> Chromium {
        let profile = tempfile::tempdir().unwrap();
        // The protocol's pipe is on descriptors 3 and 4.
        let script = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args([
                "-c",
                script,
                "sh",
                program,
                "--remote-debugging-pipe",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
            ])
            .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (tell, answers) = channel();
        std::thread::spawn(move || loop {
            let mut message = Vec::new();
            match output.read_until(0, &mut message) {
                Ok(0) | Err(_) => return,
                Ok(_) => message.pop(),
            };
            let Ok(message) = serde_json::from_slice(&message) else { return };
            if tell.send(message).is_err() {
                return;
            }
        });
        let (events, session) = (VecDeque::new(), String::new());
        let mut browser = Chromium { child, input, answers, events, session, count: 0, _profile: profile };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and returns its result.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.count += 1;
        let mut message = json!({"id": self.count, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        let limit = Instant::now() + PATIENCE;
        loop {
            let answer = self.next(limit, method);
            if answer["id"] == self.count {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push_back(answer);
        }
    }

    fn next(&mut self, limit: Instant, what: &str) -> Value {
        let left = limit.saturating_duration_since(Instant::now());
        self.answers
            .recv_timeout(left)
            .unwrap_or_else(|error| panic!("{what}: no answer of Chromium: {error}"))
    }

    /// Opens a file in a window of a size in pixels, and waits until it is loaded.
    pub fn open(&mut self, file: &Path, size: (u32, u32), hash: &str) {
        self.open_url(&format!("file://{}{hash}", file.display()), size);
    }

    /// Opens a page in a window of a size in pixels, and waits until it is loaded.
    pub fn open_url(&mut self, url: &str, (width, height): (u32, u32)) {
        self.resize(width, height);
        self.events.clear();
        // Another page in between, or only the part behind the # would change.
        self.ask("Page.navigate", json!({"url": "about:blank"}));
        self.events.clear();
        self.ask("Page.navigate", json!({"url": url}));
        let limit = Instant::now() + PATIENCE;
        while self.eval("document.readyState + (location.protocol === 'about:' ? '' : ' the page')")
            != "complete the page"
        {
            assert!(Instant::now() < limit, "the page does not load");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.settle();
    }

    /// What is seen of the page, as PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let picture = self.ask("Page.captureScreenshot", json!({"format": "png"}));
        from_base64(picture["data"].as_str().unwrap())
    }

    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// Waits until the page has been drawn.
    pub fn settle(&mut self) {
        let drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))";
        self.eval(drawn);
    }

    /// The value of an expression in the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let what = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.ask("Runtime.evaluate", what);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// The text of the element that a selector finds.
    pub fn text(&mut self, selector: &str) -> String {
        let expression = format!("document.querySelector({}).textContent", json!(selector));
        self.eval(&expression).as_str().unwrap_or_default().to_owned()
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        let code = match key {
            "Backspace" => 8,
            "Escape" => 27,
            "Enter" => 13,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code});
            self.ask("Input.dispatchKeyEvent", event);
        }
        self.settle();
    }

    /// Moves the pressed pointer from one place to another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
        for (kind, (x, y)) in [
            ("mouseMoved", from),
            ("mousePressed", from),
            ("mouseMoved", middle),
            ("mouseMoved", to),
            ("mouseReleased", to),
        ] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let held = u8::from(kind != "mouseReleased");
            let event =
                json!({"type": kind, "x": x, "y": y, "button": button, "buttons": held, "clickCount": 1});
            self.ask("Input.dispatchMouseEvent", event);
        }
        self.settle();
    }

    /// Events of a method that have come so far, with their parameters.
    pub fn seen(&mut self, method: &str) -> Vec<Value> {
        self.eval("1");
        let is = |event: &&Value| event["method"] == method;
        self.events.iter().filter(is).map(|event| event["params"].clone()).collect()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The shell has become the browser, so this is the browser itself; its children end with its pipe.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes that a text in base64 stands for.
fn from_base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes().take_while(|letter| *letter != b'=') {
        let value = LETTERS.iter().position(|known| *known == letter).expect("base64");
        bits = (bits << 6) | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
