//! Sessions of one model: a pool of them, and one run of a batch.
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ort::ep;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{NoSelectedOutputs, RunOptions, Session};
use ort::value::{Tensor, TensorElementType};

use super::runtime::environment;
use crate::embed::verify_dim;
use crate::error::{Error, Result};

/// The pooling of token vectors, if the graph does not do it itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over the tokens.
    Mean,
    /// The vector of the first token.
    First,
}

/// The time that a thread waits for a session before it checks whether to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

/// The sessions of one model, lent one at a time.
#[derive(Debug)]
pub struct Sessions {
    path: PathBuf,
    pooling: Pooling,
    idle: Mutex<Vec<Session>>,
    returned: Condvar,
    process: u32,
}

impl Sessions {
    /// Load `count` sessions in parallel and try each on `probe`. Returns them and the dimension of a vector.
    pub fn load(path: &Path, count: usize, pooling: Pooling, probe: &[i64]) -> Result<(Self, usize)> {
        let loaded: Vec<Result<(Session, usize)>> = std::thread::scope(|scope| {
            let loading: Vec<_> = (0..count).map(|_| scope.spawn(|| load(path, pooling, probe))).collect();
            let panicked = || Err(unusable(path, "the binding of ONNX Runtime panicked on it"));
            loading.into_iter().map(|session| session.join().unwrap_or_else(|_| panicked())).collect()
        });
        let (idle, dims): (Vec<_>, Vec<_>) = loaded.into_iter().collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let sessions = Self {
            path: path.to_owned(),
            pooling,
            idle: Mutex::new(idle),
            returned: Condvar::new(),
            process: std::process::id(),
        };
        Ok((sessions, dims.first().copied().unwrap_or(0)))
    }

    /// Borrow a session, as soon as one is free; None once `stop` is set.
    pub fn lease(&self, stop: &AtomicBool) -> Option<Lease<'_>> {
        let mut idle = self.idle();
        while !stop.load(Ordering::Relaxed) {
            if let Some(session) = idle.pop() {
                return Some(Lease { session: Some(session), of: self });
            }
            let waited = self.returned.wait_timeout(idle, STOP_INTERVAL);
            idle = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        // Ending a session inherited through fork hung or crashed: let the child's exit take it.
        if self.process != std::process::id() {
            mem::forget(mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner)));
        }
    }
}

/// A session on loan; it goes back when dropped.
pub struct Lease<'a> {
    session: Option<Session>,
    of: &'a Sessions,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.of.idle().extend(self.session.take());
        self.of.returned.notify_one();
    }
}

impl Lease<'_> {
    /// The vectors of a batch of token ids, row after row, not yet of length 1.
    pub fn run(&mut self, batch: &[&[i64]], options: &RunOptions<NoSelectedOutputs>) -> Result<Vec<f32>> {
        let pooling = self.of.pooling;
        let Some(session) = self.session.as_mut() else { return Ok(Vec::new()) };
        run(session, batch, options, pooling).map_err(|problem| {
            let longest = batch.iter().map(|ids| ids.len()).max().unwrap_or(0);
            Error::ModelFile {
                path: self.of.path.display().to_string(),
                problem: format!("failed on {longest} tokens: {problem}"),
                remedy: "lower max_tokens if the model takes fewer, or get the model again".into(),
            }
        })
    }
}

