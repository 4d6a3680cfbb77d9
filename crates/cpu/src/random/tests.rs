//! Results recorded from PyTorch 2.13 (seed 77): hashes of the output's bytes and the generator's state after it.

use super::*;
use flambeau_base::{Bool, Element, bf16, f16};

/// FNV-1a, 64 bits.
fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn bytes<T: Element>(x: &[T]) -> &[u8] {
    // SAFETY: elements are plain data without padding.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), std::mem::size_of_val(x)) }
}

fn check<T: Element>(sizes: &[usize], golden: &[u64], fill: impl Fn(&mut Generator, &mut [T])) {
    assert_eq!(sizes.len(), golden.len());
    for (&n, &golden) in sizes.iter().zip(golden) {
        let mut generator = Generator::new(77);
        let mut out = vec![T::default(); n];
        fill(&mut generator, &mut out);
        let found = hash(bytes(&out).iter().copied().chain(generator.get_state()));
        assert_eq!(found, golden, "{:?}, {n} elements: {:?}", T::DTYPE, &out[..n.min(20)]);
    }
}

const SIZES: [usize; 8] = [3, 15, 16, 17, 31, 32, 33, 1000];
const TWO: [usize; 2] = [15, 1000];

/// Parameters `0, 1/2, ... 59/2` over and over.
fn halves<T: Element>(n: usize) -> Vec<T> {
    (0..n).map(|i| T::from_f64((i % 60) as f64 / 2.0)).collect()
}

#[test]
fn uniform_unit() {
    check::<f16>(
        &SIZES,
        &[
            0x178f_55ff_e6b0_9257,
            0x9cb6_52c6_9658_2494,
            0xa4d1_a51d_ae3c_6ac1,
            0x822b_cb00_c2d9_a515,
            0x7f50_3951_6904_41a8,
            0xed49_8e02_adb4_c7bc,
            0x1dd8_e607_e0f8_b88b,
            0x37d1_0c3e_1c25_4417,
        ],
        |g, o| uniform(g, o, 0.0, 1.0),
    );
    check::<bf16>(
        &SIZES,
        &[
            0xc264_9705_5115_6f07,
            0x7c5b_b05a_8162_4be3,
            0xc564_66dd_4a59_4d39,
            0xea45_3cde_e7bb_6c50,
            0x4365_2687_26ff_3875,
            0xb076_62db_2e80_952e,
            0x37b8_f62d_1278_7199,
            0x1258_636c_5a15_812d,
        ],
        |g, o| uniform(g, o, 0.0, 1.0),
    );
    check::<f32>(
        &SIZES,
        &[
            0xb810_8c08_0c5c_29f3,
            0x36c3_d850_a617_103a,
            0x7a84_76ed_ead4_088c,
            0x363d_d91c_8d6d_e704,
            0xdf39_55b2_2f1a_1cbc,
            0xbce4_bd0b_0bca_d3fb,
            0xb110_9c47_fe4c_1982,
            0xae05_08ce_52cb_e0af,
        ],
        |g, o| uniform(g, o, 0.0, 1.0),
    );
    check::<f64>(
        &SIZES,
        &[
            0x11a9_9f25_44e1_ef70,
            0x6fa8_aa0b_5339_430e,
            0x751d_90cf_b041_a7c4,
            0xcf7c_4903_44b3_db63,
            0x9f94_850d_abcf_23e5,
            0x47f6_84c6_4eb9_5178,
            0x8437_db67_55bc_6c3f,
            0x81d3_d8ef_3f09_c3d1,
        ],
        |g, o| uniform(g, o, 0.0, 1.0),
    );
}

