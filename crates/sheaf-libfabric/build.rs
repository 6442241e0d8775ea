//! Builds the shim of the transport over libfabric, where that is asked for; nothing otherwise.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "libfabric")]
    libfabric::build();
}

#[cfg(feature = "libfabric")]
mod libfabric {
    use std::process::Command;

    pub(super) fn build() {
        println!("cargo:rerun-if-changed=src/shim.c");
        println!("cargo:rerun-if-env-changed=PKG_CONFIG");
        println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
        let mut shim = cc::Build::new();
        shim.file("src/shim.c").warnings(true).extra_warnings(true);
        ask("--cflags").iter().for_each(|flag| {
            shim.flag(flag);
        });
        // The library itself is not linked: the shim loads it when it is needed.
        shim.compile("sheaf_fabric_shim");
    }

    /// Returns the answer of pkg-config about libfabric.
    fn ask(what: &str) -> Vec<String> {
        let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
        let answer = Command::new(&program).args([what, "libfabric >= 1.14"]).output();
        let answer = answer.unwrap_or_else(|error| {
            panic!("cannot run `{program}`, which the feature `libfabric` needs to find libfabric: {error}")
        });
        assert!(
            answer.status.success(),
            "the feature `libfabric` needs libfabric 1.14 or later with its headers (Debian: libfabric-dev); {program} says: {}",
            String::from_utf8_lossy(&answer.stderr)
        );
        String::from_utf8_lossy(&answer.stdout).split_whitespace().map(str::to_owned).collect()
    }
}
