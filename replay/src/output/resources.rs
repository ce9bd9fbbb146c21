//! Resources of OpenTelemetry: which IOC or host a log record or a metric is of, with the attributes that spans have.

use super::traces::otlp::resource_attributes;
use super::traces::otlp::shape::{text, Attribute, Service};
use crate::answers::inventory::Inventory;
use crate::notices::Notices;
use crate::Logs;
use std::collections::HashMap;
use std::rc::Rc;

/// IOCs that are known; a bound for hostile logs.
const MAX_IOCS: usize = 100_000;

/// A resource.
pub struct Resource {
    /// Its attributes.
    pub(crate) attributes: Vec<Attribute>,
    /// The IOC's host.
    pub host: String,
    /// The IOC; empty for a host.
    pub ioc: String,
    /// Its process, if known.
    pub pid: Option<u32>,
    /// When it was started, wall-clock time; if known.
    pub started: Option<i64>,
}

/// The resources of logs.
#[derive(Default)]
pub struct Resources {
    /// By host and IOC, in the order in which they were recorded.
    known: HashMap<(String, String), Vec<Rc<Resource>>>,
    count: usize,
}

impl Resources {
    /// Those of these logs.
    pub fn read(logs: &Logs) -> Resources {
        let mut found = Resources::default();
        found.learn(logs);
        found
    }

    /// Reads the definitions of all runs, which may have grown; what is known stays the same. What can't be read is reported
    /// by whoever reads the rest.
    pub fn learn(&mut self, logs: &Logs) {
        for run in logs.runs() {
            let inventory = Inventory::read(run, &Notices::default());
            let context = inventory.context();
            let host = inventory.host().unwrap_or_default();
            for ioc in context.iocs() {
                self.add(Resource {
                    attributes: resource_attributes(context, Some(ioc), &Service::Ioc(ioc.id)),
                    host: host.to_owned(),
                    ioc: ioc.name.clone(),
                    pid: Some(ioc.pid),
                    started: context.wall(ioc.start),
                });
            }
        }
    }

    fn add(&mut self, resource: Resource) {
        let all = self.known.entry((resource.host.clone(), resource.ioc.clone())).or_default();
        // Another run recorded it, too.
        let is_known = all.iter().any(|own| own.attributes == resource.attributes);
        if !is_known && self.count < MAX_IOCS {
            self.count += 1;
            all.push(Rc::new(resource));
        }
    }

    /// That of an IOC of this name at a time. `pid`: its process, if known. Without a name it is the host's.
    pub fn of(&mut self, host: &str, ioc: &str, pid: Option<u32>, time: i64) -> Rc<Resource> {
        let key = (host.to_owned(), ioc.to_owned());
        let found = self.known.get(&key).and_then(|all| {
            let is_it = |of: &&Rc<Resource>| pid.is_none() || of.pid.is_none() || of.pid == pid;
            let before = |of: &&Rc<Resource>| of.started.is_none_or(|started| started <= time);
            let mut fitting = all.iter().filter(is_it).rev();
            // The last that had been started.
            fitting.clone().find(before).or_else(|| fitting.next())
        });
        if let Some(found) = found {
            return Rc::clone(found);
        }
        let mut attributes = Vec::new();
        let service = match ioc {
            "" => "iocrec",
            ioc => ioc,
        };
        text(&mut attributes, "service.name", service);
        text(&mut attributes, "service.namespace", "epics");
        text(&mut attributes, "host.name", host);
        let made =
            Rc::new(Resource { attributes, host: key.0.clone(), ioc: key.1.clone(), pid, started: None });
        if self.count < MAX_IOCS {
            self.count += 1;
            self.known.entry(key).or_default().push(Rc::clone(&made));
        }
        made
    }
}
