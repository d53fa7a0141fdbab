//! System calls against this machine's kernel.

#[cfg(test)]
mod cgroups;
