//! Splits hits into a *template* (the common part of all hits of one kind from one place in the code), a record, and
//! numbers.
//!
//! A running IOC hits the same few places repeatedly. So a block holds each template once ([`Template::skeleton`]) and
//! each pair of template and record once (a *shape*), and an event is little more than the number of its shape.
//!
//! Facts without a template are stored whole. New facts need no code here.

use crate::event::{
    CaAnswer, CaPut, Cause, CauseKind, Complete, Dbf, Fact, FieldId, Process, Put, PutKind, Value,
};

/// A place in the code of an IOC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    thread: u32,
    sp: i64,
    site: u32,
}

/// The storage of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// None: the value is unknown.
    Unknown,
    Int,
    UInt,
    Float,
    Double,
    /// Postcard, for text or an array.
    Bytes,
}

/// A hit without its record and its own numbers (values, pointers, request numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Template {
    Process {
        place: Place,
        active: bool,
    },
    Complete {
        place: Place,
        value: Class,
        severity: u16,
        status: u16,
    },
    Put {
        place: Place,
        kind: PutKind,
        field: Option<FieldId>,
        dbf: Dbf,
        count: u32,
        requested: Class,
        old: Class,
    },
    Cause {
        place: Place,
        kind: CauseKind,
        named: bool,
    },
    CaPut {
        circuit: u32,
        notify: bool,
        dbr: u16,
        count: u32,
        length: u32,
        eight: bool,
    },
    CaAnswer {
        circuit: u32,
        notify: bool,
        status: u32,
    },
}

/// What is known of a hit before it is read: a reader may leave out those that it does not want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of its kind of facts.
    pub kind: u16,
    /// Its thread.
    pub thread: Option<u32>,
    /// Its circuit.
    pub circuit: Option<u32>,
    /// Its record.
    pub record: Option<u32>,
    /// For a put: its function and its call site.
    pub put: Option<(PutKind, u32)>,
    /// Its call site.
    pub site: Option<u32>,
}

/// The owner of a sequence of hits: a thread or a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Thread(u32),
    Circuit(u32),
}

/// The kind of a number of a hit, and so the past with which it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// There is no such number.
    None,
    /// The hit's first value: compared with those of its shape, as a 64-bit float or an integer.
    First { double: bool },
    /// The second value: compared with those of its shape.
    Second { double: bool },
    /// The old value that the first one replaces: compared with the first value of the previous hit.
    Before { double: bool },
    /// A client's request: compared with earlier requests of any shape.
    Request,
}

impl Number {
    #[inline]
    pub fn is_there(self) -> bool {
        self != Number::None
    }

    #[inline]
    pub fn is_double(self) -> bool {
        match self {
            Number::None | Number::Request => false,
            Number::First { double } | Number::Second { double } | Number::Before { double } => double,
        }
    }
}

/// The part of a hit that is neither in its template nor in the facts' bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    pub record: u32,
    pub numbers: [u64; 2],
}

/// A fact of one of the kinds that most are of.
pub(super) enum Small {
    Process(Process),
    Complete(Complete),
}

/// The only type in a client's put that is a 64-bit float.
const DBR_DOUBLE: u16 = epics::Dbr::DOUBLE.0;
/// Two empty texts, and an empty payload, as postcard: a skeleton holds them in place of [`Class::Bytes`].
const NO_TEXTS: &[u8] = &[5, 0, 5, 0];
const NO_PAYLOAD: &[u8] = &[0];

impl Template {
    /// Splits a fact, and appends values that are not numbers to `bytes`. Returns `None` and appends nothing if such
    /// facts are stored whole.
    pub fn of(fact: &Fact, bytes: &mut Vec<u8>) -> Option<(Template, Rest)> {
        let place = |thread, sp, site| Place { thread, sp, site };
        let mut numbers = [0, 0];
        let [first, second] = &mut numbers;
        let (template, record) = match fact {
            Fact::Process(hit) => {
                let place = place(hit.thread, hit.sp, hit.site);
                (Template::Process { place, active: hit.active }, hit.record)
            }
            Fact::Complete(hit) => {
                let place = place(hit.thread, hit.sp, hit.site);
                let value = take_value(&hit.value, first, bytes);
                let (severity, status) = (hit.severity, hit.status);
                (Template::Complete { place, value, severity, status }, hit.record)
            }
            Fact::Put(hit) => {
                let place = place(hit.thread, hit.sp, hit.site);
                let requested = take_value(&hit.requested, first, bytes);
                let old = take_value(&hit.old, second, bytes);
                let (kind, field, dbf, count) = (hit.kind, hit.field, hit.dbf, hit.count);
                (Template::Put { place, kind, field, dbf, count, requested, old }, hit.record)
            }
            Fact::Cause(hit) => {
                let place = place(hit.thread, hit.sp, hit.site);
                *first = hit.object;
                let named = hit.record.is_some();
                (Template::Cause { place, kind: hit.kind, named }, hit.record.unwrap_or(0))
            }
            Fact::CaPut(put) => {
                *first = put.ioid.into();
                let eight = put.payload.as_slice().try_into().map(u64::from_be_bytes);
                match eight {
                    Ok(payload) => *second = payload,
                    Err(_) => append(&put.payload, bytes),
                }
                let (circuit, notify, dbr, count) = (put.circuit, put.notify, put.dbr, put.count);
                let template =
                    Template::CaPut { circuit, notify, dbr, count, length: put.length, eight: eight.is_ok() };
                (template, put.channel)
            }
            Fact::CaAnswer(answer) if answer.text.is_empty() => {
                *first = answer.ioid.into();
                let (circuit, notify, status) = (answer.circuit, answer.notify, answer.status);
                (Template::CaAnswer { circuit, notify, status }, 0)
            }
            _ => return None,
        };
        Some((template, Rest { record, numbers }))
    }

