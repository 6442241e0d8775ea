//! The header agrees with the sources, and C and C++ compilers accept it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Sources whose types and functions are in the header. Modules of `src/lib.rs` are found from there.
const SOURCES: [&str; 4] = [
    "../sheaf-filter/src/abi.rs",
    "../sheaf-filter/src/abi/decoder_table.rs",
    "../sheaf-filter/src/abi/trigger_table.rs",
    "src/lib.rs",
];

#[test]
fn the_header_agrees_with_the_sources() {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = SOURCES.into_iter().fold(builder, |builder, path| builder.with_src(folder().join(path)));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    let text = String::from_utf8(text).unwrap();
    let path = folder().join("include/sheaf.h");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert_eq!(committed, text, "run `cargo xtask docs`");
}

/// Compiles a program as the language of `extension`. Does nothing if there is no such compiler.
fn compile(compiler: &str, standard: &str, extension: &str) {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("uses_the_header").with_extension(extension);
    let text = "#include <sheaf.h>\nint main(void) { return sizeof(SheafFilterTable) == 0; }\n";
    std::fs::write(&source, text).unwrap();
    let include = folder().join("include");
    let run = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"])
        .args([include.as_path(), Path::new(&source)])
        .output();
    match run {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => println!("skipped: there is no {compiler} here ({error})"),
    }
}

#[test]
fn a_c_compiler_accepts_the_header() {
    compile("cc", "-std=c11", "c");
}

#[test]
fn a_cpp_compiler_accepts_the_header() {
    compile("c++", "-std=c++17", "cpp");
}
