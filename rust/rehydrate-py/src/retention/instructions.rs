//! The rules that users lay down in a session, and whether they and the last turn are still there.
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rehydrate_core::retention::{binding_sentences, is_held, share_kept};

use super::message::{Body, Value, user_text};
use crate::convert::Text;
use crate::exit::Running;

/// The sentences of user turns that bind the rest of the session, each once.
#[pyfunction]
pub fn binding_instructions<'py>(messages: &Value<'py>) -> PyResult<Bound<'py, PyTuple>> {
    let _running = Running::begin();
    let turns = messages.try_iter()?.map(|message| user_text(&message?));
    PyTuple::new(messages.py(), binding_sentences(turns)?)
}

/// The share of these sentences that is still there, to the letter or in other words of one line; None if there are
/// none.
#[pyfunction]
pub fn instructions_kept(sentences: Vec<Text>, kept: &Value<'_>) -> PyResult<Option<f64>> {
    let _running = Running::begin();
    let sentences: Vec<String> = sentences.iter().map(|sentence| sentence.as_str().to_owned()).collect();
    let (mut whole, mut said) = (Vec::new(), Vec::new());
    for message in kept.try_iter()? {
        let body = Body::of(&message?)?;
        let text = body.text()?;
        if !body.is_result()? {
            said.push(text.clone());
        }
        whole.push(text);
    }
    Ok(share_kept(&sentences, &whole.join("\n"), &said.join("\n")))
}

/// Whether one of the messages holds a text, whatever the white space.
#[pyfunction]
pub fn is_turn_kept(turn: Text, kept: &Value<'_>) -> PyResult<bool> {
    let _running = Running::begin();
    let texts = kept.try_iter()?.map(|message| Body::of(&message?)?.text());
    Ok(is_held(turn.as_str(), &texts.collect::<PyResult<Vec<_>>>()?))
}
