//! Everything that is kept of a run, and the file that it is kept in.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::options::Choice;
use crate::peer::is_ours;
use crate::plan::chosen_peers;
use crate::record::{Case, Record, Workload};
use crate::workload::load_curve::is_on_the_ladder;

/// All measurements of a run, and where they were taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    /// What the sizes were multiplied with.
    pub(crate) scale: f64,
    pub(crate) records: Vec<Record>,
}

impl Results {
    /// Reads what [`write`](Self::write) has written.
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(serde_json::from_str(&text)
            .map_err(|error| format!("{} is no result of compare: {error}", path.display()))?)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(path, text)
            .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
    }

    /// Those of the chosen workloads and peers.
    pub(crate) fn only(mut self, choice: &Choice) -> Result<Self, Box<dyn Error>> {
        let peers = chosen_peers(choice, false)?;
        self.records.retain(|record| {
            (choice.only.is_empty() || choice.only.contains(&record.case.workload))
                && peers.iter().any(|peer| peer.name == record.peer)
        });
        Ok(self)
    }

    /// The cases there are results of, in order; not those of W13 at which single peers were
    /// measured for their capacities.
    pub(crate) fn compared(&self) -> Vec<Case> {
        let single = |case: &Case| case.workload == Workload::W13 && !is_on_the_ladder(case);
        self.cases().into_iter().filter(|case| !single(case)).collect()
    }

    /// The cases there are results of, in order.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<_> = self.records.iter().map(|record| record.case).collect();
        cases.sort();
        cases.dedup();
        cases
    }

    /// The cases of one workload.
    pub(crate) fn cases_of(&self, workload: Workload) -> Vec<Case> {
        self.cases().into_iter().filter(|case| case.workload == workload).collect()
    }

    /// Whether there were no failures; those of others count only if `strict`.
    pub(crate) fn went_well(&self, strict: bool) -> bool {
        !self
            .records
            .iter()
            .any(|record| !record.outcome.problems.is_empty() && (strict || is_ours(&record.peer)))
    }
}