    /// The fact with this template. Takes values that are not numbers off the front of `bytes`. `None` if they are
    /// missing, or if the fact can't have such a number.
    #[inline]
    pub fn fact(&self, rest: Rest, bytes: &mut &[u8]) -> Option<Fact> {
        let Rest { record, numbers: [first, second] } = rest;
        Some(match *self {
            Template::Process { place: Place { thread, sp, site }, active } => {
                Fact::Process(Process { thread, sp, site, record, active })
            }
            Template::Complete { place: Place { thread, sp, site }, value, severity, status } => {
                let value = give_value(value, first, bytes)?;
                Fact::Complete(Complete { thread, sp, site, record, value, severity, status })
            }
            Template::Put { place: Place { thread, sp, site }, kind, field, dbf, count, requested, old } => {
                let requested = give_value(requested, first, bytes)?;
                let old = give_value(old, second, bytes)?;
                Fact::from(Put { thread, sp, site, kind, record, field, dbf, count, requested, old })
            }
            Template::Cause { place: Place { thread, sp, site }, kind, named } => {
                let record = named.then_some(record);
                Fact::Cause(Cause { thread, sp, site, kind, object: first, record })
            }
            Template::CaPut { circuit, notify, dbr, count, length, eight } => {
                let ioid = u32::try_from(first).ok()?;
                let payload = if eight { second.to_be_bytes().to_vec() } else { take_postcard(bytes)? };
                Fact::CaPut(CaPut { circuit, channel: record, notify, dbr, count, ioid, length, payload })
            }
            Template::CaAnswer { circuit, notify, status } => {
                let ioid = u32::try_from(first).ok()?;
                Fact::CaAnswer(CaAnswer { circuit, ioid, notify, status, text: String::new() })
            }
        })
    }

    /// The fact with this template, if it is of the two kinds that most are of, and has no value but numbers.
    #[inline]
    pub fn small(&self, rest: Rest) -> Option<Small> {
        let Rest { record, numbers: [first, _] } = rest;
        match *self {
            Template::Process { place: Place { thread, sp, site }, active } => {
                Some(Small::Process(Process { thread, sp, site, record, active }))
            }
            Template::Complete { place: Place { thread, sp, site }, value, severity, status } => {
                let value = give_number(value, first)?;
                Some(Small::Complete(Complete { thread, sp, site, record, value, severity, status }))
            }
            _ => None,
        }
    }

    /// The template as a fact. Everything that the template leaves open is zero or empty. The stack pointer is the
    /// difference from `sp`, which is then set to the template's own.
    pub fn skeleton(&self, sp: &mut i64) -> Option<Fact> {
        let mut template = *self;
        if let Some(place) = template.place() {
            let own = place.sp;
            place.sp = own.wrapping_sub(*sp);
            *sp = own;
        }
        let bytes = if matches!(template, Template::CaPut { .. }) { NO_PAYLOAD } else { NO_TEXTS };
        template.fact(Rest { record: 0, numbers: [0, 0] }, &mut { bytes })
    }

    /// The template with this skeleton.
    #[inline]
    pub fn of_skeleton(fact: &Fact, sp: &mut i64) -> Option<Template> {
        let (mut template, _) = Template::of(fact, &mut Vec::new())?;
        if let Some(place) = template.place() {
            place.sp = place.sp.wrapping_add(*sp);
            *sp = place.sp;
        }
        Some(template)
    }

    #[inline]
    fn place(&mut self) -> Option<&mut Place> {
        match self {
            Template::Process { place, .. }
            | Template::Complete { place, .. }
            | Template::Put { place, .. }
            | Template::Cause { place, .. } => Some(place),
            Template::CaPut { .. } | Template::CaAnswer { .. } => None,
        }
    }

    /// The owner of these hits.
    #[inline]
    pub fn owner(&self) -> Owner {
        match *self {
            Template::Process { place, .. }
            | Template::Complete { place, .. }
            | Template::Put { place, .. }
            | Template::Cause { place, .. } => Owner::Thread(place.thread),
            Template::CaPut { circuit, .. } | Template::CaAnswer { circuit, .. } => Owner::Circuit(circuit),
        }
    }

