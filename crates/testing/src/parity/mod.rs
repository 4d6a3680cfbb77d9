//! Replays recorded operator calls: inputs, arguments and expected results of PyTorch's own operator database.
//!
//! [`Store`] reads one data file; [`Target`] is what a library has to offer to be compared; [`replay`] runs the cases
//! of a file against it and [`Report`] counts them by section. [`resolve`] picks an operator's overload from untyped
//! arguments by its schemas, as a front end must.
//!
//! ```no_run
//! # fn run(target: &impl flambeau_testing::parity::Target) -> flambeau_base::Result<()> {
//! use flambeau_testing::parity::{Report, Selection, Store, replay};
//! let mut report = Report::default();
//! let store = Store::open("data/parity/add.zip")?;
//! report.add(&store, replay(target, &store, &Selection::default()));
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! What is not here: decompositions (their results are compared up to phases, which needs linear algebra) and sparse
//! tensors. Cases that need either are counted as [`Status::Unread`], never as passed.

mod array;
mod call;
mod compare;
mod flambeau;
mod functional;
mod replay;
mod report;
pub mod resolve;
mod store;
mod target;
mod value;

pub use array::{Array, Numbers, pseudo};
pub use call::{Arguments, call, operator_of};
pub use compare::{check_close, tolerance};
pub use flambeau::Flambeau;
pub use replay::{Selection, replay};
pub use report::{CaseResult, Report, Status};
pub use store::{Case, Compare, Entry, Expectation, OutMode, Sample, Section, Statistics, Step, Store};
pub use target::{Description, Failure, Outcome, Target};
pub use value::{Recorded, Value};