#[test]
fn uniform_range() {
    check::<f16>(
        &SIZES,
        &[
            0xfac3_7b41_4b7d_bd8c,
            0x2ddd_87e7_6e42_184b,
            0x9f4a_ef72_8514_9ff4,
            0x34b0_ef6c_ed1e_c0e9,
            0x4b17_8897_35bb_b10e,
            0x0577_66d9_e8c1_6494,
            0x857d_bbb8_7f5e_9893,
            0xcffa_f498_0730_d873,
        ],
        |g, o| uniform(g, o, -0.3, 1.7),
    );
    check::<bf16>(
        &SIZES,
        &[
            0xa09d_0528_ed90_b872,
            0x57de_d5fd_c640_851a,
            0xad64_4222_82b9_0fd1,
            0x517f_7a95_94e0_0f4b,
            0x78d6_e8da_50b9_c62d,
            0x6ed5_4bc3_b07e_5f90,
            0xb96c_7f0b_3d72_cdde,
            0xeb53_47bc_7cb3_c082,
        ],
        |g, o| uniform(g, o, -0.3, 1.7),
    );
    check::<f32>(
        &SIZES,
        &[
            0xd7b8_4964_7743_3887,
            0x30af_b4be_34c8_529f,
            0xc4ca_3700_a94d_d67a,
            0x18d6_8b25_c455_4951,
            0xd7e0_c756_e235_5228,
            0xde33_b8d1_09e1_74fc,
            0xec32_0a49_7a34_1eed,
            0x30f4_7a07_529f_5b5d,
        ],
        |g, o| uniform(g, o, -0.3, 1.7),
    );
    check::<f64>(
        &SIZES,
        &[
            0xaa6b_1d47_3362_00e8,
            0x7f78_8ab0_6a17_50a1,
            0x3bd3_a1f8_1183_6fed,
            0x33ac_673f_0ae2_c3e5,
            0x8162_f924_2a3b_014c,
            0xa5dc_13b2_4435_ad6c,
            0x7ead_adc9_6ced_2ddb,
            0xf3a4_4a63_7e1d_3c21,
        ],
        |g, o| uniform(g, o, -0.3, 1.7),
    );
}

#[test]
fn normal_standard() {
    check::<f16>(
        &SIZES,
        &[
            0x80c1_1828_3b1d_d447,
            0x1e8f_1f5e_f1f4_b078,
            0xa819_d41d_5dba_7d57,
            0xd324_e036_344e_0d40,
            0xd8bd_4edf_7234_194c,
            0x5f40_ccf6_b3fa_08e6,
            0x4fd4_7e5d_27bf_0920,
            0x80f7_296b_efc7_1f96,
        ],
        |g, o| normal(g, o, 0.0, 1.0),
    );
    check::<bf16>(
        &SIZES,
        &[
            0x0b2a_d0a6_26f9_83e9,
            0x7fe6_9b4b_fe20_5fec,
            0xa977_ac7d_1aba_5dd0,
            0x3bf9_502f_308b_3d9f,
            0x6df8_2a84_222b_46ac,
            0xf949_d064_3981_554b,
            0x50a6_61f8_3662_f075,
            0x5302_6b15_c457_b662,
        ],
        |g, o| normal(g, o, 0.0, 1.0),
    );
    check::<f32>(
        &SIZES,
        &[
            0x6dfe_90ce_d58a_7bfe,
            0x4eb9_aa6c_5a90_92b0,
            0x30da_d223_6217_b2de,
            0x2673_7b26_9bca_a14d,
            0xc623_ec7b_5338_c9bd,
            0x12e1_c20f_d793_bf73,
            0x806c_cb40_38af_20d6,
            0x1cc3_682d_74c9_f29a,
        ],
        |g, o| normal(g, o, 0.0, 1.0),
    );
}

