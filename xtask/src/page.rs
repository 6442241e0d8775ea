//! The page of `sheaf-monitor`: type check, and tests in a browser.

use crate::{shell, workspace};
use anyhow::Result;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The folder of the checks. The page itself needs neither Node nor a package.
const FOLDER: &str = "tools/page";

/// Environment variable with the path of the browser for the tests, and the default path.
const BROWSER_VARIABLE: &str = "CHROMIUM";
const BROWSER: &str = "/usr/bin/chromium";

/// Environment variable with the path of the command for the test with a real run. Default: the newest one that is built.
const COMMAND_VARIABLE: &str = "SHEAF";

/// The oldest supported version of Node.
const OLDEST_NODE: u32 = 18;

/// `cargo xtask page`.
pub(crate) fn command() -> Result<()> {
    if let Some(reason) = obstacle() {
        println!("left out: the page, because {reason}");
        return Ok(());
    }
    // Registries are settings of the machine. Without one, nothing is known of the page; with a lock file that does not fit, neither, and
    // the error above says so.
    if let Err(error) = shell::run(&mut npm(&["ci", "--no-audit", "--no-fund", "--loglevel=error"])) {
        println!("left out: the page, because the packages for its checks cannot be installed: {error}");
        return Ok(());
    }
    shell::run(&mut npm(&["run", "--silent", "check"]))?;
    let browser = std::env::var_os(BROWSER_VARIABLE).map_or_else(|| BROWSER.into(), PathBuf::from);
    if !browser.is_file() {
        println!(
            "left out: tests of the page, because there is no Chromium at {}; name another with {BROWSER_VARIABLE}",
            browser.display()
        );
        return Ok(());
    }
    let mut tests = npm(&["test", "--silent"]);
    if std::env::var_os(COMMAND_VARIABLE).is_none()
        && let Some(sheaf) = built_command()?
    {
        tests.env(COMMAND_VARIABLE, sheaf);
    }
    shell::run(&mut tests)
}

/// Returns why nothing can be checked here.
fn obstacle() -> Option<String> {
    let Some(node) = version("node") else { return Some("there is no node".to_owned()) };
    if major(&node).is_none_or(|major| major < OLDEST_NODE) {
        return Some(format!("node {} is older than {OLDEST_NODE}", node.trim()));
    }
    version("npm").is_none().then(|| "there is no npm".to_owned())
}

/// Returns what a program prints as its version; `None` if it cannot be started.
fn version(program: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stderr(Stdio::null());
    shell::output(&mut command).ok()
}

/// Returns the first number of a version such as `v20.1.0`.
fn major(version: &str) -> Option<u32> {
    version.trim().trim_start_matches('v').split('.').next()?.parse().ok()
}

fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(workspace::root().join(FOLDER));
    command
}

/// Returns the command for the test with a real run, if one is built: the newest one.
fn built_command() -> Result<Option<PathBuf>> {
    let target = workspace::target_directory()?;
    let paths = ["debug/sheaf", "release/sheaf"].map(|path| target.join(path));
    let built_at = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified()).ok();
    Ok(paths.into_iter().filter(|path| path.is_file()).max_by_key(built_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_compared_by_their_first_number() {
        assert_eq!(major("v18.20.4\n"), Some(18));
        assert_eq!(major("20.1.0"), Some(20));
        assert_eq!(major("unknown"), None);
    }

    #[test]
    fn the_package_asks_for_the_same_version_of_node() {
        let package = std::fs::read_to_string(workspace::root().join(FOLDER).join("package.json"));
        let package: serde_json::Value =
            serde_json::from_str(&package.expect("it is there")).expect("it is JSON");
        assert_eq!(package["engines"]["node"], format!(">={OLDEST_NODE}"));
    }
}
