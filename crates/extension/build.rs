//! Lets the linker keep one copy of functions whose machine code is the same, where it can: kernels of `i32` and `u32`,
//! or of any two dtypes of one width that are only moved, differ in nothing. Nothing in Flambeau compares addresses of
//! functions, which Rust does not promise to be distinct.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// An argument of `lld` (Rust's own linker on x86-64 Linux), `gold` and `mold`. GNU's `ld` has none like it.
const FOLD: &str = "-Wl,--icf=all";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTFLAGS");
    if linker_folds().unwrap_or(false) {
        println!("cargo::rustc-cdylib-link-arg={FOLD}");
    }
}

/// Whether this build's linker takes [`FOLD`]: found out by linking a library without contents.
fn linker_folds() -> Option<bool> {
    let folder = env::var_os("OUT_DIR")?;
    let source = Path::new(&folder).join("empty.rs");
    std::fs::write(&source, "").ok()?;
    let mut rustc = Command::new(env::var_os("RUSTC")?);
    rustc.args(["--crate-type", "cdylib", "--target"]).arg(env::var_os("TARGET")?);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.to_str()?));
    }
    rustc.args(env::var("CARGO_ENCODED_RUSTFLAGS").ok()?.split('\x1f').filter(|flag| !flag.is_empty()));
    rustc.args(["-C", &format!("link-arg={FOLD}"), "--out-dir"]).arg(&folder).arg(&source);
    Some(rustc.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?.success())
}