#[test]
fn normal_scaled() {
    check::<f16>(
        &SIZES,
        &[
            0xfd08_fb1c_54d3_6e0f,
            0xc65a_0ea6_8d0b_166b,
            0xb233_b4fb_d2d6_4ba2,
            0xf09c_df7a_d2aa_f9d8,
            0x49e4_acad_4715_ca22,
            0x1579_3f48_a3bd_723f,
            0xbd3e_932e_aeee_bf8f,
            0xa788_6508_4c01_1eed,
        ],
        |g, o| normal(g, o, 0.3, 1.7),
    );
    check::<bf16>(
        &SIZES,
        &[
            0x4a35_7175_4a36_7604,
            0x7e65_21a8_ac0c_98ea,
            0x3968_dc9b_029b_83a0,
            0xe49a_a723_e411_c72e,
            0xfb80_9d91_ecec_31b3,
            0xa817_2b4f_c603_c0c4,
            0x8cd5_0bcc_d618_1814,
            0xdad0_a966_51d5_98f5,
        ],
        |g, o| normal(g, o, 0.3, 1.7),
    );
    check::<f32>(
        &SIZES,
        &[
            0xd29e_4f69_5549_79f3,
            0x55fb_8a90_543e_eb3f,
            0x5ec3_d103_71f6_96e3,
            0x57eb_754b_9666_1d2a,
            0xaf37_783d_bf03_4fd5,
            0xc628_227f_7502_3fea,
            0xc46c_deaa_8af0_94bd,
            0x2a0d_a827_3246_e25c,
        ],
        |g, o| normal(g, o, 0.3, 1.7),
    );
}

#[test]
fn random_golden() {
    check::<Bool>(&TWO, &[0xc2cd_e270_1d91_65fd, 0x0740_1a5a_b522_994d], random);
    check::<u8>(&TWO, &[0x1ebf_f7b0_0cbf_61ad, 0x3b36_d5a0_f516_b02f], random);
    check::<i8>(&TWO, &[0x2886_42a2_ff7e_e8ad, 0x6e75_6a9f_6424_c42f], random);
    check::<i16>(&TWO, &[0xfff2_04af_5892_9ef7, 0x6079_d8de_16b1_4cea], random);
    check::<i32>(&TWO, &[0xd262_fa88_fd8b_a0ab, 0xba92_1b2e_5121_3042], random);
    check::<i64>(&TWO, &[0x096b_6ad6_2549_d17b, 0xcf69_8606_83d1_7da8], random);
    check::<f16>(&TWO, &[0xd466_446e_b0bf_85c6, 0x351b_cc1b_d292_e4fc], random);
    check::<bf16>(&TWO, &[0x1c4a_ed1a_8bc3_80d7, 0x8838_7183_a155_ab15], random);
    check::<f32>(&TWO, &[0xe098_b389_cc48_8ad7, 0xd329_888c_9c15_b2f9], random);
    check::<f64>(&TWO, &[0x9517_ae5d_3720_2442, 0xb48d_4ca7_812b_0c12], random);
}

#[test]
fn randint_golden() {
    check::<u8>(&TWO, &[0x6f2f_83fc_31ce_db3f, 0x3498_8755_380b_8662], |g, o| random_from(g, o, 3, 99));
    check::<i8>(&TWO, &[0x6f2f_83fc_31ce_db3f, 0x3498_8755_380b_8662], |g, o| random_from(g, o, 3, 99));
    check::<i16>(&TWO, &[0x4af2_f9b6_0ac0_8621, 0x0379_2488_71c9_6022], |g, o| random_from(g, o, 3, 99));
    check::<i32>(&TWO, &[0x7ef9_cc59_d27f_ff59, 0x68e4_f07c_4d34_3212], |g, o| random_from(g, o, 3, 99));
    check::<i64>(&TWO, &[0xfa96_d4fd_c323_5229, 0xa264_ba2e_778a_f0d2], |g, o| random_from(g, o, 3, 99));
    check::<f16>(&TWO, &[0xd7b0_553a_dc0f_173d, 0x6a62_f883_5fa1_402c], |g, o| random_from(g, o, 3, 99));
    check::<bf16>(&TWO, &[0x97b2_88f3_2e20_bb2a, 0x4fb3_b917_e363_8916], |g, o| random_from(g, o, 3, 99));
    check::<f32>(&TWO, &[0xc9d3_2fd2_e2a7_9732, 0x4007_f6e0_9360_a4de], |g, o| random_from(g, o, 3, 99));
    check::<f64>(&TWO, &[0xccfb_a2d1_ea65_5bfc, 0xdcd3_d4d8_3dee_a90a], |g, o| random_from(g, o, 3, 99));
}