    /// The number of their kind of facts.
    #[inline]
    pub fn number(&self) -> u16 {
        match self {
            Template::Process { .. } => 17,
            Template::Complete { .. } => 18,
            Template::Put { .. } => 16,
            Template::Cause { .. } => 19,
            Template::CaPut { .. } => 14,
            Template::CaAnswer { .. } => 15,
        }
    }

    /// Whether they have values that are not numbers.
    #[inline]
    pub fn has_bytes(&self) -> bool {
        match self {
            Template::Process { .. } | Template::Cause { .. } | Template::CaAnswer { .. } => false,
            Template::Complete { value, .. } => *value == Class::Bytes,
            Template::Put { requested, old, .. } => [*requested, *old].contains(&Class::Bytes),
            Template::CaPut { eight, .. } => !eight,
        }
    }

    /// What is known of such hits with this record before they are read.
    #[inline]
    pub fn shape(&self, record: u32) -> Shape {
        let (thread, circuit) = match self.owner() {
            Owner::Thread(thread) => (Some(thread), None),
            Owner::Circuit(circuit) => (None, Some(circuit)),
        };
        let named = !matches!(
            self,
            Template::Cause { named: false, .. } | Template::CaPut { .. } | Template::CaAnswer { .. }
        );
        let put = match self {
            Template::Put { place, kind, .. } => Some((*kind, place.site)),
            _ => None,
        };
        let record = named.then_some(record);
        Shape { kind: self.number(), thread, circuit, record, put, site: self.site() }
    }

    /// The call site of these hits, if they have one.
    pub fn site(&self) -> Option<u32> {
        let mut template = *self;
        template.place().map(|place| place.site)
    }

    /// The kinds of its numbers.
    #[inline]
    pub fn numbers(&self) -> [Number; 2] {
        let double = |class| class == Class::Double;
        let first = |class| match class {
            Class::Unknown | Class::Bytes => Number::None,
            _ => Number::First { double: double(class) },
        };
        match *self {
            Template::Process { .. } => [Number::None, Number::None],
            Template::Complete { value, .. } => [first(value), Number::None],
            Template::Put { requested, old, .. } => {
                let second = match first(old) {
                    Number::None => Number::None,
                    _ if requested == old => Number::Before { double: double(old) },
                    _ => Number::Second { double: double(old) },
                };
                [first(requested), second]
            }
            Template::Cause { .. } => [Number::First { double: false }, Number::None],
            Template::CaPut { dbr, eight, .. } => {
                let payload = if eight { Number::Second { double: dbr == DBR_DOUBLE } } else { Number::None };
                [Number::Request, payload]
            }
            Template::CaAnswer { .. } => [Number::Request, Number::None],
        }
    }
}

/// Takes a value's number, if it has one, or its bytes.
fn take_value(value: &Value, number: &mut u64, bytes: &mut Vec<u8>) -> Class {
    match value {
        Value::Unknown => Class::Unknown,
        Value::Int(value) => {
            *number = *value as u64;
            Class::Int
        }
        Value::UInt(value) => {
            *number = *value;
            Class::UInt
        }
        Value::Float(value) => {
            *number = value.to_bits().into();
            Class::Float
        }
        Value::Double(value) => {
            *number = value.to_bits();
            Class::Double
        }
        Value::Text(_) | Value::Array(_) => {
            append(value, bytes);
            Class::Bytes
        }
    }
}

#[inline]
fn give_value(class: Class, number: u64, bytes: &mut &[u8]) -> Option<Value> {
    match class {
        Class::Bytes => take_postcard(bytes),
        _ => give_number(class, number),
    }
}

/// A value that is a number, or unknown.
#[inline]
fn give_number(class: Class, number: u64) -> Option<Value> {
    Some(match class {
        Class::Unknown => Value::Unknown,
        Class::Int => Value::Int(number as i64),
        Class::UInt => Value::UInt(number),
        Class::Float => Value::Float(f32::from_bits(u32::try_from(number).ok()?)),
        Class::Double => Value::Double(f64::from_bits(number)),
        Class::Bytes => return None,
    })
}

/// Appends as postcard. Encoding into memory can't fail.
pub(super) fn append(thing: &impl serde::Serialize, bytes: &mut Vec<u8>) {
    if let Ok(longer) = postcard::to_extend(thing, std::mem::take(bytes)) {
        *bytes = longer;
    }
}

/// Takes a value in postcard off the front of `bytes`.
#[inline]
pub(super) fn take_postcard<T: serde::de::DeserializeOwned>(bytes: &mut &[u8]) -> Option<T> {
    let (thing, rest) = postcard::take_from_bytes(bytes).ok()?;
    *bytes = rest;
    Some(thing)
}
