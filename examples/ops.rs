//! Lists operators: `cargo run --release --example ops -- tanh add.Tensor` prints everything known about them; without
//! names, one line for each.

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let all = flambeau::registry::all();
    if names.is_empty() {
        for op in &all {
            println!("{}", op.schema_text);
        }
        println!("{} operators", all.len());
        return;
    }
    for name in names {
        let found: Vec<_> = all.iter().filter(|op| op.name() == name || op.full_name() == name).collect();
        if found.is_empty() {
            eprintln!("there is no operator '{name}'");
            std::process::exit(1);
        }
        for op in found {
            println!("{}", flambeau::registry::describe(op));
        }
    }
}