#[test]
fn randint_narrow_golden() {
    check::<i32>(&TWO, &[0xef21_c47e_e7d5_12e8, 0xcecf_9c63_8211_ca49], |g, o| random_from(g, o, -5, (1 << 28) - 1));
    check::<i64>(&TWO, &[0xd3df_98e0_db0f_0778, 0x7917_0df0_5f4c_d3e9], |g, o| random_from(g, o, -5, (1 << 28) - 1));
}

#[test]
fn randint_wide_golden() {
    check::<i32>(&TWO, &[0xf87c_7d67_506d_4519, 0x83b8_e1cc_602f_1d66], |g, o| random_from(g, o, -5, 1 << 28));
    check::<i64>(&TWO, &[0xbf1f_f39d_c229_0b99, 0x3a02_0bf5_877c_b336], |g, o| random_from(g, o, -5, 1 << 28));
}

#[test]
fn randint_full_golden() {
    check::<i64>(&TWO, &[0x3c40_1597_1340_2dfb, 0xb895_d642_9f7d_f8a8], |g, o| random_from(g, o, i64::MIN, 0));
}

#[test]
fn permutation_golden() {
    check::<i16>(
        &[1, 2, 15, 1000],
        &[0x5192_8d43_5d76_3313, 0x5117_5fff_fcb7_e705, 0xd0cf_e4ea_88a3_f907, 0xe29a_8324_d5fa_985e],
        permutation,
    );
    check::<i32>(
        &[1, 2, 15, 1000],
        &[0x6897_9adc_5e75_bb2b, 0x5297_bdcc_ea5f_f8c5, 0xef4b_e3ea_bc41_e867, 0xe7f6_8e8d_4ecf_f50e],
        permutation,
    );
    check::<i64>(
        &[1, 2, 15, 1000],
        &[0xfccf_52c6_ea0a_a83b, 0x12b5_1ec0_419d_7d45, 0x1c70_2c1f_b9dc_e4c7, 0xc4fa_2488_76a1_404e],
        permutation,
    );
    check::<f16>(
        &[1, 2, 15, 1000],
        &[0x5192_8d43_5d76_3313, 0xa359_f56b_1698_2628, 0xc662_ed92_32f3_9e9b, 0xe98d_6c30_20cc_4bbc],
        permutation,
    );
    check::<f32>(
        &[1, 2, 15, 1000],
        &[0x6897_9adc_5e75_bb2b, 0xf490_72c8_0df6_e8f9, 0x77d0_3d94_7707_8026, 0xd321_4a3f_caab_0ab3],
        permutation,
    );
    check::<f64>(
        &[1, 2, 15, 1000],
        &[0xfccf_52c6_ea0a_a83b, 0x05d6_d012_0c1f_4e59, 0x5205_10a0_810b_d26f, 0x5f96_8f46_ef6d_3e27],
        permutation,
    );
}

