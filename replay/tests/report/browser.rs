//! The page in a real browser.

use crate::chromium::{self, Chromium};
use crate::not_run::{not_run, Needs};
use crate::story;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

/// A page in a browser; the directory that it is in goes with it.
struct Opened {
    browser: Chromium,
    file: PathBuf,
    _directory: tempfile::TempDir,
}

/// Opens the report of the story; `None`, after saying so, where there is no browser.
fn opened(test: &str, size: (u32, u32)) -> Option<Opened> {
    let Some(program) = chromium::program() else {
        not_run(test, Needs::Program("chromium"));
        return None;
    };
    let directory = tempfile::tempdir().unwrap();
    story::report(directory.path());
    let file = directory.path().join("report.html");
    let mut browser = Chromium::start(program);
    browser.open(&file, size, "");
    Some(Opened { browser, file, _directory: directory })
}

fn puts_shown(browser: &mut Chromium) -> i64 {
    let text = browser.text("#sums");
    let number: String = text.split(" put").next().unwrap().chars().filter(char::is_ascii_digit).collect();
    number.parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn the_page_is_quiet_and_loads_nothing() {
    let Some(mut page) = opened("the_page_is_quiet_and_loads_nothing", (1440, 900)) else { return };
    let browser = &mut page.browser;
    assert_eq!(browser.eval("document.documentElement.dataset.ready"), "yes");
    // Everything is drawn once: every put is listed, every chain opened.
    browser.eval(
        "[...document.querySelectorAll('#chain-list li, #alarm-rows tr, #put-rows tr')].forEach(row => row.click())",
    );
    browser.settle();
    let file = format!("file://{}", page.file.display());
    let requests = browser.seen("Network.requestWillBeSent");
    let urls: Vec<&str> = requests.iter().filter_map(|request| request["request"]["url"].as_str()).collect();
    assert_eq!(urls, [file.as_str()]);
    for method in [
        "Runtime.consoleAPICalled",
        "Runtime.exceptionThrown",
        "Log.entryAdded",
        "Page.javascriptDialogOpening",
    ] {
        let seen = browser.seen(method);
        assert!(seen.is_empty(), "{method}: {seen:?}");
    }
    assert_eq!(
        browser
            .eval("document.images.length + document.querySelectorAll('iframe, object, embed, link').length"),
        0
    );
    // A policy that forbids what a hostile text would need.
    let blocked = "new Promise(done => { addEventListener('securitypolicyviolation', () => done('blocked')); \
                   const image = new Image(); image.src = 'data:image/png;base64,AA=='; setTimeout(() => done('loaded'), 3000); })";
    assert_eq!(browser.eval(blocked), "blocked");
}

#[test]
fn hostile_names_are_shown_as_they_are() {
    let Some(mut page) = opened("hostile_names_are_shown_as_they_are", (1440, 900)) else { return };
    let browser = &mut page.browser;
    browser.eval("document.getElementById('query').value = 'script>'; document.getElementById('query').dispatchEvent(new Event('input'))");
    browser.settle();
    assert_eq!(puts_shown(browser), 1);
    let row = browser.text("#put-rows tr");
    for text in [story::USER, story::TEXT, story::RECORD] {
        assert!(row.contains(text), "{text} in {row}");
    }
    let marks = browser.text("#moments");
    assert!(marks.contains(story::TEXT), "{marks}");
    assert_eq!(browser.eval("document.querySelectorAll('main b b, main img, main script').length"), 0);
}

#[test]
fn a_drag_chooses_a_time_and_backspace_restores() {
    let Some(mut page) = opened("a_drag_chooses_a_time_and_backspace_restores", (1280, 800)) else { return };
    let browser = &mut page.browser;
    let all = puts_shown(browser);
    let place = |browser: &mut Chromium, selector: &str| -> Vec<f64> {
        let script = format!("(() => {{ const b = document.querySelector({}).getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }})()", json!(selector));
        serde_json::from_value(browser.eval(&script)).unwrap()
    };
    let lanes = place(browser, "#lanes");
    let (y, x) = (lanes[1] + lanes[3] - 60.0, |part: f64| lanes[0] + 149.0 + (lanes[2] - 163.0) * part);
    browser.drag((x(0.0), y), (x(0.1), y));
    let few = puts_shown(browser);
    assert!(few > 0 && few < all, "{few} of {all}");
    let hash = browser.eval("location.hash").as_str().unwrap().to_owned();
    assert!(hash.starts_with("#t="), "{hash}");
    browser.press("Backspace");
    assert_eq!((puts_shown(browser), browser.eval("location.hash")), (all, Value::from("")));
    // On the overview, and on a plot.
    browser.drag((x(0.9), lanes[1] + 20.0), (x(0.99), lanes[1] + 20.0));
    let last = puts_shown(browser);
    assert!(last < all, "{last}");
    browser.press("Escape");
    browser.eval("document.getElementById('values').scrollIntoView({behavior: 'instant'})");
    browser.settle();
    let plot = place(browser, "#plots .u-over");
    let y = plot[1] + plot[3] / 2.0;
    browser.drag((plot[0] + 5.0, y), (plot[0] + plot[2] / 3.0, y));
    assert!(puts_shown(browser) < all);
    // The state behind the # is taken when the page is opened.
    let file = page.file.clone();
    browser.open(&file, (1280, 800), &hash);
    assert_eq!(puts_shown(browser), few);
    browser.open(&file, (1280, 800), "#t=x,y&put=99999999&chain=-3&user=1e9&kind=%&q=%E0%A4%A&zz");
    assert_eq!(puts_shown(browser), all, "what is wrong behind the # chooses nothing");
    assert!(browser.seen("Runtime.exceptionThrown").is_empty());
}

#[test]
fn the_keyboard_does_everything() {
    let Some(mut page) = opened("the_keyboard_does_everything", (1280, 800)) else { return };
    let browser = &mut page.browser;
    let chosen = |browser: &mut Chromium| {
        browser.eval("document.querySelector('#put-rows [aria-selected=true]')?.textContent || ''")
    };
    assert_eq!(chosen(browser), "");
    browser.press("j");
    let first = chosen(browser);
    browser.press("j");
    let second = chosen(browser);
    assert!(first != "" && second != first, "{first} {second}");
    assert_eq!(browser.eval("scrollY"), 0, "choosing a put never scrolls the page");
    browser.press("k");
    assert_eq!(chosen(browser), first);
    assert!(browser.eval("location.hash").as_str().unwrap().contains("put="));
    // Its chain is open.
    assert!(browser.text("#chain .title").contains("T:SP"));
    browser.press("/");
    assert_eq!(browser.eval("document.activeElement.id"), "query");
    browser.ask("Input.insertText", json!({"text": "R:FAR"}));
    browser.settle();
    assert_eq!(puts_shown(browser), 0);
    browser.press("Escape");
    browser.press("+");
    let half = browser.eval("location.hash").as_str().unwrap().to_owned();
    assert!(half.contains("t="), "{half}");
    browser.press("Escape");
    browser.press("?");
    assert_eq!(browser.eval("document.getElementById('keys').open"), true);
    browser.press("Escape");
    // A key moment by Enter.
    browser.eval("document.querySelector('#moments a').focus()");
    browser.press("Enter");
    browser.eval("document.activeElement.tagName === 'A' && document.activeElement.click()");
    browser.settle();
    assert!(browser.eval("location.hash").as_str().unwrap().contains("t="));
}

#[test]
fn chains_and_plots_show_what_the_log_holds() {
    let Some(mut page) = opened("chains_and_plots_show_what_the_log_holds", (1440, 900)) else { return };
    let browser = &mut page.browser;
    browser.eval("document.querySelector('#chain-list li').click()");
    browser.eval("[...document.querySelectorAll('#chain-list li')].find(row => row.textContent.includes('2 IOCs')).click()");
    browser.settle();
    let tree = browser.text("#tree");
    for part in
        ["T:SP", "T:CALC", "T:SLOW", "CA link", "⇢ second", "R:FAR", "MAJOR", "INVALID", "delayed by itself"]
    {
        assert!(tree.contains(part), "{part} in {tree}");
    }
    let rows = browser.eval("document.querySelectorAll('#tree [role=treeitem]').length").as_i64().unwrap();
    browser.eval("document.querySelector('#tree .fold').click()");
    assert_eq!(browser.eval("document.querySelectorAll('#tree [role=treeitem]').length"), 1, "of {rows}");
    let points = browser.eval("document.querySelector('[data-record=\"T:CALC\"]').dataset.points");
    assert_eq!(points, Value::from((story::VALUES + 1).to_string()));
    assert_eq!(
        browser.eval("[...document.querySelectorAll('#plots canvas')].every(canvas => canvas.width > 100)"),
        true
    );
    let alarms = browser.text("#alarm-rows");
    assert!(
        alarms.contains("T:CALC") && alarms.contains("scan.1 second") || alarms.contains("scan .1 second"),
        "{alarms}"
    );
}

/// The first and the last of the times in which processing is counted reach beyond the log.
#[test]
fn all_that_was_processed_is_counted() {
    let Some(mut page) = opened("all_that_was_processed_is_counted", (1440, 900)) else { return };
    let browser = &mut page.browser;
    let all = browser.eval(
        "JSON.parse(document.getElementById('data').textContent).iocs \
         .flatMap(ioc => ioc.bins ? ioc.bins[2] : []).filter(n => n > 0).reduce((a, b) => a + b, 0)",
    );
    let sums = browser.text("#sums");
    let shown: String = sums.rsplit('·').next().unwrap().chars().filter(char::is_ascii_digit).collect();
    assert_eq!(shown.parse().ok(), all.as_i64(), "{sums}");
}

/// Folded series stay apart from the puts that matter.
#[test]
fn scripts_are_folded() {
    let Some(mut page) = opened("scripts_are_folded", (1440, 900)) else { return };
    let browser = &mut page.browser;
    let fold = browser.text("#put-rows .fold");
    assert!(fold.contains("every 100 ms") || browser.text("#put-count").contains("folded"), "{fold}");
    let before = browser.eval("document.querySelectorAll('#put-rows tr').length").as_i64().unwrap();
    browser.eval("document.querySelector('.fold-button').click()");
    assert!(browser.eval("document.querySelectorAll('#put-rows tr').length").as_i64().unwrap() >= before);
    assert!(browser.text("#put-rows").contains("denied"));
}

#[test]
fn it_fits_and_has_two_themes() {
    let Some(mut page) = opened("it_fits_and_has_two_themes", (1280, 800)) else { return };
    let browser = &mut page.browser;
    for (width, height) in [(1280, 800), (1440, 900), (1920, 1080), (800, 600)] {
        browser.resize(width, height);
        browser.settle();
        let over = browser.eval("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
        assert!(over <= 0, "{width}: {over} px too wide");
    }
    browser.resize(1280, 800);
    let colour = |browser: &mut Chromium| browser.eval("getComputedStyle(document.body).backgroundColor");
    for (scheme, expected) in [("dark", "rgb(13, 16, 21)"), ("light", "rgb(246, 247, 249)")] {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.ask("Emulation.setEmulatedMedia", media);
        browser.settle();
        assert_eq!(colour(browser), expected);
    }
    browser.eval("document.getElementById('theme').click()");
    assert_eq!(colour(browser), "rgb(13, 16, 21)");
    // The first screen has the verdict, what is missing, the key moments and the begin of the timeline.
    for selector in [".verdict", "#missing", "#moments"] {
        let bottom = browser
            .eval(&format!("document.querySelector({}).getBoundingClientRect().bottom", json!(selector)));
        assert!(bottom.as_f64().unwrap() < 800.0, "{selector}: {bottom}");
    }
}

/// Contrast by WCAG 2: `ratio` of two colours that `parse` has read.
const CONTRAST: &str = r#"
    const parse = c => { const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
        const x = canvas.getContext('2d'); x.fillStyle = c; x.fillRect(0, 0, 1, 1); return [...x.getImageData(0, 0, 1, 1).data]; };
    const light = ([r, g, b]) => [r, g, b].map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ratio = (one, other) => { const [a, b] = [light(one), light(other)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
"#;

/// Asserts in both themes that this script, which has [`CONTRAST`], finds nothing.
fn finds_nothing(browser: &mut Chromium, script: &str) {
    let script = format!("(() => {{ {CONTRAST} {script} }})()");
    for theme in ["light", "dark"] {
        assert_eq!(browser.eval(&script), json!([]), "{theme}");
        browser.eval("document.getElementById('theme').click()");
        browser.settle();
    }
}

/// Contrast of text against what it stands on.
#[test]
fn text_can_be_read() {
    let Some(mut page) = opened("text_can_be_read", (1440, 900)) else { return };
    let script = r#"
        const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255]; };
        const worst = [];
        for (const e of document.querySelectorAll('main *, header *')) {
            const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
            if (!own || !e.getClientRects().length || e.closest('.severity.s3, i, option, #tree .right')) continue;
            const found = ratio(parse(getComputedStyle(e).color), behind(e));
            if (found < 4.5) worst.push(`${found.toFixed(2)} ${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 30)}`);
        }
        return [...new Set(worst)].slice(0, 10);
    "#;
    finds_nothing(&mut page.browser, script);
}

/// Contrast of marks against the cards that they are drawn on. MINOR's yellow is told by its outline.
#[test]
fn marks_can_be_seen() {
    let Some(mut page) = opened("marks_can_be_seen", (1440, 900)) else { return };
    let script = r#"
        const style = getComputedStyle(document.documentElement);
        const of = name => parse(style.getPropertyValue('--' + name).trim());
        const names = ['minor-edge', 'major', 'invalid', 'denied', 'accent', 'hatch', 'ioc1', 'ioc2', 'user1', 'user2', 'user3', 'user4', 'user5', 'user6'];
        const worst = names.filter(name => ratio(of(name), of('card')) < 3);
        const badge = document.createElement('span');
        badge.className = 'severity s1';
        document.querySelector('main').append(badge);
        const [r, g, b] = of('minor-edge');
        if (!getComputedStyle(badge).boxShadow.includes(`rgb(${r}, ${g}, ${b})`)) worst.push('MINOR has no outline');
        badge.remove();
        return worst;
    "#;
    finds_nothing(&mut page.browser, script);
}

#[test]
fn without_scripts_the_head_is_there() {
    let Some(mut page) = opened("without_scripts_the_head_is_there", (1280, 800)) else { return };
    let browser = &mut page.browser;
    browser.ask("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.ask("Page.reload", json!({}));
    // Scripts of the page are off; the protocol's own still run, but no frame is promised.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while browser.eval("document.readyState + document.documentElement?.classList.length") != "complete0" {
        assert!(std::time::Instant::now() < limit, "the page does not load");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let shown = browser.eval("document.body.innerText");
    let shown = shown.as_str().unwrap();
    for part in [
        "demo was killed by SIGKILL at 14:13:45.",
        "17 hits lost",
        "denied",
        "beam lost",
        "pid",
        "need JavaScript",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains("Keys"), "controls that do nothing: {shown}");
}

#[test]
fn on_paper_everything_is_open() {
    let Some(mut page) = opened("on_paper_everything_is_open", (1280, 800)) else { return };
    let browser = &mut page.browser;
    browser.eval("document.getElementById('theme').click()");
    let printed = browser.ask("Page.printToPDF", json!({"printBackground": true}));
    assert!(printed["data"].as_str().is_some_and(|pdf| pdf.starts_with("JVBERi")));
    browser.ask("Emulation.setEmulatedMedia", json!({"media": "print"}));
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    browser.settle();
    assert_eq!(browser.eval("getComputedStyle(document.body).backgroundColor"), "rgb(246, 247, 249)");
    for selector in ["#chain-list", "#by-user", "#help"] {
        let height = browser.eval(&format!("document.querySelector({}).offsetHeight", json!(selector)));
        assert_eq!(height, 0, "{selector}");
    }
    assert!(browser.text("#printed").starts_with("Shown: 14:13:21"));
    let cut = browser.eval("(() => { const s = document.getElementById('put-scroll'); return s.scrollHeight - s.clientHeight; })()");
    assert!(cut.as_i64().unwrap() <= 1, "{cut}");
}

/// Severities differ for people who see no green or no red, too: in lightness, not in hue alone.
#[test]
fn severities_differ_for_the_colour_blind() {
    let Some(mut page) = opened("severities_differ_for_the_colour_blind", (1440, 900)) else { return };
    let browser = &mut page.browser;
    // Machado, Oliveira and Fernandes 2009, severity 1: deuteranopia and protanopia.
    let script = r#"(() => {
        const style = getComputedStyle(document.documentElement);
        const parse = name => style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/g).map(v => parseInt(v, 16) / 255);
        const linear = v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        const kinds = [[0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881],
            [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998]];
        const light = (m, c) => { const [r, g, b] = c.map(linear); const p = [0, 3, 6].map(i => m[i] * r + m[i + 1] * g + m[i + 2] * b);
            return 0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2]; };
        let least = 99;
        for (const m of kinds) for (const [a, b] of [['--minor', '--major'], ['--minor', '--invalid']]) {
            const [x, y] = [light(m, parse(a)), light(m, parse(b))].sort((x, y) => y - x);
            least = Math.min(least, (x + 0.05) / (y + 0.05));
        }
        return least;
    })()"#;
    for theme in ["light", "dark"] {
        let least = browser.eval(script).as_f64().unwrap();
        assert!(least > 1.5, "{theme}: {least}");
        browser.eval("document.getElementById('theme').click()");
    }
    // MAJOR and INVALID differ by shape and stripes: both are drawn.
    let deficiency = json!({"type": "deuteranopia"});
    browser.ask("Emulation.setEmulatedVisionDeficiency", deficiency);
    assert!(browser.picture().len() > 37_000);
}

/// The picture in README.md: as it is told in RELEASING.md, of the report that $IOCREC_REPORT names, into $IOCREC_PICTURE.
#[test]
fn the_picture_of_a_report() {
    let size = (1280, 960);
    let Some(mut page) = opened("the_picture_of_a_report", size) else { return };
    let asked = std::env::var_os("IOCREC_REPORT").zip(std::env::var_os("IOCREC_PICTURE"));
    if let Some((report, _)) = &asked {
        page.browser.open(Path::new(report), size, "");
    }
    let picture = page.browser.picture();
    let number = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n") && picture.ends_with(b"IEND\xae\x42\x60\x82"));
    assert_eq!((number(16), number(20)), size);
    if let Some((_, file)) = asked {
        std::fs::write(file, picture).unwrap();
    }
}
