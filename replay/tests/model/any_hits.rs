//! Hits in any order.

use super::*;

/// Whatever hits come, in whatever order, no chain is lost or made twice and nothing panics.
#[test]
fn any_hits_at_all() {
    // A simple generator: the same stories every time.
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..200 {
        let mut story = story();
        let (mut time, mut spans) = (SECOND, 0);
        for _ in 0..200 {
            time += random(3) * random(400 * MS);
            let (thread, sp) = (1 + random(9) as u32, -(random(20) as i64) * 50);
            let (record, v) = (1 + random(5) as u32, random(3) as f64);
            let from = SITES[random(8) as usize].1;
            match random(10) {
                0..3 => story.process(time, thread, sp, from, record),
                3..6 => story.complete(time, thread, sp, record, v),
                6 => story.put(time, PutKind::Put, thread, sp, from, record, v),
                7 => story.cause(time, thread, sp, CauseKind::ScanOnce, Some(record)),
                8 => story.link(time, thread, sp, record, "T:SP", v),
                _ => story.packet(time, 1 + random(3) as u32, 1 + random(5) as u32, random(2) == 0, v),
            };
            spans += usize::from(matches!(
                story.events.last().map(|event| &event.fact),
                Some(Fact::Process(_) | Fact::CaLinkPut(_))
            ));
        }
        fn count(chains: &[Chain]) -> usize {
            let of = |chain: &Chain| -> usize {
                chain
                    .spans
                    .iter()
                    .map(|span| match &span.kind {
                        SpanKind::Put(_) => 0,
                        SpanKind::Process(process) => {
                            usize::from(process.trigger != iocreplay::model::chain::Trigger::Completion)
                        }
                        SpanKind::Link(link) => {
                            1 + link.target.as_ref().map_or(0, |chain| count(std::slice::from_ref(chain)))
                        }
                    })
                    .sum()
            };
            chains.iter().map(of).sum()
        }
        let chains = story.in_order();
        assert_eq!(count(&chains), spans);
        for chain in &chains {
            assert!(chain
                .spans
                .iter()
                .enumerate()
                .all(|(n, span)| span.parent.is_none_or(|parent| parent < n)));
            assert!(chain.spans.iter().skip(1).all(|span| span.parent.is_some()));
            assert!(chain.spans.iter().all(|span| span.end >= span.start));
        }
    }
}
