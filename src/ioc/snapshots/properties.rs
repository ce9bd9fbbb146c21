//! The properties of a record: by what people read its value.

use iocrec_log::event::{AlarmLimit, Limits, Properties, RecordId, Value};

use crate::ioc::layout::{Layout, Place};
use crate::ioc::snapshots::{field, part, spans, Sample, What};
use crate::linux::text::printable;
use crate::linux::width::Width;

/// The properties that a sample of [`What::Properties`] shows; `None` if none is set.
pub fn properties(width: Width, layout: &Layout, sample: &Sample, record: RecordId) -> Option<Properties> {
    let rtype = layout.types.get(&sample.rtype)?;
    let spans = spans(width, layout, rtype, What::Properties);
    let read = |place: Place| field(layout, place, part(&spans, &sample.bytes, place.offset, place.size)?);
    let text = |place: Option<Place>| match place.and_then(read) {
        Some(Value::Text(text)) => printable(&text),
        _ => String::new(),
    };
    let number = |place: Place| read(place).as_ref().and_then(exact);
    let limits = |pair: Option<[Place; 2]>| {
        let [low, high] = pair?;
        let (low, high) = (number(low)?, number(high)?);
        (low != 0.0 || high != 0.0).then_some(Limits { low, high })
    };
    let alarm = |pair: Option<[Place; 2]>| {
        let [limit, severity] = pair?;
        let Value::Int(severity) = read(severity)? else { return None };
        let severity = u16::try_from(severity).ok().filter(|severity| *severity > 0)?;
        Some(AlarmLimit { limit: number(limit)?, severity })
    };
    let precision = rtype.shown.precision.and_then(read).and_then(|precision| match precision {
        Value::Int(precision) => i32::try_from(precision).ok(),
        _ => None,
    });
    let [lolo, low, high, hihi] = rtype.shown.alarms.map(alarm);
    let properties = Properties {
        record,
        description: text(rtype.shown.description),
        units: text(rtype.shown.units),
        precision,
        display: limits(rtype.shown.display),
        control: limits(rtype.shown.control),
        lolo,
        low,
        high,
        hihi,
    };
    let is_set = !properties.description.is_empty()
        || !properties.units.is_empty()
        || properties.precision.is_some_and(|precision| precision != 0)
        || properties.display.is_some()
        || properties.control.is_some()
        || [lolo, low, high, hihi].iter().any(Option::is_some);
    is_set.then_some(properties)
}

/// A number as an `f64`, if that can hold it exactly.
fn exact(value: &Value) -> Option<f64> {
    let number = match *value {
        Value::Int(number) => Some(number as f64).filter(|float| *float as i128 == i128::from(number)),
        Value::UInt(number) => Some(number as f64).filter(|float| *float as i128 == i128::from(number)),
        Value::Float(number) => Some(number.into()),
        Value::Double(number) => Some(number),
        _ => None,
    };
    number.filter(|number| !number.is_nan())
}
