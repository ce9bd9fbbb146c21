//! Chain sampling: hands the number of chains to keep to the BPF programs and to the log.

use std::time::Duration;

use iocrec_log::event::{ChainSampling, Fact};

use crate::recorder::chain_sampling::{in_words, Change, Sampler};
use crate::recorder::context::Context;
use crate::recorder::sources::{Resting, Source, UNTIL_WOKEN};

/// See the module.
pub struct Sampling(pub Sampler);

impl Sampling {
    /// Changes the number of chains to keep, if a change is due.
    fn step(&mut self, cx: &mut Context<'_>) {
        let (Some(maps), env) = (&mut cx.maps, &mut cx.env) else { return };
        let Some(Change { sampling, cause, aloud }) = self.0.step(env.now, env.sink.written()) else {
            return;
        };
        if let Err(reason) = maps.thin(sampling) {
            env.messages.push(format!("chain sampling could not be changed: {reason}"));
            return;
        }
        if aloud {
            env.messages.push(format!("{}: {cause}", in_words(sampling)));
        }
        let (chains, window) = sampling.map_or((0, 0), |sampling| (sampling.chains, sampling.window));
        let now = env.now;
        env.push(now, Fact::ChainSampling(ChainSampling { chains, window, cause }));
    }
}

impl Source for Sampling {
    fn begin(&mut self, cx: &mut Context<'_>) {
        self.step(cx);
    }

    fn take(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }

    fn rest(&mut self, _cx: &Resting<'_>) -> Duration {
        UNTIL_WOKEN
    }

    fn second(&mut self, cx: &mut Context<'_>) {
        self.step(cx);
    }
}
