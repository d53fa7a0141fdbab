//! How words become values, and what is said of those that do not.

use std::time::Duration;

use minimal_proto::State;

use super::Since;

pub(super) fn duration(
    text: &str,
) -> Result<Duration, minimal_proto::duration::ParseDurationError> {
    minimal_proto::duration::parse(text)
}

pub(super) fn size(text: &str) -> Result<u64, minimal_proto::size::ParseSizeError> {
    minimal_proto::size::parse(text)
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_not_one| format!("it is not a whole number from 0 to {}", u64::MAX))
}

pub(super) fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        Ok(_) | Err(_) => Err(format!("it is not a whole number from 1 to {}", u64::MAX)),
    }
}

pub(super) fn descriptor(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(number) if number >= 0 => Ok(number),
        Ok(_) | Err(_) => Err("it is not the number of a descriptor, from 0 on".to_owned()),
    }
}

pub(super) fn address(text: &str) -> Result<String, &'static str> {
    match text.is_empty() {
        true => Err("a box has no empty name"),
        false => Ok(text.to_owned()),
    }
}

pub(super) fn exec_address(text: &str) -> Result<String, &'static str> {
    match text.is_empty() {
        true => Err("an exec has no empty id"),
        false => Ok(text.to_owned()),
    }
}

pub(super) fn state(text: &str) -> Result<State, String> {
    State::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let known: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("no such state: one of {}", known.join(", "))
    })
}

pub(super) fn since(text: &str) -> Result<Since, String> {
    if let Ok(time) = text.parse() {
        return Ok(Since::Time(time));
    }
    match minimal_proto::duration::parse(text) {
        Ok(ago) => Ok(Since::Ago(ago)),
        Err(error) => Err(format!("neither a time such as 2026-01-02T03:04:05Z, nor: {error}")),
    }
}