#[test]
fn bernoulli_golden() {
    check::<Bool>(&TWO, &[0x5802_a44f_f3b7_fecd, 0x8916_c796_bb02_7183], |g, o| bernoulli(g, o, 0.3));
    check::<u8>(&TWO, &[0x5802_a44f_f3b7_fecd, 0x8916_c796_bb02_7183], |g, o| bernoulli(g, o, 0.3));
    check::<i8>(&TWO, &[0x5802_a44f_f3b7_fecd, 0x8916_c796_bb02_7183], |g, o| bernoulli(g, o, 0.3));
    check::<i16>(&TWO, &[0x6487_7af1_8dc8_5ddd, 0xa559_b0e0_ca78_f64f], |g, o| bernoulli(g, o, 0.3));
    check::<i32>(&TWO, &[0xcfac_9d3d_6f3b_b30d, 0xd1ba_db6e_f6e3_515f], |g, o| bernoulli(g, o, 0.3));
    check::<i64>(&TWO, &[0xd6cb_14ec_feb6_ed2d, 0x2dcf_56ec_7041_b7bf], |g, o| bernoulli(g, o, 0.3));
    check::<f16>(&TWO, &[0x0652_44de_c205_7548, 0x6ec6_1745_1347_985f], |g, o| bernoulli(g, o, 0.3));
    check::<bf16>(&TWO, &[0x65bd_140c_ebef_b081, 0xe4f8_e8a2_e831_630f], |g, o| bernoulli(g, o, 0.3));
    check::<f32>(&TWO, &[0x61db_c827_235e_8d99, 0x1e40_1084_1318_bddf], |g, o| bernoulli(g, o, 0.3));
    check::<f64>(&TWO, &[0x8266_d6c2_6f86_51d9, 0xcfe6_5a55_8403_a8bf], |g, o| bernoulli(g, o, 0.3));
}

#[test]
fn bernoulli_each_golden() {
    check::<f16>(&TWO, &[0xa297_d858_35aa_7898, 0x6d29_88dc_0fc0_0992], |g, o| {
        let p: Vec<f16> = (0..o.len()).map(|i| f16::from_f64(i as f64 / o.len() as f64)).collect();
        bernoulli_each(g, o, &p);
    });
    check::<bf16>(&TWO, &[0xe414_f5e2_84f4_a880, 0x7536_48e4_de2a_f8a7], |g, o| {
        let p: Vec<bf16> = (0..o.len()).map(|i| bf16::from_f64(i as f64 / o.len() as f64)).collect();
        bernoulli_each(g, o, &p);
    });
    check::<f32>(&TWO, &[0x75f2_a47b_57e8_8f80, 0xc4a0_39b7_950f_aff2], |g, o| {
        let p: Vec<f32> = (0..o.len()).map(|i| f32::from_f64(i as f64 / o.len() as f64)).collect();
        bernoulli_each(g, o, &p);
    });
    check::<f64>(&TWO, &[0x65fa_d97a_e581_f3ec, 0x941e_7c92_5558_07df], |g, o| {
        let p: Vec<f64> = (0..o.len()).map(|i| f64::from_f64(i as f64 / o.len() as f64)).collect();
        bernoulli_each(g, o, &p);
    });
}

#[test]
fn exponential_golden() {
    check::<f16>(&TWO, &[0x8722_9bc1_a701_e1b3, 0x225d_90a0_1c50_a188], |g, o| exponential(g, o, 1.7));
    check::<bf16>(&TWO, &[0xb8e5_4e77_ce60_c96b, 0xfd98_52e5_afe1_4b5e], |g, o| exponential(g, o, 1.7));
    check::<f32>(&TWO, &[0xdeb3_98ed_7d51_6843, 0x95fd_95ad_c520_04e9], |g, o| exponential(g, o, 1.7));
}

#[test]
fn geometric_golden() {
    check::<u8>(&TWO, &[0xd4af_4ed5_c79c_7979, 0x9580_febf_7b2d_594f], |g, o| geometric(g, o, 0.05));
    check::<i8>(&TWO, &[0xd4af_4ed5_c79c_7979, 0x9580_febf_7b2d_594f], |g, o| geometric(g, o, 0.05));
    check::<i16>(&TWO, &[0xece4_1ebf_8598_6363, 0x7a4d_b37d_d94a_50d7], |g, o| geometric(g, o, 0.05));
    check::<i32>(&TWO, &[0xdd86_9ef4_2368_809b, 0x1a25_de8d_c28f_1d67], |g, o| geometric(g, o, 0.05));
    check::<i64>(&TWO, &[0x4c75_ab24_e302_398b, 0xd8d2_c73a_085c_07a7], |g, o| geometric(g, o, 0.05));
    check::<f16>(&TWO, &[0x0a75_4b02_f989_82d3, 0xb0e5_f33b_b6ac_ad34], |g, o| geometric(g, o, 0.05));
    check::<bf16>(&TWO, &[0x04c1_3207_8cb8_051d, 0x0303_fe18_0121_853f], |g, o| geometric(g, o, 0.05));
    check::<f32>(&TWO, &[0x2903_cb06_ea31_e21d, 0x4387_f026_afb0_b0f7], |g, o| geometric(g, o, 0.05));
    check::<f64>(&TWO, &[0x1e25_1010_a28a_d838, 0xd8ee_8749_e2df_a39d], |g, o| geometric(g, o, 0.05));
}

