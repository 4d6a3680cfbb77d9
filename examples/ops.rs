//! Lists operators: `cargo run --release --example ops -- tanh add.Tensor` prints everything known about them; without
//! names, one line for each.

use flambeau::{Op, registry};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// What works in which dtype: found by calling every operator, and kept true by a test.
const TABLE: &str = include_str!("../docs/operators.md");

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    match print(&names, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever was reading has seen enough, as in `| head`.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn print(names: &[String], out: &mut impl Write) -> io::Result<()> {
    let all = registry::all();
    if names.is_empty() {
        for op in &all {
            writeln!(out, "{}", op.schema_text)?;
        }
        return writeln!(out, "{} operators", all.len());
    }
    for name in names {
        let found: Vec<_> = all.iter().filter(|op| op.name() == name || op.full_name() == name).collect();
        if found.is_empty() {
            return Err(io::Error::new(ErrorKind::NotFound, format!("there is no operator '{name}'")));
        }
        for op in found {
            write!(out, "{}", registry::describe(op))?;
            dtypes(op, out)?;
            if let Some(example) = flambeau::example::of(op) {
                writeln!(out, "\n{example}")?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// The dtypes that an operator takes on the CPU, and those in which it has derivatives.
fn dtypes(op: &'static Op, out: &mut impl Write) -> io::Result<()> {
    let Some((of, cells)) = row(op) else {
        return writeln!(out, "  dtypes       not listed: it has no examples of its own");
    };
    let note = if std::ptr::eq(of, op) { String::new() } else { format!(" (of {})", of.full_name()) };
    for (label, letter) in [("dtypes", 'f'), ("gradients", 'b'), ("forward mode", 'j')] {
        // Behind a space stand the letters that are refused, with the reason's number.
        let has = |cell: &str| cell.split(' ').next().is_some_and(|letters| letters.contains(letter));
        let names: Vec<&str> = cells.iter().filter(|(_, cell)| has(cell)).map(|(dtype, _)| *dtype).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        writeln!(out, "  {label:<12} {names}{note}")?;
    }
    Ok(())
}

/// An operator's row of the table, as dtypes with their cells, or that of the operator which it is another form of.
fn row(mut op: &'static Op) -> Option<(&'static Op, Vec<(&'static str, &'static str)>)> {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim);
    let mut head = TABLE.lines().skip_while(|line| !line.starts_with("| operator |"));
    let dtypes = cells(head.next()?).skip(1);
    loop {
        let start = format!("| `{}` |", op.full_name());
        if let Some(line) = TABLE.lines().find(|line| line.starts_with(&start)) {
            return Some((op, dtypes.zip(cells(line).skip(1)).collect()));
        }
        op = registry::form_of(op)?.1;
    }
}
