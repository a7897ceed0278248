//! The report in a real browser, by the W3C WebDriver protocol. Needs chromium and chromedriver.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use riesz::{Column, ColumnKind, Explanation, Table};
use serde_json::{Value, json};

use crate::common::explanation;

struct Browser {
    driver: Child,
    base: String,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = ureq::delete(format!("{}/session/{}", self.base, self.session)).call();
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    fn start(profile: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test needs chromedriver: apt-get install chromium chromium-driver");
        let mut browser = Self { driver, base: format!("http://127.0.0.1:{port}"), session: String::new() };
        let deadline = Instant::now() + Duration::from_secs(30);
        while ureq::get(format!("{}/status", browser.base)).call().is_err() {
            assert!(Instant::now() < deadline, "chromedriver does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        let profile = format!("--user-data-dir={}", profile.display());
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
            &profile,
        ];
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": args },
        } } });
        let answer = send(&format!("{}/session", browser.base), &capabilities);
        browser.session = answer["sessionId"].as_str().expect("a session").to_string();
        browser
    }

    fn post(&self, path: &str, body: Value) -> Value {
        send(&format!("{}/session/{}/{path}", self.base, self.session), &body)
    }

    fn js(&self, script: &str) -> Value {
        self.post("execute/sync", json!({ "script": format!("return ({script})"), "args": [] }))
    }

    fn element(&self, css: &str) -> String {
        let reply = self.post("element", json!({ "using": "css selector", "value": css }));
        let id = reply.as_object().and_then(|o| o.values().next()).and_then(Value::as_str);
        id.unwrap_or_else(|| panic!("no element {css}: {reply}")).to_string()
    }

    fn click(&self, css: &str) {
        let id = self.element(css);
        self.post(&format!("element/{id}/click"), json!({}));
    }

    fn keys(&self, css: &str, text: &str) {
        let id = self.element(css);
        self.post(&format!("element/{id}/value"), json!({ "text": text }));
    }

    fn text(&self, css: &str) -> String {
        self.js(&format!("document.querySelector('{css}').textContent"))
            .as_str()
            .unwrap_or_default()
            .to_string()
    }
}

fn send(url: &str, body: &Value) -> Value {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .into();
    let mut response = agent
        .post(url)
        .header("content-type", "application/json")
        .send(body.to_string())
        .expect("chromedriver answers");
    let status = response.status();
    let text = response.body_mut().read_to_string().expect("an answer");
    assert!(status.is_success(), "{url}: {text}");
    serde_json::from_str::<Value>(&text).expect("JSON")["value"].clone()
}

#[test]
fn the_report_works_in_a_browser() {
    let folder = std::env::temp_dir().join(format!("riesz-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let page = folder.join("report.html");
    let explanation = explanation(60, &["age", "bmi", "</script><b>x"], 2);
    std::fs::write(&page, riesz_report::report(&explanation, &Default::default()).unwrap()).unwrap();
    let browser = Browser::start(&folder.join("profile"));
    browser.post("url", json!({ "url": format!("file://{}", page.display()) }));

    assert!(browser.text(".lead").contains("60 rows and 3 features"));
    assert!(browser.text(".exactness").contains("(proved limit"));
    for player in [0, 1] {
        browser.click(&format!(".output:not([hidden]) .wide [data-player='{player}'] > text"));
        assert_eq!(browser.text("#dependence-title"), format!("Dependence on {}", ["age", "bmi"][player]));
        assert_eq!(browser.js("document.querySelectorAll('#dependence-plot circle').length"), 60);
    }
    browser.keys("#search", "row:17");
    assert_eq!(browser.js("document.querySelectorAll('#table tbody tr').length"), 0);
    browser.js("document.getElementById('search').value = ''");
    browser.keys("#search", "17");
    assert_eq!(browser.text("#table tbody tr td"), "17");
    browser.click("#table tbody tr td");
    assert_eq!(browser.text("#waterfall-title"), "Row 17, step by step");
    assert!(browser.text("#waterfall-plot").contains("f(x) = "));
    assert!(browser.text("#waterfall-plot").contains("bmi = "));
    browser.js(
        "(() => { const s = document.getElementById('output'); s.value = 1; s.onchange({ target: s }); })()",
    );
    assert_eq!(browser.js("document.querySelectorAll('.output:not([hidden])').length"), 1);

    let paper = "getComputedStyle(document.body).backgroundColor";
    let before = browser.js(paper);
    browser.click("#theme");
    assert_ne!(browser.js(paper), before);

    let phone = json!({ "width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": true });
    let emulate = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": phone });
    browser.post("goog/cdp/execute", emulate);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(browser.js("innerWidth"), 360);
    assert_eq!(browser.js("document.documentElement.scrollWidth"), 360, "the page is wider than a phone");
    assert_eq!(browser.js("performance.getEntriesByType('resource').length"), 0, "the page loads something");
    let log = browser.post("se/log", json!({ "type": "browser" }));
    assert_eq!(log, json!([]), "the console is not empty");
    drop(browser);
    let _ = std::fs::remove_dir_all(&folder);
}

/// Returns two texts, whose features are words and one pair of words; the text is a column without a feature.
fn texts() -> Explanation {
    let mut e = explanation(2, &["good", "film", "not good"], 1);
    let levels = vec!["A film, not good <at all>".to_string(), "Good; good!".to_string()];
    let mut columns = e.data.columns().to_vec();
    columns.push(Column { name: "text".into(), kind: ColumnKind::Categorical { levels } });
    let counts = vec![1.0, 2.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0];
    e.data = Table::from_column_major(columns, 2, counts).unwrap();
    e.values = vec![1.0, -0.5, -2.0, 3.0, 0.0, 0.0];
    e.predictions = vec![0.0, 4.5];
    e
}

#[test]
fn words_of_texts_are_shaded_by_their_values() {
    let folder = std::env::temp_dir().join(format!("riesz-report-texts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let page = folder.join("report.html");
    std::fs::write(&page, riesz_report::report(&texts(), &Default::default()).unwrap()).unwrap();
    let browser = Browser::start(&folder.join("profile"));
    browser.post("url", json!({ "url": format!("file://{}", page.display()) }));
    assert_eq!(browser.text("#text"), "A film, not good <at all>");
    let marks = "[...document.querySelectorAll('#text mark')].map((m) => `${m.textContent} \
                 ${m.style.backgroundColor}`)";
    // "good" has the value of the word plus the pair's: 1 - 2; "not" has the pair's alone, the largest.
    let blue = |share: f64| format!("rgba(31, 111, 178, {share})");
    let expected = [("film", blue(0.176)), ("not", blue(0.7)), ("good", blue(0.35))];
    let expected: Vec<String> = expected.iter().map(|(word, colour)| format!("{word} {colour}")).collect();
    assert_eq!(browser.js(marks), json!(expected));
    assert_eq!(browser.js("document.querySelectorAll('#text mark')[2].title"), "not good: −2, good: +1");
    browser.click("#table tbody tr:nth-child(2) td");
    assert_eq!(browser.text("#text"), "Good; good!");
    assert_eq!(browser.js(marks), json!(["Good rgba(213, 94, 0, 0.7)", "good rgba(213, 94, 0, 0.7)"]));
    let log = browser.post("se/log", json!({ "type": "browser" }));
    assert_eq!(log, json!([]), "the console is not empty");
    drop(browser);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn pages_of_tables_have_no_text() {
    let page = riesz_report::report(&explanation(3, &["age", "text"], 1), &Default::default()).unwrap();
    assert!(page.contains("\"text\":null"));
}
