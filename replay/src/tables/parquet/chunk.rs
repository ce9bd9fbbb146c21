//! A column of texts of a row group, written without parquet's own writer of columns: that one looks up every text again,
//! compares each with the least and the greatest so far, and counts references to all of them.

use super::packed::{compression, Packed, Zstd};
use super::texts::Texts;
use super::{hybrid, Encoded};
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::Statistics;
use parquet::file::writer::TrackedWrite;
use parquet::schema::types::ColumnDescPtr;

/// Longest text that is told as the least or the greatest of its column.
const LONGEST: usize = 64;

/// A column: its texts, and how much of each cell is there.
pub struct Column<'a> {
    pub of: &'a ColumnDescPtr,
    pub rows: usize,
    pub texts: &'a Texts,
    pub defined: &'a [i16],
    pub repeated: &'a [i16],
}

impl Column<'_> {
    /// Its pages, and what is to be noted of them.
    pub fn encode(&self, zstd: &mut Zstd) -> Result<Encoded, ParquetError> {
        let texts = self.texts;
        // If none comes again, what would be the dictionary is the values.
        let is_plain = texts.count() == texts.numbers.len();
        let encoding = if is_plain { Encoding::PLAIN } else { Encoding::RLE_DICTIONARY };
        let values = self.values(is_plain);
        let count = self.defined.len().max(texts.numbers.len());
        let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let dictionary = Page::DictionaryPage {
            buf: if is_plain { Vec::new() } else { texts.bytes.clone() }.into(),
            num_values: number(texts.count()),
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let data = Page::DataPage {
            buf: values.into(),
            num_values: number(count),
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let mut sink = TrackedWrite::new(Vec::new());
        let mut writer = Packed::new(zstd, &mut sink);
        let (mut size, mut packed_size, mut last, mut noted) = (0, 0, 0, Vec::new());
        for page in [dictionary, data].into_iter().skip(usize::from(is_plain)) {
            let unpacked = page.buffer().len();
            let page = CompressedPage::new(page, unpacked);
            noted.push(PageEncodingStats {
                page_type: page.page_type(),
                encoding: page.encoding(),
                count: 1,
            });
            let written = writer.write_page(page)?;
            size += written.uncompressed_size;
            packed_size += written.compressed_size;
            last = written.offset;
        }
        let metadata = ColumnChunkMetaData::builder(self.of.clone())
            .set_compression(compression())
            .set_encodings(noted.iter().map(|page| page.encoding).chain([Encoding::RLE]).collect())
            .set_page_encoding_stats(noted)
            .set_total_uncompressed_size(size as i64)
            .set_total_compressed_size(packed_size as i64)
            .set_num_values(count as i64)
            .set_dictionary_page_offset((!is_plain).then_some(0))
            .set_data_page_offset(last as i64)
            .set_statistics(self.statistics())
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: packed_size as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((sink.into_inner()?, close))
    }

    /// The content of the page of data.
    fn values(&self, is_plain: bool) -> Vec<u8> {
        let mut out = Vec::new();
        push_levels(&mut out, self.of.max_rep_level(), self.repeated);
        push_levels(&mut out, self.of.max_def_level(), self.defined);
        if is_plain {
            out.extend_from_slice(&self.texts.bytes);
        } else {
            let most = self.texts.count().saturating_sub(1);
            let width = hybrid::width(u32::try_from(most).unwrap_or(u32::MAX));
            out.push(width as u8);
            hybrid::push(&mut out, width, &self.texts.numbers);
        }
        out
    }

    fn statistics(&self) -> Statistics {
        let known = |text: Option<&[u8]>| {
            text.filter(|text| text.len() <= LONGEST).map(|text| ByteArray::from(text.to_vec()))
        };
        let (least, greatest) = (known(self.texts.each().min()), known(self.texts.each().max()));
        let nulls = self.defined.iter().filter(|level| **level < self.of.max_def_level()).count();
        Statistics::byte_array(least, greatest, None, Some(nulls as u64), false)
    }
}

/// Appends levels, after the length of what they take. A column without levels has none.
fn push_levels(out: &mut Vec<u8>, most: i16, levels: &[i16]) {
    if most <= 0 {
        return;
    }
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    let width = hybrid::width(most.unsigned_abs().into());
    let levels: Vec<u32> = levels.iter().map(|level| level.unsigned_abs().into()).collect();
    hybrid::push(out, width, &levels);
    let length = u32::try_from(out.len() - begin - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}
