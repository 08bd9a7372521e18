//! The slow twin of WordPiece, which tests and benches compare it with: BERT's pipeline of the `tokenizers` crate.
use tokenizers::models::wordpiece::WordPiece as TwinModel;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{DecoderWrapper, PostProcessorWrapper, TokenizerBuilder, TokenizerImpl};

pub type Twin = TokenizerImpl<TwinModel, BertNormalizer, BertPreTokenizer, PostProcessorWrapper, DecoderWrapper>;

pub fn twin(vocab: &str) -> Twin {
    let model = TwinModel::builder().vocab(TwinModel::read_bytes(vocab.as_bytes()).unwrap()).build().unwrap();
    assert_eq!(
        (model.unk_token.as_str(), model.continuing_subword_prefix.as_str(), model.max_input_chars_per_word),
        ("[UNK]", "##", 100)
    );
    TokenizerBuilder::new()
        .with_model(model)
        .with_normalizer(Some(BertNormalizer::new(true, true, Some(true), true)))
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_post_processor(None)
        .with_decoder(None)
        .build()
        .unwrap()
}
