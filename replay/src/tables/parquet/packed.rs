//! Pages of a column, each packed with the zstd that its row group has. parquet's own writer begins and ends one for every page,
//! which costs more than packing the small ones.

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};

/// The level of zstd: higher ones take twice the time for a few percent.
const LEVEL: i32 = 1;

/// What packs pages.
pub type Zstd = zstd::bulk::Compressor<'static>;

/// Begins one.
pub fn zstd() -> std::io::Result<Zstd> {
    Zstd::new(LEVEL)
}

/// As the metadata of a column names it.
pub fn compression() -> Compression {
    Compression::ZSTD(ZstdLevel::try_new(LEVEL).unwrap_or_default())
}

/// Packs pages and appends them.
pub struct Packed<'a> {
    zstd: &'a mut Zstd,
    below: SerializedPageWriter<'a, Vec<u8>>,
}

impl<'a> Packed<'a> {
    /// To the end of these bytes.
    pub fn new(zstd: &'a mut Zstd, below: &'a mut TrackedWrite<Vec<u8>>) -> Packed<'a> {
        Packed { zstd, below: SerializedPageWriter::new(below) }
    }
}

impl PageWriter for Packed<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec, ParquetError> {
        let size = page.uncompressed_size();
        let mut pack = |bytes: &[u8]| self.zstd.compress(bytes);
        let packed = match page.compressed_page() {
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics,
            } => Page::DataPage {
                buf: pack(buf)?.into(),
                num_values: *num_values,
                encoding: *encoding,
                def_level_encoding: *def_level_encoding,
                rep_level_encoding: *rep_level_encoding,
                statistics: statistics.clone(),
            },
            Page::DictionaryPage { buf, num_values, encoding, is_sorted } => Page::DictionaryPage {
                buf: pack(buf)?.into(),
                num_values: *num_values,
                encoding: *encoding,
                is_sorted: *is_sorted,
            },
            // of version 2, of which only a part is packed: the properties ask for none
            Page::DataPageV2 { .. } => {
                return Err(ParquetError::General("a page of version 2".to_owned()));
            }
        };
        self.below.write_page(CompressedPage::new(packed, size))
    }

    fn close(&mut self) -> Result<(), ParquetError> {
        self.below.close()
    }
}
