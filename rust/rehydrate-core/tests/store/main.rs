//! The store: what is added is there, once, whatever else happens to the file.
#![cfg(feature = "store")]
mod closing;
mod crowds;
mod files;
mod finding;
mod fixture;
mod index;
mod items;
mod limits;
mod short_lives;