#[test]
fn cauchy_golden() {
    check::<f16>(&TWO, &[0x2c5a_889b_a04b_b488, 0x9b21_f3de_f0c5_388f], |g, o| cauchy(g, o, 0.3, 1.7));
    check::<bf16>(&TWO, &[0xfc29_a2c0_001e_88c9, 0x602a_0415_c994_647d], |g, o| cauchy(g, o, 0.3, 1.7));
    check::<f32>(&TWO, &[0x4514_e41d_2530_5218, 0x51ce_65d8_3d6c_d3f7], |g, o| cauchy(g, o, 0.3, 1.7));
}

#[test]
fn log_normal_golden() {
    check::<f16>(&TWO, &[0x2f2e_0463_72b2_d15a, 0x7674_5463_d4be_c547], |g, o| log_normal(g, o, 0.3, 0.7));
    check::<bf16>(&TWO, &[0xeb70_a2a8_bf20_1ca7, 0x8f70_afd8_0365_fd3a], |g, o| log_normal(g, o, 0.3, 0.7));
    check::<f32>(&TWO, &[0xb63d_541c_2f07_3a1d, 0x40cd_c0a3_66ad_a397], |g, o| log_normal(g, o, 0.3, 0.7));
}

#[test]
fn poisson_golden() {
    check::<f16>(&TWO, &[0x9cbe_5d00_8d6f_2199, 0xb8e5_f093_b56f_b890], |g, o| {
        let rates = halves(o.len());
        poisson(g, o, &rates).unwrap();
    });
    check::<bf16>(&TWO, &[0x6ec7_8caf_2461_c9de, 0xebd3_c5df_3c70_77fb], |g, o| {
        let rates = halves(o.len());
        poisson(g, o, &rates).unwrap();
    });
    check::<f32>(&TWO, &[0xe116_cd73_9eef_118e, 0xd285_ce04_6f1a_fd23], |g, o| {
        let rates = halves(o.len());
        poisson(g, o, &rates).unwrap();
    });
    check::<f64>(&TWO, &[0x93df_a262_e4e8_61d9, 0x82ec_11be_964c_046b], |g, o| {
        let rates = halves(o.len());
        poisson(g, o, &rates).unwrap();
    });
}

#[test]
fn gamma_golden() {
    check::<f32>(&TWO, &[0xcf4c_646a_219b_eebd, 0x0a63_0ec7_1d3a_c5fb], |g, o| {
        let shapes = halves(o.len());
        standard_gamma(g, o, &shapes);
    });
}

#[test]
fn binomial_golden() {
    check::<f32>(&TWO, &[0x58d7_6286_7ac9_f622, 0x1466_3be9_5004_9d53], |g, o| {
        let counts: Vec<f32> = (0..o.len()).map(|i| f32::from_f64((i % 60) as f64)).collect();
        let p: Vec<f32> = (0..o.len()).map(|i| f32::from_f64((i % 8) as f64 / 8.0)).collect();
        binomial(g, o, &counts, &p);
    });
    check::<f64>(&TWO, &[0x1179_1592_f2ee_3093, 0x3abc_6676_90c7_ff48], |g, o| {
        let counts: Vec<f64> = (0..o.len()).map(|i| f64::from_f64((i % 60) as f64)).collect();
        let p: Vec<f64> = (0..o.len()).map(|i| f64::from_f64((i % 8) as f64 / 8.0)).collect();
        binomial(g, o, &counts, &p);
    });
}

