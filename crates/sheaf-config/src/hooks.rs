//! Hooks: checks, and the time that they may take.

use crate::Config;
use crate::check::Checker;
use crate::codec::{Codec as _, name};
use crate::error::ErrorKind;
use crate::settings::{Hook, HookTransition};
use crate::tables::HOOKS;
use crate::text::shorten;
use sheaf_wire::Nanos;

impl Hook {
    /// Time between SIGTERM and SIGKILL for a command that is not done in time.
    pub const GRACE: Nanos = Nanos::from_secs(2);

    /// Returns whether a run is refused if the command fails.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.on == Some(HookTransition::BeforeStart) && self.required.unwrap_or(true)
    }
}

impl Config {
    /// Returns the hooks of a transition with their names, in the order in which they are called.
    pub fn hooks_at(&self, transition: HookTransition) -> impl Iterator<Item = (&str, &Hook)> {
        let hooks = self.hooks.iter().map(|(name, hook)| (name.as_str(), hook));
        hooks.filter(move |(_, hook)| hook.on == Some(transition))
    }

    /// Returns the longest time that the hooks of a transition take together.
    #[must_use]
    pub fn hook_time(&self, transition: HookTransition) -> Nanos {
        let each = self.hooks_at(transition).map(|(_, hook)| hook.timeout + Hook::GRACE);
        each.fold(Nanos::ZERO, |sum, time| sum + time)
    }
}

impl Checker<'_> {
    /// Each hook has a transition and a command, and hooks before a stop leave time for the stop.
    pub(crate) fn hooks(&mut self) {
        for (hook_name, hook) in &self.config.hooks {
            let table = format!("{HOOKS}.{hook_name}");
            let key = |knob: &str| format!("{table}.{knob}");
            if !name().accepts(hook_name) {
                let found = format!("`{}` cannot name a hook", shorten(hook_name));
                self.fail(ErrorKind::BadValue, &[&table], found, name().expected());
            }
            if hook.on.is_none() {
                let found = format!("[{}] has no `on`", shorten(&table));
                let right = "write the transition, such as `on = \"after_stop\"`";
                self.fail(ErrorKind::Missing, &[&key("on"), &table], found, right);
            }
            if hook.command.first().is_none_or(String::is_empty) {
                let found = format!("[{}] has no `command`", shorten(&table));
                let right = "write the program and its arguments, such as `command = [\"./logbook.sh\"]`";
                self.fail(ErrorKind::Missing, &[&key("command"), &table], found, right);
            }
            let other = hook.on.filter(|on| *on != HookTransition::BeforeStart);
            if let Some(on) = other.filter(|_| hook.required == Some(true)) {
                let found = format!("`{}` is true, but `{}` is \"{on}\"", key("required"), key("on"));
                let right = "only a hook before the start can be required: what has happened cannot be refused, and a stop always happens";
                self.fail(ErrorKind::Conflict, &[&key("required"), &key("on")], found, right);
            }
        }
        let (taken, limit) =
            (self.config.hook_time(HookTransition::BeforeStop), self.config.control.stop_timeout);
        let first = self.config.hooks_at(HookTransition::BeforeStop).next();
        if let Some((name, _)) = first.filter(|_| taken >= limit) {
            let key = format!("{HOOKS}.{name}.timeout_ms");
            let found = format!(
                "hooks before a stop may take {} ms together, and `control.stop_timeout_ms` is {} ms",
                taken.0 / 1_000_000,
                limit.0 / 1_000_000
            );
            let right = "shorten them or raise that limit: events in flight are dropped when it is over";
            self.fail(ErrorKind::Conflict, &[&key, "control.stop_timeout_ms"], found, right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_called_in_the_order_of_their_names_and_may_take_their_times_together() {
        let text = "[hook.b]\non = \"after_stop\"\ncommand = [\"b\"]\ntimeout_ms = 1000\n\
                    [hook.a]\non = \"after_stop\"\ncommand = [\"a\", \"\"]\ntimeout_ms = 500\n\
                    [hook.c]\non = \"before_start\"\ncommand = [\"c\"]\n\
                    [hook.d]\non = \"before_start\"\ncommand = [\"d\"]\nrequired = false\n";
        let config = Config::parse(text, "run.toml").expect("a valid configuration");
        let names: Vec<_> = config.hooks_at(HookTransition::AfterStop).map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(config.hook_time(HookTransition::AfterStop), Nanos::from_millis(1_500 + 2 * 2_000));
        assert_eq!(config.hook_time(HookTransition::BeforeStop), Nanos::ZERO);
        let required: Vec<_> = config.hooks.values().map(Hook::is_required).collect();
        assert_eq!(required, [false, false, true, false]);
        assert_eq!(Config::parse(&config.to_toml(), "again.toml"), Ok(config));
    }

    #[test]
    fn hooks_that_cannot_be_are_refused_with_a_correction() {
        let text = "[control]\nstop_timeout_ms = 5000\n[hook.a]\n[hook.b]\non = \"after_stop\"\ncommand = [\"\"]\nrequired = true\n\
                    [hook.\"c/d\"]\non = \"before_stop\"\ncommand = [\"c\"]\n[hook.e]\non = \"later\"\ncommand = [\"e\"]\n";
        let error = Config::parse(text, "run.toml").expect_err("it is wrong").to_string();
        assert!(error.contains("before_start"), "words are checked first:\n{error}");
        let error =
            Config::parse(&text.replace("later", "after_start"), "run.toml").expect_err("it is wrong");
        let error = error.to_string();
        for part in [
            "[hook.a] has no `on`",
            "[hook.a] has no `command`",
            "[hook.b] has no `command`",
            "`hook.b.required` is true, but `hook.b.on` is \"after_stop\"",
            "`c/d` cannot name a hook",
            "hooks before a stop may take 32000 ms together, and `control.stop_timeout_ms` is 5000 ms",
        ] {
            assert!(error.contains(part), "`{part}` is not in:\n{error}");
        }
    }
}
