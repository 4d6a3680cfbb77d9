//! Names, state dicts, checkpoints, and what a loader does with a bad data set.

use flambeau::{DType, Tensor};
use flambeau_nn::checkpoint::Checkpoint;
use flambeau_nn::data::LoaderOptions;
use flambeau_nn::*;

#[derive(Module)]
struct Block<T> {
    layers: Vec<Linear>,
    scale: Option<Parameter>,
    absent: Option<Parameter>,
    shift: Buffer,
    table: Buffer,
    width: i64,
    inner: T,
    #[module(skip)]
    note: std::sync::OnceLock<i64>,
    dropout: Dropout,
}

#[derive(Module)]
struct Pair(BatchNorm1d, Linear);

fn block() -> Result<Block<Pair>> {
    let zeros = || Tensor::zeros(&[2], DType::F32);
    Ok(Block {
        layers: vec![Linear::new(2, 2)?, Linear::without_bias(2, 2)?],
        scale: Some(Parameter::new(zeros()?)?),
        absent: None,
        shift: Buffer::new(zeros()?),
        table: Buffer::not_persistent(zeros()?),
        width: 2,
        inner: Pair(BatchNorm1d::new(2)?, Linear::new(2, 1)?),
        note: Default::default(),
        dropout: Dropout::new(0.5)?,
    })
}

#[test]
fn names_follow_the_fields() -> Result<()> {
    let b = block()?;
    assert_eq!((b.width, b.note.get()), (2, None));
    let names = |list: Vec<(String, Tensor)>| list.into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    let expected = [
        "layers.0.weight",
        "layers.0.bias",
        "layers.1.weight",
        "scale",
        "inner.0.weight",
        "inner.0.bias",
        "inner.1.weight",
        "inner.1.bias",
    ];
    assert_eq!(names(b.named_parameters()), expected);
    let statistics = ["running_mean", "running_var", "num_batches_tracked"].map(|n| format!("inner.0.{n}"));
    assert_eq!(names(b.named_buffers()), [&["shift".to_owned(), "table".to_owned()], &statistics[..]].concat());
    assert!(!b.state_dict()?.contains_key("table"));
    assert_eq!(b.state_dict()?.len(), 8 + 1 + 3);
    assert_eq!(b.type_name(), "Block");
    Ok(())
}

#[test]
fn training_mode_reaches_all() -> Result<()> {
    let b = block()?;
    let ones = Tensor::ones(&[64], DType::F32)?;
    b.eval();
    assert!(b.dropout.forward(&ones)?.equal(&ones)?);
    b.train(true);
    assert!(!b.dropout.forward(&ones)?.equal(&ones)?);
    Ok(())
}

#[test]
fn shared_parameters_come_once_and_stay_shared() -> Result<()> {
    let first = Linear::new(2, 2)?;
    let second = Linear { weight: first.weight.clone(), bias: None };
    let mut both = vec![first, second];
    assert_eq!(both.parameters().len(), 2);
    assert_eq!(both.state_dict()?.len(), 3);
    both.to(Some(DType::F64), None)?;
    assert_eq!(both.parameters().len(), 2);
    assert!(both.parameters().iter().all(|p| p.dtype() == DType::F64 && p.requires_grad() && p.is_leaf()));
    assert!(both.to(Some(DType::I64), None).is_err());
    Ok(())
}

#[test]
fn states_are_loaded_whole_or_not_at_all() -> Result<()> {
    let (a, b) = (block()?, block()?);
    b.load_state_dict(&a.state_dict()?, true)?;
    for (name, t) in a.state_dict()?.iter() {
        assert!(t.equal(&b.state_dict()?[name])?, "{name}");
    }

    let net = Sequential::new().then(Linear::new(2, 2)?);
    let before = net.state_dict()?["0.weight"].to_vec::<f32>()?;
    let bad: StateDict = [
        ("0.weight".to_owned(), Tensor::zeros(&[3, 2], DType::F32)?),
        ("x".to_owned(), Tensor::zeros(&[1], DType::F32)?),
    ]
    .into_iter()
    .collect();
    let error = net.load_state_dict(&bad, true).unwrap_err();
    assert_eq!(
        error.message(),
        "Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: \"0.bias\". \n\tUnexpected \
         key(s) in state_dict: \"x\". \n\tsize mismatch for 0.weight: copying a param with shape torch.Size([3, 2]) from \
         checkpoint, the shape in current model is torch.Size([2, 2])."
    );
    assert_eq!(net.state_dict()?["0.weight"].to_vec::<f32>()?, before);
    let weight: StateDict = [("0.weight".to_owned(), Tensor::zeros(&[2, 2], DType::F64)?)].into_iter().collect();
    assert!(net.load_state_dict(&weight, true).is_err());
    let report = net.load_state_dict(&weight, false)?;
    assert_eq!(report.missing_keys, ["0.bias"]);
    assert_eq!(net.state_dict()?["0.weight"].to_vec::<f32>()?, [0.0; 4]);
    Ok(())
}

