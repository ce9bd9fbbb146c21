//! Tests of the compiled BPF objects, of those for every machine and tier, on any machine and without root: do they keep
//! the contract with the agent, and to what old kernels accept?

mod contract;
mod objects;
mod portability;
mod stack;
mod verifier_model;
