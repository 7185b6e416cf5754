//! The files of the page. They are part of the program.

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use crate::http::Answer;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! assets {
    ($($name:literal: $kind:expr,)*) => {
        /// Names, types and contents.
        const ASSETS: &[(&str, &str, &str)] = &[$(($name, $kind, include_str!(concat!("page/", $name)))),*];
    };
}

assets! {
    "index.html": "text/html; charset=utf-8",
    "style.css": STYLE,
    "main.js": SCRIPT,
    "api.js": SCRIPT,
    "dom.js": SCRIPT,
    "units.js": SCRIPT,
    "rates.js": SCRIPT,
    "history.js": SCRIPT,
    "graph.js": SCRIPT,
    "layers.js": SCRIPT,
    "charts.js": SCRIPT,
    "events.js": SCRIPT,
    "zones.js": SCRIPT,
    "conditions.js": SCRIPT,
    "zonemap.js": SCRIPT,
    "zonepaint.js": SCRIPT,
    "icon.svg": "image/svg+xml",
    "vendor/uPlot.esm.js": SCRIPT,
    "vendor/uPlot.min.css": STYLE,
    "vendor/LICENSE-uPlot": "text/plain; charset=utf-8",
}

/// The file at a path.
pub(super) fn asset(path: &str) -> Option<Answer> {
    let name = if path == "/" { "index.html" } else { path.strip_prefix('/')? };
    let (_, kind, content) = ASSETS.iter().find(|(of, ..)| *of == name)?;
    let mut answer = Response::new(Full::new(Bytes::from_static(content.as_bytes())));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `sha256sum` says of what others have written: it is as they published it.
    const VENDORED: [(&str, &str); 2] = [
        ("vendor/uPlot.esm.js", "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba"),
        ("vendor/uPlot.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
    ];

    #[test]
    fn the_library_of_charts_is_as_it_was_published_and_has_its_licence() {
        for (name, wanted) in VENDORED {
            let (.., content) = ASSETS.iter().find(|(of, ..)| *of == name).unwrap();
            let mut sum = std::process::Command::new("sha256sum")
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            std::io::Write::write_all(&mut sum.stdin.take().unwrap(), content.as_bytes()).unwrap();
            let said = String::from_utf8(sum.wait_with_output().unwrap().stdout).unwrap();
            assert!(said.starts_with(wanted), "{name}: {said}");
        }
        let (.., licence) = ASSETS.iter().find(|(of, ..)| of.contains("LICENSE")).unwrap();
        assert!(licence.contains("MIT License") && licence.contains("Leon Sorokin"));
    }

    /// The policy of contents forbids both; a page with either works nowhere but on the machine of who wrote it.
    #[test]
    fn the_page_has_no_script_or_style_of_its_own_and_writes_no_html() {
        for (name, _, content) in ASSETS.iter().filter(|(name, ..)| !name.starts_with("vendor/")) {
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", " onclick="]
            {
                assert!(!content.contains(forbidden), "{name} has {forbidden}");
            }
        }
        let (.., page) = ASSETS[0];
        assert!(
            !page.contains("<style")
                && page.matches("<script").count() == page.matches("<script type=\"module\" src=").count()
        );
    }

    #[test]
    fn every_file_that_a_script_imports_is_there() {
        for (name, _, content) in
            ASSETS.iter().filter(|(name, ..)| name.ends_with(".js") && !name.starts_with("vendor/"))
        {
            for from in content.split("from \"./").skip(1) {
                let import = from.split('"').next().unwrap();
                assert!(asset(&format!("/{import}")).is_some(), "{name} imports {import}");
            }
        }
    }
}
