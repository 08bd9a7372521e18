//! The store: what is added is there, once, whatever else happens to the file.
mod closing;
mod concurrency;
mod files;
mod fixture;
mod index;
mod items;
mod limits;
mod search;
mod short_processes;
