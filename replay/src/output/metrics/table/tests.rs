//! What a table of a log that grows has as news.

use super::*;
use crate::time::SECOND;

const S: i64 = SECOND as i64;

/// Takes a put and the number of threads of an IOC at a second.
fn take(table: &mut Table, of: &Rc<Resource>, at: i64, threads: f64) {
    table.take(Metric::Puts, of, vec![("via", "ca_write".into())], at * S, 1.0).unwrap();
    table.take(Metric::Threads, of, Vec::new(), at * S, threads).unwrap();
}

fn resource(ioc: &str) -> Rc<Resource> {
    let (host, ioc) = ("box1".to_owned(), ioc.to_owned());
    Rc::new(Resource { attributes: Vec::new(), host, ioc, pid: None, started: None })
}

/// The news: metric, start, time and number.
fn news(table: &mut Table) -> Vec<(&'static str, Option<i64>, i64, f64)> {
    let of = |point: Point| {
        let start = point.start.map(|start| start / S);
        (point.metric.family().name, start, point.time / S, point.number)
    };
    table.news().into_iter().map(of).collect()
}

#[test]
fn news_come_once() {
    let (mut table, ioc) = (Table::live(None), resource("demo"));
    assert_eq!(news(&mut table), []);
    take(&mut table, &ioc, 100, 7.0);
    take(&mut table, &ioc, 101, 8.0);
    let (puts, threads) = ("epics.ioc.puts", "epics.ioc.threads");
    assert_eq!(news(&mut table), [(puts, Some(100), 101, 2.0), (threads, None, 101, 8.0)]);
    assert_eq!(news(&mut table), []);
    // a chain that took long: it counts, but the sum is that of the last moment
    table.take(Metric::Puts, &ioc, vec![("via", "ca_write".into())], 80 * S, 1.0).unwrap();
    assert_eq!(news(&mut table), []);
    take(&mut table, &ioc, 102, 8.0);
    assert_eq!(news(&mut table), [(puts, Some(100), 102, 4.0), (threads, None, 102, 8.0)]);
}

/// A chain that was open for as long as one may be comes when it is over, with the time at which it began.
#[test]
fn a_long_chain_sets_no_clock_back() {
    let (mut table, ioc) = (Table::live(None), resource("demo"));
    take(&mut table, &ioc, 1000, 7.0);
    let begun = LIMIT as i64 / S;
    take(&mut table, &ioc, 1000 + begun, 8.0);
    let (puts, threads) = ("epics.ioc.puts", "epics.ioc.threads");
    let last = (threads, None, 1000 + begun, 8.0);
    assert_eq!(news(&mut table), [(puts, Some(1000), 1000 + begun, 2.0), last]);
    table.take(Metric::Puts, &ioc, vec![("via", "ca_write".into())], 999 * S, 1.0).unwrap();
    assert_eq!(news(&mut table), [], "the sum is that of the last moment, which was given");
    take(&mut table, &ioc, 1001 + begun, 9.0);
    let last = (threads, None, 1001 + begun, 9.0);
    assert_eq!(news(&mut table), [(puts, Some(1000), 1001 + begun, 4.0), last]);
}

#[test]
fn a_host_has_news_when_one_of_its_iocs_has() {
    let (mut table, ioc, host) = (Table::live(None), resource("demo"), resource(""));
    table.take(Metric::Marks, &host, Vec::new(), 100 * S, 1.0).unwrap();
    assert_eq!(news(&mut table), [("iocrec.marks", Some(100), 100, 1.0)]);
    table.take(Metric::Threads, &ioc, Vec::new(), 110 * S, 7.0).unwrap();
    let marks = ("iocrec.marks", Some(100), 110, 1.0);
    assert_eq!(news(&mut table), [("epics.ioc.threads", None, 110, 7.0), marks]);
}

#[test]
fn a_clock_that_is_set_back_holds_up_nothing() {
    let (mut table, ioc) = (Table::live(None), resource("demo"));
    take(&mut table, &ioc, 5000, 7.0);
    table.take(Metric::Marks, &resource(""), Vec::new(), 4990 * S, 1.0).unwrap();
    table.take(Metric::Ends, &resource("other"), Vec::new(), 5001 * S, 1.0).unwrap();
    assert_eq!(news(&mut table).len(), 4);
    take(&mut table, &ioc, 1400, 8.0);
    let (puts, threads) = ("epics.ioc.puts", "epics.ioc.threads");
    let found = news(&mut table);
    for point in
        [(puts, Some(1400), 1400, 2.0), (threads, None, 1400, 8.0), ("iocrec.marks", Some(1400), 1400, 1.0)]
    {
        assert!(found.contains(&point), "{found:?}");
    }
    take(&mut table, &ioc, 1401, 9.0);
    let found = news(&mut table);
    assert!(found.contains(&(puts, Some(1400), 1401, 3.0)), "{found:?}");
    assert!(found.contains(&(threads, None, 1401, 9.0)), "{found:?}");
}