#[test]
fn checkpoints() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("flambeau-nn-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("x.safetensors");
    let (a, b) = (block()?, block()?);
    let mut saved = Checkpoint::new();
    saved.state.insert_section("model", &a.state_dict()?);
    saved.metadata.insert("epoch".to_owned(), "3".to_owned());
    saved.save(&path)?;
    let loaded = Checkpoint::load(&path)?;
    assert_eq!(loaded.metadata, saved.metadata);
    b.load_state_dict(&loaded.state.section("model"), true)?;
    assert!(b.state_dict()?["inner.1.weight"].equal(&a.state_dict()?["inner.1.weight"])?);

    // A tensor without data must not cost the file that is there.
    let meta = Tensor::empty(&[2], (DType::F32, flambeau::Device::META))?;
    saved.state.insert("bad".to_owned(), meta);
    assert!(saved.save(&path).is_err());
    assert!(Checkpoint::load(&path).is_ok());

    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 7, 8, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert!(Checkpoint::load(&path).is_err(), "cut to {cut}");
    }
    let mut broken = whole.clone();
    broken[12] = 0xff;
    std::fs::write(&path, &broken).unwrap();
    assert!(Checkpoint::load(&path).is_err());
    assert!(Checkpoint::load(folder.join("none")).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
    Ok(())
}

#[test]
fn pytorchs_files() -> Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tensor/tests/data/pytorch.pt");
    let checkpoint = Checkpoint::load(path)?;
    assert_eq!(checkpoint.metadata["epoch"], "3");
    let net = Linear::new(2, 3)?;
    let mut state = checkpoint.state.section("model");
    state.remove("tied");
    state.insert("bias".to_owned(), checkpoint.state["dtypes.float64"].clone());
    net.load_state_dict(&state, true)?;
    assert_eq!(net.weight.to_vec::<f32>()?, [2.0, 5.0, 3.0, 6.0, 4.0, 7.0]);
    assert!(net.weight.requires_grad());
    // What shares memory in the file does not in the module.
    init::zeros_(&net.weight)?;
    assert_eq!(state["weight"].to_vec::<f32>()?[0], 2.0);
    Ok(())
}

#[derive(Module)]
struct Named {
    #[module(name = "LayerNorm")]
    norm: LayerNorm,
}

#[test]
fn fields_may_be_named_otherwise() -> Result<()> {
    let named = Named { norm: LayerNorm::new(&[2])? };
    assert_eq!(named.named_parameters()[1].0, "LayerNorm.bias");
    Ok(())
}

struct Bad;
impl Dataset for Bad {
    type Item = (Tensor, i64);
    fn len(&self) -> usize {
        6
    }
    fn get(&self, index: usize) -> Result<(Tensor, i64)> {
        match index {
            2 => Err(Error::io("no such example")),
            4 => panic!("broken example"),
            5 => Ok((Tensor::zeros(&[3], DType::F32)?, 5)),
            i => Ok((Tensor::zeros(&[2], DType::F32)?, i as i64)),
        }
    }
}

#[test]
fn a_bad_example_is_an_error_in_its_place() -> Result<()> {
    for workers in [0, 2] {
        let options = LoaderOptions { batch_size: 2, workers, ..LoaderOptions::default() };
        let batches: Vec<_> = DataLoader::new(Bad, options.clone())?.iter()?.collect();
        assert_eq!(batches.len(), 3);
        let (images, labels) = batches[0].as_ref().unwrap();
        assert_eq!((images.sizes(), labels.to_vec::<i64>()?), (&[2, 2][..], vec![0, 1]));
        assert!(batches[1].as_ref().is_err_and(|e| e.message().contains("no such example")));
        assert!(batches[2].as_ref().is_err_and(|e| e.message().contains("broken example")));
        // Leaving early must not hang.
        drop(DataLoader::new(Bad, options)?.iter()?.next());
    }
    assert!(DataLoader::new(Bad, LoaderOptions { batch_size: 0, ..LoaderOptions::default() }).is_err());
    assert!(TensorDataset::new(vec![]).is_err());
    Ok(())
}
