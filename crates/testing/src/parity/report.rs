//! Counts of results by section, and a line for each failure.

use super::store::{Section, Store};
use super::target::Failure;
use std::collections::BTreeMap;
use std::fmt;

/// How a case went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It agreed.
    Pass,
    /// It gave something else, or refused.
    Fail,
    /// There is no such operator.
    Missing,
    /// This replay has no form for it.
    Unread,
}

/// How one case went in one section.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// Its name.
    pub id: String,
    /// What was checked.
    pub section: Section,
    /// How it went.
    pub status: Status,
    /// What went wrong.
    pub message: String,
    /// The call as a user would write it.
    pub reproduce: String,
}

impl CaseResult {
    /// Its name and section: forward cases report their strides as cases of their own.
    pub fn name(&self) -> String {
        let suffix = if self.section == Section::Strides { "#strides" } else { "" };
        format!("{}{suffix}", self.id)
    }
}

impl Failure {
    /// The status and message it is reported with.
    pub fn report(&self) -> (Status, String) {
        match self {
            Failure::Missing(what) => (Status::Missing, what.clone()),
            Failure::Raised(e) => (Status::Fail, format!("{e:?}")),
            Failure::Wrong(what) => (Status::Fail, what.clone()),
            Failure::Unread(what) => (Status::Unread, what.clone()),
        }
    }
}

/// Results of many files.
#[derive(Debug, Default)]
pub struct Report {
    /// How many cases went how, by section.
    pub counts: BTreeMap<Section, [usize; 4]>,
    /// Operators by name: passed, of how many.
    pub operators: BTreeMap<String, (usize, usize)>,
    /// Every case that did not pass.
    pub failures: Vec<CaseResult>,
}

impl Report {
    /// Adds the results of one file.
    pub fn add(&mut self, store: &Store, results: Vec<CaseResult>) {
        let operator = self.operators.entry(store.name.clone()).or_default();
        for r in results {
            self.counts.entry(r.section).or_default()[r.status as usize] += 1;
            operator.1 += 1;
            match r.status {
                Status::Pass => operator.0 += 1,
                _ => self.failures.push(r),
            }
        }
    }

    /// Adds the counts of another report.
    pub fn merge(&mut self, other: Report) {
        for (section, counts) in other.counts {
            let mine = self.counts.entry(section).or_default();
            mine.iter_mut().zip(counts).for_each(|(a, b)| *a += b);
        }
        for (name, (passed, all)) in other.operators {
            let mine = self.operators.entry(name).or_default();
            *mine = (mine.0 + passed, mine.1 + all);
        }
        self.failures.extend(other.failures);
    }

    /// How many cases passed, of how many.
    pub fn score(&self) -> (usize, usize) {
        let passed = self.counts.values().map(|c| c[0]).sum();
        (passed, self.counts.values().flatten().sum())
    }

    /// Missing operators with the number of cases that need each, most needed first.
    pub fn missing(&self) -> Vec<(String, usize)> {
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for f in self.failures.iter().filter(|f| f.status == Status::Missing) {
            *names.entry(&f.message).or_default() += 1;
        }
        let mut names: Vec<_> = names.into_iter().map(|(n, k)| (n.to_string(), k)).collect();
        names.sort_by_key(|(_, k)| std::cmp::Reverse(*k));
        names
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<10}{:>8}{:>8}{:>8}{:>8}{:>8}", "section", "total", "pass", "fail", "missing", "unread")?;
        for (section, c) in &self.counts {
            let total: usize = c.iter().sum();
            writeln!(f, "{:<10}{total:>8}{:>8}{:>8}{:>8}{:>8}", section.name(), c[0], c[1], c[2], c[3])?;
        }
        let (passed, all) = self.score();
        let tried = self.operators.values().filter(|(_, n)| *n > 0);
        let full = tried.clone().filter(|(p, n)| p == n).count();
        writeln!(f, "{passed} of {all} cases pass; all of {full} of {} operators", tried.count())?;
        for (name, count) in self.missing() {
            writeln!(f, "missing {count:>5}  {name}")?;
        }
        for r in self.failures.iter().filter(|r| r.status == Status::Fail) {
            writeln!(f, "FAIL {}: {}\n     {}", r.name(), r.message, r.reproduce)?;
        }
        Ok(())
    }
}