fn run(
    session: &mut Session,
    batch: &[&[i64]],
    options: &RunOptions<NoSelectedOutputs>,
    pooling: Pooling,
) -> std::result::Result<Vec<f32>, String> {
    let width = batch.iter().map(|ids| ids.len()).max().unwrap_or(0);
    let shape = [batch.len(), width];
    let mut inputs = Vec::with_capacity(3);
    for input in session.inputs() {
        let mut values = vec![0_i64; batch.len() * width];
        for (row, ids) in values.chunks_exact_mut(width).zip(batch) {
            match input.name() {
                "input_ids" => row[..ids.len()].copy_from_slice(ids),
                "attention_mask" => row[..ids.len()].fill(1),
                _ => {} // token_type_ids: all of the first kind
            }
        }
        let tensor = Tensor::from_array((shape, values)).map_err(|error| error.to_string())?;
        inputs.push((input.name().to_owned(), tensor));
    }
    let outputs = session.run_with_options(inputs, options).map_err(|error| error.to_string())?;
    let output = outputs.get("sentence_embedding").unwrap_or(&outputs[0]);
    let (shape, values) = output.try_extract_tensor::<f32>().map_err(|error| error.to_string())?;
    match **shape {
        [rows, dim] if rows as usize == batch.len() && dim > 0 => Ok(values.to_vec()),
        [rows, tokens, dim] if (rows as usize, tokens as usize) == (batch.len(), width) && dim > 0 => {
            let dim = dim as usize;
            let pooled = values.chunks_exact(width * dim).zip(batch);
            Ok(pooled.flat_map(|(states, ids)| pool(states, ids.len(), dim, pooling)).collect())
        }
        _ => Err(format!("its output has the shape {:?}, expected [batch, dim] or [batch, tokens, dim]", &**shape)),
    }
}

/// The vector of a text's states. Its scale does not matter, since its length becomes 1 afterwards.
fn pool(states: &[f32], tokens: usize, dim: usize, pooling: Pooling) -> Vec<f32> {
    let counted = if pooling == Pooling::First { 1 } else { tokens };
    let mut sum = vec![0.0_f32; dim];
    for state in states.chunks_exact(dim).take(counted) {
        sum.iter_mut().zip(state).for_each(|(total, x)| *total += x);
    }
    sum
}

fn load(path: &Path, pooling: Pooling, probe: &[i64]) -> Result<(Session, usize)> {
    let mut session = build(path, environment()?).map_err(|error| unusable(path, &error.to_string()))?;
    for input in session.inputs() {
        let known = matches!(input.name(), "input_ids" | "attention_mask" | "token_type_ids");
        if !known || input.dtype().tensor_type() != Some(TensorElementType::Int64) {
            let problem = format!("its input {} is {}", input.name(), input.dtype());
            return Err(unusable(path, &(problem + ", expected int64 input_ids, attention_mask, token_type_ids")));
        }
    }
    if session.outputs().is_empty() {
        return Err(unusable(path, "it has no output"));
    }
    let options = RunOptions::new().map_err(|error| unusable(path, &error.to_string()))?;
    let vector = run(&mut session, &[probe], &options, pooling).map_err(|problem| unusable(path, &problem))?;
    verify_dim(vector.len()).map_err(|error| Error::ModelFile {
        path: path.display().to_string(),
        problem: format!("cannot be used as a model: {error}"),
        remedy: "get a model of fewer dimensions".into(),
    })?;
    Ok((session, vector.len()))
}

fn build(path: &Path, environment: &ort::environment::Environment) -> ort::Result<Session> {
    // One thread per session: two parallel sessions are faster than one of two threads (benches/python/bench_onnx.py).
    // Neither arena nor memory pattern: both keep memory for every shape ever seen, and texts have many.
    Session::builder(environment)?
        .with_execution_providers([ep::CPU::default().with_arena_allocator(false).build()])?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(1)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?
        .with_memory_pattern(false)?
        .commit_from_file(path)
}

fn unusable(path: &Path, problem: &str) -> Error {
    Error::ModelFile {
        path: path.display().to_string(),
        problem: format!("cannot be used as a model: {problem}"),
        remedy: "get or convert the model again".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_counts_for_nothing_in_the_mean_and_the_first_token_alone_in_cls() {
        let states = [1.0, 2.0, 3.0, 4.0, 900.0, 900.0];
        assert_eq!(pool(&states, 2, 2, Pooling::Mean), [4.0, 6.0]);
        assert_eq!(pool(&states, 2, 2, Pooling::First), [1.0, 2.0]);
    }
}
