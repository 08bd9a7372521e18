//! A column of texts, in any of Arrow's layouts. Its bytes are not trusted to be UTF-8: producers need not check that.
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, BinaryViewArray, LargeBinaryArray, StringArray};
use arrow_schema::DataType;

pub enum Texts {
    Short(BinaryArray),
    Long(LargeBinaryArray),
    View(BinaryViewArray),
    /// Nulls without a type, as a column without any value has them.
    Nulls(usize),
}

impl Texts {
    pub fn of(array: &ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Utf8 => Self::Short(array.as_string::<i32>().clone().into()),
            DataType::LargeUtf8 => Self::Long(array.as_string::<i64>().clone().into()),
            DataType::Utf8View => Self::View(array.as_string_view().clone().to_binary_view()),
            DataType::Binary => Self::Short(array.as_binary::<i32>().clone()),
            DataType::LargeBinary => Self::Long(array.as_binary::<i64>().clone()),
            DataType::BinaryView => Self::View(array.as_binary_view().clone()),
            DataType::Null => Self::Nulls(array.len()),
            _ => return None,
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Short(texts) => texts.len(),
            Self::Long(texts) => texts.len(),
            Self::View(texts) => texts.len(),
            Self::Nulls(len) => *len,
        }
    }

    pub fn bytes(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Short(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::Long(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::View(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::Nulls(_) => None,
        }
    }

    /// Each row's text; None if it is missing or isn't UTF-8.
    pub fn all(&self) -> Vec<Option<&str>> {
        (0..self.len()).map(|row| self.bytes(row).and_then(|bytes| std::str::from_utf8(bytes).ok())).collect()
    }

    /// The column of errors: the problem of a row's text, null if it has none.
    pub fn problems(&self, column: &str) -> (String, ArrayRef) {
        let problem = |row| match self.bytes(row).map(std::str::from_utf8) {
            None => Some(format!("InvalidArgumentError: {column} is null; pass a text")),
            Some(Err(error)) => Some(format!(
                "InvalidArgumentError: {column} isn't UTF-8 from byte {} on; pass UTF-8",
                error.valid_up_to()
            )),
            Some(Ok(_)) => None,
        };
        let problems: StringArray = (0..self.len()).map(problem).collect();
        ("error".into(), Arc::new(problems))
    }
}
