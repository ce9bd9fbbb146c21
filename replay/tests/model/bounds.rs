//! What is held stays within bounds, whatever a log says.

use super::*;

/// Gives events to an engine and tells how many chains came out before the end.
fn given_before_the_end(story: &mut Story, events: impl Iterator<Item = Fact>) -> (usize, Vec<Chain>) {
    let mut engine = Engine::new(Rc::clone(&story.run));
    let mut out = Vec::new();
    events.for_each(|fact| engine.push(Event { time: SECOND, fact }, &mut out));
    let before = out.len();
    engine.finish(&mut out);
    (before, out)
}

#[test]
fn chains_do_not_pile_up_where_no_time_passes() {
    const COUNT: u32 = 400_000;
    let site = site("scanList");
    let scans = (0..COUNT)
        .map(|record| Fact::Process(Process { thread: SCAN, sp: -100, site, record, active: false }));
    let (before, all) = given_before_the_end(&mut story(), scans);
    assert_eq!(all.len(), COUNT as usize);
    // 250,000 spans, and what comes between two looks.
    assert!(before > COUNT as usize - 360_000, "{before}");
}

#[test]
fn long_values_count_for_more() {
    let texts = (0..4000).map(|number| {
        Fact::CaPut(CaPut {
            circuit: 1,
            channel: 1,
            notify: true,
            dbr: 4,
            count: 20_000,
            ioid: number,
            length: 20_000,
            payload: vec![0; 20_000],
        })
    });
    let mut story = story();
    // They are looked through after many events, or when time passes.
    let later = (0..100_000).map(|_| Fact::Mark(String::new()));
    let (before, all) = given_before_the_end(&mut story, texts.chain(later));
    assert!(before > 500 && all.len() == 4000, "{before} of {}", all.len());
}

/// A record that takes long to complete, while others are processed.
#[test]
fn what_lasts_longer_than_the_rest_can_be_held_comes_late_but_whole() {
    let mut story = story();
    story.process(0, CB_LOW, -100, "eventCallback", RB1);
    for turn in 1..=500 {
        story.process(turn * MS, SCAN, -100, "scanList", SP).complete(turn * MS + 1, SCAN, -200, SP, 1.0);
    }
    story.complete(600 * MS, CB_LOW, -200, RB1, 2.0);
    let mut engine = Engine::new(Rc::clone(&story.run));
    let (mut out, mut order, mut chains) = (Vec::new(), Order::holding(50), VecDeque::new());
    for event in story.events.drain(..) {
        engine.push(event, &mut out);
        out.drain(..).for_each(|chain| order.insert(chain));
        let settled = engine.oldest().unwrap_or(engine.now());
        order.release(story.run.wall(settled), &mut chains);
    }
    engine.finish(&mut out);
    out.drain(..).for_each(|chain| order.insert(chain));
    order.release(i64::MAX, &mut chains);
    assert_eq!(chains.len(), 501);
    assert_eq!(order.late(), 1);
    let place = chains.iter().position(|chain| sketch(chain, 0).starts_with("T:RB1 event = 2")).unwrap();
    assert!(place > 400, "{place}");
    let starts: Vec<u64> = chains.iter().filter_map(|chain| Some(chain.root()?.start)).collect();
    assert!(starts
        .iter()
        .enumerate()
        .all(|(n, start)| n == place || n == 0 || starts[n - 1] <= *start || n == place + 1));
}