fn close(found: &[f64], golden: &[f64]) {
    assert_eq!(found.len(), golden.len());
    for (f, g) in found.iter().zip(golden) {
        assert!((f - g).abs() <= 1e-14 * g.abs(), "{found:?} {golden:?}");
    }
}

fn doubles(n: usize, fill: impl Fn(&mut Generator, &mut [f64])) -> Vec<f64> {
    let mut out = vec![0.0; n];
    fill(&mut Generator::new(77), &mut out);
    out
}

/// Doubles to a few units in the last place: the system's `log`, `sin` and so on are not the same everywhere.
#[test]
fn doubles_golden() {
    close(
        &doubles(5, |g, o| normal(g, o, 0.3, 1.7)),
        &[-0.3066241620898672, 1.3212353800888281, -0.884527238203704, -0.5911284476282976, 1.8447149669302008],
    );
    let block = [
        1.8363850522172036,
        -1.012307066491474,
        -1.0262677645443565,
        -3.276484084821524,
        1.0006451719969494,
        0.6862890975109128,
        -0.15594138941267538,
        3.673106229602777,
        2.1609611563356346,
        1.7246717184012723,
        -0.7165876628230777,
        -0.8183901352552335,
        -1.0729113457487756,
        5.280237270003269,
        -0.4469263834343061,
        -3.567681894029658,
        -2.1442451561791387,
    ];
    close(&doubles(17, |g, o| normal(g, o, 0.3, 1.7)), &block);
    close(&doubles(3, |g, o| exponential(g, o, 1.7)), &[0.2402534835945711, 0.1435899222039901, 0.5429062584824328]);
    close(&doubles(3, |g, o| cauchy(g, o, 0.3, 1.7)), &[-0.6674867050453087, -1.8003194323055465, 0.8680600795384334]);
    close(
        &doubles(3, |g, o| log_normal(g, o, 0.3, 0.7)),
        &[1.0514956511683116, 2.0554785377385687, 0.8288247795247863],
    );
    close(
        &doubles(3, |g, o| standard_gamma(g, o, &[0.3, 1.0, 9.0])),
        &[0.3261493571210371, 2.4466492205447348, 12.641039316107532],
    );
}

#[test]
fn multinomial_golden() {
    fn draw<T: Element>() {
        let weights: Vec<T> = (0..12).map(|i| T::from_i64(i * 7 % 5 + 1)).collect();
        let mut generator = Generator::new(77);
        let mut out = [0; 16];
        multinomial_with_replacement(&mut generator, &mut out, &weights, 6).unwrap();
        assert_eq!(out, [2, 1, 3, 2, 4, 4, 5, 1, 0, 0, 1, 3, 2, 1, 2, 2]);
        let mut out = [0; 8];
        multinomial_without_replacement(&mut generator, &mut out, &weights, 6);
        assert_eq!(out, [0, 2, 4, 1, 0, 3, 5, 2]);
        let mut out = [0; 2];
        multinomial_without_replacement(&mut generator, &mut out, &weights, 6);
        assert_eq!(out, [1, 1]);
    }
    draw::<f16>();
    draw::<bf16>();
    draw::<f32>();
    draw::<f64>();
}

