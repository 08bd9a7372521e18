//! The machine's instructions, as far as a quantised model computes other values with them.

/// The widest instructions of this machine that change what an int8 model computes: part of a space's name.
#[must_use]
pub fn isa() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512vnni") {
            "avx512vnni"
        } else if std::is_x86_feature_detected!("avxvnni") {
            "avxvnni"
        } else if std::is_x86_feature_detected!("avx512bw") {
            "avx512"
        } else if std::is_x86_feature_detected!("avx2") {
            "avx2"
        } else {
            "x86-64"
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        if std::arch::is_aarch64_feature_detected!("i8mm") {
            "i8mm"
        } else if std::arch::is_aarch64_feature_detected!("dotprod") {
            "dotprod"
        } else {
            "neon"
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        std::env::consts::ARCH
    }
}
