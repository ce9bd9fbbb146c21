//! Chains from made-up events: every rule of the engine, each on the smallest example.

mod any_hits;
mod asynchronous;
mod bounds;
mod ca_links;
mod causes;
mod clients;
mod ends;
mod outcome;
mod processing;
mod puts;
mod pvaccess;
mod scans;
mod story;

use iocrec_log::event::*;
use iocreplay::model::chain::{Chain, SpanKind};
use iocreplay::model::engine::Engine;
use iocreplay::model::order::Order;
use iocreplay::model::putlog::{each_put, PutLine};
use iocreplay::model::span_ids::{span_ids, trace_id};
use iocreplay::model::value;
use std::collections::{HashSet, VecDeque};
use std::net::Ipv4Addr;
use std::rc::Rc;
use story::*;