#[test]
fn impossible_parameters() {
    let mut generator = Generator::new(77);
    for weights in [[-1.0f32, 2.0], [f32::NAN, 2.0], [f32::INFINITY, 2.0], [0.0, 0.0]] {
        assert!(multinomial_with_replacement(&mut generator, &mut [0], &weights, 2).is_err());
        multinomial_without_replacement(&mut generator, &mut [0], &weights, 2);
    }
    assert!(poisson(&mut generator, &mut [0.0], &[-1.0]).is_err());
    assert!(poisson(&mut generator, &mut [0.0], &[f64::NAN]).is_err());
    let mut out = [0.0f32; 3];
    standard_gamma(&mut generator, &mut out, &[-1.0, f32::NAN, f32::INFINITY]);
    assert_eq!(out, [f32::MIN_POSITIVE, f32::MIN_POSITIVE, f32::INFINITY]);
    binomial(&mut generator, &mut out, &[5.0, f32::NAN, f32::INFINITY], &[f32::NAN, 0.5, 0.5]);
    uniform(&mut generator, &mut out, f64::NAN, f64::INFINITY);
    normal::<f32>(&mut generator, &mut [], 0.0, 1.0);
    permutation::<i64>(&mut generator, &mut []);
}

#[test]
fn state_golden() {
    let mut generator = Generator::new(5);
    assert_eq!(hash(generator.get_state()), 0x1b35_da5b_1d8e_2398);
    uniform(&mut generator, &mut [0.0f32; 700], 0.0, 1.0);
    normal(&mut generator, &mut [0.0f32; 3], 0.0, 1.0);
    let state = generator.get_state();
    assert_eq!(hash(state.clone()), 0xc905_e5e8_71e6_3152);

    let mut other = Generator::default();
    other.set_state(&state).unwrap();
    assert_eq!(other.initial_seed(), 5);
    assert_eq!(other.get_state(), state);
    let (mut a, mut b) = ([0.0f64; 1001], [0.0f64; 1001]);
    normal_in_pairs(&mut generator, &mut a, 0.0, 1.0);
    normal_in_pairs(&mut other, &mut b, 0.0, 1.0);
    assert_eq!(a, b);
}

#[test]
fn state_errors() {
    let mut generator = Generator::new(5);
    let message = generator.set_state(&[0; 10]).unwrap_err().to_string();
    assert!(
        message.contains("Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be 10")
    );
    assert!(generator.set_state(&[0; STATE_SIZE]).unwrap_err().to_string().contains("Invalid mt19937 state"));
    // Counters that PyTorch accepts but never makes.
    let mut state = generator.get_state();
    state[8..10].copy_from_slice(&600u16.to_le_bytes());
    state[16..18].copy_from_slice(&624u16.to_le_bytes());
    generator.set_state(&state).unwrap();
    uniform(&mut generator, &mut [0.0f64; 700], 0.0, 1.0);
}

/// Large fills go through several pieces and must equal one draw at a time.
#[test]
fn pieces() {
    let n = (1 << 17) + 21;
    let mut generator = Generator::new(1);
    generator.next_u32();
    let mut out = vec![0.0f64; n];
    exponential(&mut generator, &mut out, 1.0);
    let mut single = Generator::new(1);
    single.next_u32();
    assert!(out.iter().all(|&x| x == -(-single.next_f64()).ln_1p()));
    assert!(single == generator);

    let mut long = vec![0.0f32; n];
    normal(&mut Generator::new(1), &mut long, 0.0, 1.0);
    let mut generator = Generator::new(1);
    let mut short = [0.0f32; 32];
    for piece in long[..n - 32].chunks(32).take_while(|piece| piece.len() == 32) {
        normal(&mut generator, &mut short, 0.0, 1.0);
        assert_eq!(short, piece);
    }
}

#[test]
fn seeds() {
    let mut generator = Generator::default();
    assert_eq!(generator.initial_seed(), DEFAULT_SEED);
    let seed = generator.seed();
    assert!(seed < 1 << 53 && generator.initial_seed() == seed && generator == Generator::new(seed));
    assert_ne!(generator.seed(), seed);
}

#[test]
fn order_of_memory() {
    assert_eq!(memory_order(&[2, 4, 3], &[1, 2, 8])[..], [2, 1, 0]);
    assert_eq!(memory_order(&[2, 3, 4], &[12, 4, 1])[..], [0, 1, 2]);
    assert_eq!(memory_order(&[1, 3, 4], &[4, 4, 1])[..], [1, 0, 2]);
}
