//! Numbers in a row of bins, of which most may be empty.
//!
//! A record that processes now and then has a count in few of a thousand bins: then only those are held, 4 bytes each.

/// Counts by bin.
#[derive(Clone, Debug)]
pub enum Bins {
    /// Those that are not 0, in order of their bins.
    Few(Vec<(u16, u16)>),
    /// All.
    Many(Vec<u32>),
}

impl Bins {
    /// None yet.
    pub fn new() -> Self {
        Bins::Few(Vec::new())
    }

    /// Number of bins up to the last that was counted in.
    pub fn len(&self) -> usize {
        match self {
            Bins::Few(few) => few.last().map_or(0, |(last, _)| usize::from(*last) + 1),
            Bins::Many(many) => many.len(),
        }
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds to a bin. `most`: the number of bins that there will ever be.
    pub fn add(&mut self, place: usize, count: u32, most: usize) {
        if let Bins::Few(few) = self {
            if let (Ok(place), Ok(count)) = (u16::try_from(place), u16::try_from(count)) {
                let at = match few.last() {
                    Some((last, _)) if *last < place => Err(few.len()),
                    Some((last, _)) if *last == place => Ok(few.len() - 1),
                    _ => few.binary_search_by_key(&place, |(place, _)| *place),
                };
                match at {
                    Ok(at) => {
                        let counted = few.get_mut(at).map(|(_, counted)| counted);
                        let more = counted.as_ref().and_then(|counted| counted.checked_add(count));
                        if let Some((counted, more)) = counted.zip(more) {
                            *counted = more;
                            return;
                        }
                    }
                    // as long as all together would take more
                    Err(at) if few.len() < most / 2 => return few.insert(at, (place, count)),
                    Err(_) => {}
                }
            }
            *self = Bins::Many(self.to_vec());
        }
        let Bins::Many(many) = self else { return };
        if place >= many.len() {
            if place >= many.capacity() {
                // thousands of records have them, so not twice as many
                let room = (place + place / 4 + 1).min(most);
                many.reserve_exact(room.saturating_sub(many.len()));
            }
            many.resize(place + 1, 0);
        }
        if let Some(counted) = many.get_mut(place) {
            *counted = counted.saturating_add(count);
        }
    }

    /// Puts empty bins before the first. All together must still be fewer than 65,536.
    pub fn begin_earlier(&mut self, more: usize) {
        match self {
            Bins::Few(few) => {
                let more = u16::try_from(more).unwrap_or(u16::MAX);
                few.iter_mut().for_each(|(place, _)| *place = place.saturating_add(more));
            }
            Bins::Many(many) => _ = many.splice(0..0, std::iter::repeat_n(0, more)),
        }
    }

    /// Joins bins in pairs; `odd`: the first alone. `most`: the number of bins that there will ever be.
    pub fn join(&mut self, odd: bool, most: usize) {
        let odd = usize::from(odd);
        let mut joined = match self {
            Bins::Few(_) => Bins::new(),
            Bins::Many(many) => Bins::Many(Vec::with_capacity((many.len() + odd).div_ceil(2))),
        };
        match self {
            Bins::Few(few) => {
                for (place, count) in few {
                    joined.add((usize::from(*place) + odd) / 2, u32::from(*count), most);
                }
            }
            Bins::Many(many) => {
                for (place, count) in many.iter().enumerate() {
                    joined.add((place + odd) / 2, *count, most);
                }
            }
        }
        *self = joined;
    }

    /// All, from the first to the last that was counted in.
    pub fn to_vec(&self) -> Vec<u32> {
        match self {
            Bins::Few(few) => {
                let mut all = vec![0; self.len()];
                for (place, count) in few {
                    if let Some(at) = all.get_mut(usize::from(*place)) {
                        *at = u32::from(*count);
                    }
                }
                all
            }
            Bins::Many(many) => many.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as if all bins had been held, whatever comes in which order.
    #[test]
    fn few_are_as_many() {
        const MOST: usize = 100;
        for spread in [1, 3, 40, 100] {
            let (mut bins, mut all) = (Bins::new(), vec![0_u32; 0]);
            let mut state = spread as u64;
            for turn in 0..400_usize {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (place, count) = ((state >> 33) as usize % spread, if turn == 77 { 70_000 } else { 1 });
                bins.add(place, count, MOST);
                if place >= all.len() {
                    all.resize(place + 1, 0);
                }
                all[place] += count;
                if turn % 97 == 96 {
                    let odd = turn % 2 == 1;
                    bins.join(odd, MOST);
                    let mut joined = vec![0; (all.len() + usize::from(odd)).div_ceil(2)];
                    for (place, count) in all.iter().enumerate() {
                        joined[(place + usize::from(odd)) / 2] += count;
                    }
                    all = joined;
                }
                assert_eq!((bins.to_vec(), bins.len(), bins.is_empty()), (all.clone(), all.len(), false));
            }
            bins.begin_earlier(3);
            all.splice(0..0, [0, 0, 0]);
            assert_eq!(bins.to_vec(), all);
        }
    }

    #[test]
    fn a_thousand_bins_with_few_counts_are_small() {
        let mut bins = Bins::new();
        for number in 0..30 {
            bins.add(number * 33, 1, 1024);
            bins.add(number * 33, 1, 1024);
        }
        assert!(matches!(&bins, Bins::Few(few) if few.len() == 30), "{bins:?}");
        assert_eq!(bins.to_vec().iter().sum::<u32>(), 60);
    }
}
