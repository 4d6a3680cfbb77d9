//! A device of another crate, through the public interface alone: memory of its own, a few kernels, a fall-back for
//! every other operator, an operator of its own with a derivative, a layer above the backends, and everything undone by
//! dropping the handles.

use flambeau::registry::{OpBuilder, Registration, register_fallback, register_kernel};
use flambeau::value::take;
use flambeau::{
    Body, DType, Device, DeviceKind, ErrorKind, Key, KeyGuard, KeySet, Op, Operand, Outputs, OwnedValue, Result,
    Scalar, Storage, Tensor, Value, allocator, autograd, backward, dispatch, registry,
};
use flambeau_base::storage::LockSet;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

// ---- memory -------------------------------------------------------------------------------------

static BLOCKS: AtomicUsize = AtomicUsize::new(0);
static BYTES_EVER: AtomicUsize = AtomicUsize::new(0);

/// Host memory that is counted.
struct Counted;

impl allocator::Allocator for Counted {
    fn allocate(&self, _device: Device, nbytes: usize) -> Result<NonNull<u8>> {
        let block = allocator::Allocator::allocate(&allocator::CPU, Device::CPU, nbytes)?;
        BLOCKS.fetch_add(1, SeqCst);
        BYTES_EVER.fetch_add(nbytes, SeqCst);
        Ok(block)
    }
    unsafe fn deallocate(&self, _device: Device, data: NonNull<u8>, nbytes: usize) {
        BLOCKS.fetch_sub(1, SeqCst);
        // SAFETY: the block came from this allocator with this size.
        unsafe { allocator::Allocator::deallocate(&allocator::CPU, Device::CPU, data, nbytes) }
    }
}

// ---- kernels ------------------------------------------------------------------------------------

/// Copies all bytes of one storage to another of the same size.
fn copy_bytes(to: &Storage, from: &Storage) -> Result<()> {
    let _locks = LockSet::new([(to, true), (from, false)])?;
    // SAFETY: both hold as many bytes, both are locked, and they are different blocks.
    unsafe { std::ptr::copy_nonoverlapping(from.data_ptr(), to.data_ptr(), from.nbytes().min(to.nbytes())) };
    Ok(())
}

/// The same tensor in host memory: same strides, same offset.
fn to_host(t: &Tensor) -> Result<Tensor> {
    let storage = Storage::new(Device::CPU, t.storage().nbytes())?;
    copy_bytes(&storage, t.storage())?;
    Tensor::from_storage(storage, t.dtype(), t.sizes(), t.strides(), t.storage_offset())
}

fn is_toy(t: &Tensor) -> bool {
    t.device().kind.name() == "toy"
}

fn copy(op: &'static Op, _keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let (to, from): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let from = if is_toy(from) { to_host(from)? } else { from.clone() };
    if !is_toy(to) {
        return to.copy_(&from).map(Outputs::from);
    }
    let through = to_host(to)?;
    through.copy_(&from)?;
    copy_bytes(to.storage(), through.storage())?;
    Ok(to.clone().into())
}

fn fill(op: &'static Op, _keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    let (t, value): (&Tensor, Scalar) = (take(op, args, 0)?, take(op, args, 1)?);
    t.copy_(&Tensor::full(&[], value, t.dtype())?).map(Outputs::from)
}

static FALLEN_BACK: AtomicUsize = AtomicUsize::new(0);

/// Runs any operator in host memory, and brings back what it gives and what it wrote.
fn on_host(op: &'static Op, _keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    FALLEN_BACK.fetch_add(1, SeqCst);
    let mut device = None;
    let mut pairs: Vec<(Tensor, Tensor)> = Vec::new();
    let mut host = |t: &Tensor| -> Result<Tensor> {
        if !is_toy(t) {
            return Ok(t.clone());
        }
        device = Some(t.device());
        let copy = to_host(t)?;
        pairs.push((t.clone(), copy.clone()));
        Ok(copy)
    };
    let mut moved = Vec::new();
    for a in args {
        moved.push(match a.to_owned() {
            OwnedValue::Tensor(t) => OwnedValue::Tensor(host(&t)?),
            OwnedValue::Tensors(ts) => OwnedValue::Tensors(ts.iter().map(&mut host).collect::<Result<_>>()?),
            OwnedValue::OptionalTensors(ts) => OwnedValue::OptionalTensors(
                ts.iter().map(|t| t.as_ref().map(&mut host).transpose()).collect::<Result<_>>()?,
            ),
            OwnedValue::Device(_) => OwnedValue::Device(Device::CPU),
            other => other,
        });
    }
    let borrowed: Vec<Value<'_>> = moved.iter().map(OwnedValue::borrow).collect();
    let outputs = op.redispatch(KeySet::of(Key::CPU), &borrowed)?;
    if op.mutates() {
        for (t, copy) in &pairs {
            copy_bytes(t.storage(), copy.storage())?;
        }
    }
    let back = |t: Tensor| match (pairs.iter().find(|(_, copy)| copy.is_same(&t)), device) {
        (Some((original, _)), _) => Ok(original.clone()),
        (None, Some(device)) => t.to_device(device),
        (None, None) => Ok(t),
    };
    Ok(match outputs {
        Outputs::One(t) => back(t)?.into(),
        Outputs::Many(ts) => Outputs::Many(ts.into_iter().map(|t| t.map(back).transpose()).collect::<Result<_>>()?),
        other => other,
    })
}

static OWN_KERNEL: AtomicUsize = AtomicUsize::new(0);

/// A kernel for two contiguous f32 tensors of one shape; the rest falls back.
fn elementwise(f: fn(f32, f32) -> f32) -> impl Fn(&'static Op, KeySet, &[Value<'_>]) -> Result<Outputs> {
    move |op, keys, args| {
        let (a, b): (&Tensor, Operand) = (take(op, args, 0)?, take(op, args, 1)?);
        let plain = |t: &Tensor| t.dtype() == DType::F32 && t.is_contiguous() && is_toy(t);
        let scaled = args.get(2).is_some_and(|alpha| !matches!(alpha, Value::None | Value::Scalar(Scalar::Int(1))));
        match b {
            Operand::Tensor(b) if plain(a) && plain(b) && a.sizes() == b.sizes() && !scaled => {
                OWN_KERNEL.fetch_add(1, SeqCst);
                let out = Tensor::empty(a.sizes(), (DType::F32, a.device()))?;
                let locks = LockSet::new([(a.storage(), false), (b.storage(), false), (out.storage(), true)])?;
                let (x, y, z) = (a.data_ptr() as *const f32, b.data_ptr() as *const f32, out.data_ptr() as *mut f32);
                for i in 0..a.numel() as usize {
                    // SAFETY: all three are contiguous with this many elements, and locked.
                    unsafe { z.add(i).write(f(x.add(i).read(), y.add(i).read())) };
                }
                drop(locks);
                Ok(out.into())
            }
            _ => on_host(op, keys, args),
        }
    }
}

fn sum(op: &'static Op, keys: KeySet, args: &[Value<'_>]) -> Result<Outputs> {
    OWN_KERNEL.fetch_add(1, SeqCst);
    on_host(op, keys, args)
}

// ---- the device ---------------------------------------------------------------------------------

/// Registrations are seen by the whole process: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Toy {
    device: Device,
    key: Key,
    kernels: Vec<Registration>,
    _turn: MutexGuard<'static, ()>,
}

/// The device with its memory alone.
fn bare() -> Result<Toy> {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    // A kind stays for the life of the process.
    let kind = DeviceKind::by_name("toy").map_or_else(|| DeviceKind::register("toy", Counted), Ok)?;
    Ok(Toy { device: kind.into(), key: Key::backend(kind), kernels: vec![], _turn: turn })
}

fn toy() -> Result<Toy> {
    let mut toy = bare()?;
    let key = toy.key;
    toy.kernels.push(register_kernel("copy_", key, copy)?);
    toy.kernels.push(register_kernel("fill_.Scalar", key, fill)?);
    toy.kernels.push(register_kernel("add.Tensor", key, elementwise(|x, y| x + y))?);
    toy.kernels.push(register_kernel("mul.Tensor", key, elementwise(|x, y| x * y))?);
    toy.kernels.push(register_kernel("sum", key, sum)?);
    toy.kernels.push(register_fallback(key, on_host));
    Ok(toy)
}

#[test]
fn its_memory_comes_from_its_allocator() -> Result<()> {
    let toy = toy()?;
    let (blocks, bytes) = (BLOCKS.load(SeqCst), BYTES_EVER.load(SeqCst));
    let x = Tensor::empty(&[3, 5], (DType::F32, toy.device))?;
    assert_eq!((BLOCKS.load(SeqCst), BYTES_EVER.load(SeqCst)), (blocks + 1, bytes + 60));
    assert_eq!(x.device(), toy.device);
    let view = x.t()?;
    drop(x);
    assert_eq!(BLOCKS.load(SeqCst), blocks + 1);
    drop(view);
    assert_eq!(BLOCKS.load(SeqCst), blocks);
    Ok(())
}

#[test]
fn values_go_there_and_back() -> Result<()> {
    let toy = toy()?;
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?.view(&[2, 3])?;
    let there = x.t()?.to_device(toy.device)?;
    assert_eq!((there.device(), there.sizes(), there.strides()), (toy.device, &[3, 2][..], &[1, 3][..]));
    assert_eq!(there.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(there.to_dtype(DType::F64)?.to_vec::<f64>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    there.select(0, 1)?.fill_(7)?;
    assert_eq!(there.to_vec::<f32>()?, [1.0, 4.0, 7.0, 7.0, 3.0, 6.0]);
    assert_eq!(Tensor::ones(&[2], (DType::I32, toy.device))?.to_vec::<i32>()?, [1, 1]);
    Ok(())
}

#[test]
fn its_kernels_run_and_the_rest_falls_back() -> Result<()> {
    let toy = toy()?;
    let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0])?.to_device(toy.device)?;
    let (own, fallen) = (OWN_KERNEL.load(SeqCst), FALLEN_BACK.load(SeqCst));
    let y = x.add(&x)?.mul(&x)?;
    assert_eq!((OWN_KERNEL.load(SeqCst), FALLEN_BACK.load(SeqCst)), (own + 2, fallen));
    assert_eq!(y.to_vec::<f32>()?, [2.0, 8.0, 18.0]);
    // In place: the form is derived from the functional kernel.
    x.add_(&x)?;
    assert_eq!(x.to_vec::<f32>()?, [2.0, -4.0, 6.0]);
    assert_eq!(OWN_KERNEL.load(SeqCst), own + 3);
    // A number, broadcasting, another dtype, and operators it has never heard of.
    assert_eq!(x.add(1)?.to_vec::<f32>()?, [3.0, -3.0, 7.0]);
    assert_eq!(
        registry::find("add.Scalar").unwrap().call(&[(&x).into(), Scalar::Int(2).into()])?.one()?.device(),
        toy.device
    );
    let z = x.abs()?;
    assert_eq!((z.device(), z.to_vec::<f32>()?), (toy.device, vec![2.0, 4.0, 6.0]));
    assert!(FALLEN_BACK.load(SeqCst) > fallen);
    x.abs_()?;
    assert_eq!(x.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
    assert_eq!(x.softmax(0, None)?.device(), toy.device);
    let both = Tensor::cat(&[x.clone(), z], 0)?;
    assert_eq!((both.device(), both.sizes()), (toy.device, &[6][..]));
    Ok(())
}

#[test]
fn gradients_flow_through_it() -> Result<()> {
    let toy = toy()?;
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0])?.to_device(toy.device)?.requires_grad_(true)?;
    let w = Tensor::from_slice(&[2.0f32, 0.5, 1.0])?.requires_grad_(true)?;
    let y = x.mul(&w.to_device(toy.device)?)?.exp()?.sum()?;
    y.backward()?;
    let (gx, gw) = (x.grad().unwrap(), w.grad().unwrap());
    assert_eq!((gx.device(), gw.device()), (toy.device, Device::CPU));
    let e: Vec<f32> = [2.0f32, 1.0, 3.0].iter().map(|v| v.exp()).collect();
    let close = |t: &Tensor, want: [f32; 3]| -> Result<bool> {
        Ok(t.to_vec::<f32>()?.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-4 * b.abs()))
    };
    assert!(close(&gx, [2.0 * e[0], 0.5 * e[1], e[2]])?);
    assert!(close(&gw, [e[0], 2.0 * e[1], 3.0 * e[2]])?);
    Ok(())
}

#[test]
fn an_operator_of_its_own_has_a_derivative() -> Result<()> {
    let toy = toy()?;
    let (scale, registration) = OpBuilder::new("toylib::scale(Tensor self, float by) -> Tensor", Body::Registered)
        .doc("Multiplies by a number.")
        .derivative(backward! { self_(g, by: f64) => g.mul(by)? })
        .register()?;
    let run = |op: &'static Op, _: KeySet, args: &[Value<'_>]| {
        take::<&Tensor>(op, args, 0)?.mul(take::<f64>(op, args, 1)?).map(Outputs::from)
    };
    let kernels = [register_kernel("toylib::scale", toy.key, run)?, register_kernel("toylib::scale", Key::CPU, run)?];
    for device in [toy.device, Device::CPU] {
        let x = Tensor::from_slice(&[1.0f64, 2.0])?.to_device(device)?.requires_grad_(true)?;
        let y = scale.call(&[(&x).into(), 3.0.into()])?.one()?;
        assert_eq!(y.to_vec::<f64>()?, [3.0, 6.0]);
        y.backward_with(&Tensor::ones(&[2], (DType::F64, device))?, false, false)?;
        assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [3.0, 3.0]);
    }
    let x = Tensor::from_slice(&[0.5f64])?.requires_grad_(true)?;
    let f = |x: &[Tensor]| Ok(vec![scale.call(&[(&x[0]).into(), 3.0.into()])?.one()?]);
    autograd::gradcheck(&f, &[x], autograd::CheckOptions { forward: true, ..Default::default() })?;
    let again = OpBuilder::new("toylib::scale(Tensor self) -> Tensor", Body::Registered).register();
    assert!(again.is_err_and(|e| e.message().contains("registered already")));
    drop(kernels);
    drop(registration);
    assert!(registry::find("toylib::scale").is_none());
    Ok(())
}

#[test]
fn what_its_schema_says_of_arguments_is_checked() -> Result<()> {
    let text =
        "toylib::stretch(Tensor self, int[2] by, float[2] from=0., bool[2] flip=False, int[2] stride=[]) -> Tensor";
    let (stretch, _registration) = OpBuilder::new(text, Body::Registered).register()?;
    let _kernel = register_kernel("toylib::stretch", Key::CPU, |op, _, args| {
        let (by, from): ([i64; 2], &[f64]) =
            (take(op, args, 1)?, take::<Option<_>>(op, args, 2)?.unwrap_or(&[0.0, 0.0]));
        take::<&Tensor>(op, args, 0)?.mul(by[0] * 10 + by[1])?.add(from[1]).map(Outputs::from)
    })?;
    let x = Tensor::ones(&[1], DType::F64)?;
    let call = |by: Value<'_>, more: &[Value<'_>]| stretch.call(&[&[(&x).into(), by], more].concat());
    let got = |r: Result<Outputs>| r?.one()?.to_vec::<f64>().map(|v| v[0]);
    assert_eq!(got(call(Value::Ints(&[1, 2]), &[]))?, 12.0);
    assert_eq!(got(call(Value::Ints(&[3]), &[]))?, 33.0);
    assert_eq!(got(call(Value::Int(4), &[Value::Float(0.5), Value::None, Value::Ints(&[])]))?, 44.5);
    let refused = |r: Result<Outputs>, why: &str| assert!(r.is_err_and(|e| e.message().contains(why)), "{why}");
    refused(call(Value::Ints(&[1, 2, 3]), &[]), "a List with 3 elements to a fixed-size array of size 2");
    refused(call(Value::Ints(&[]), &[]), "a List with 0 elements to a fixed-size array of size 2");
    let flip = [Value::None, Value::Bools(&[true])];
    refused(call(Value::Int(1), &flip), "a List with 1 elements to a fixed-size array of size 2");
    refused(call(Value::Int(1), &[Value::None; 4]), "stretch() takes 5 arguments but 6 were given");
    let many: Vec<String> = (0..65).map(|i| format!("int p{i}")).collect();
    let wide = OpBuilder::new(&format!("toylib::wide({}) -> ()", many.join(", ")), Body::Registered).register();
    assert!(wide.is_err_and(|e| e.message().contains("at most 64 parameters")));
    Ok(())
}

#[test]
fn dropping_a_registration_restores_what_was_there() -> Result<()> {
    let toy = toy()?;
    let x = Tensor::from_slice(&[1.0f32, -2.0])?.to_device(toy.device)?;
    let constant = |c: f32| {
        move |_: &'static Op, _: KeySet, args: &[Value<'_>]| match args[0] {
            Value::Tensor(t) => Tensor::full(t.sizes(), c, (t.dtype(), t.device())).map(Outputs::from),
            _ => Ok(Outputs::None),
        }
    };
    let absolute = || x.abs()?.to_vec::<f32>();
    assert_eq!(absolute()?, [1.0, 2.0]);
    let first = register_kernel("abs", toy.key, constant(10.0))?;
    assert_eq!(absolute()?, [10.0, 10.0]);
    let second = register_kernel("abs", toy.key, constant(20.0))?;
    assert_eq!(absolute()?, [20.0, 20.0]);
    assert!(registry::describe(registry::find("abs").unwrap()).contains("third_party.rs"));
    drop(second);
    assert_eq!(absolute()?, [10.0, 10.0]);
    drop(first);
    assert_eq!(absolute()?, [1.0, 2.0]);
    // The same for a form derived from the one that was overridden, and on other devices nothing changed.
    let scalar =
        || registry::find("add.Scalar").unwrap().call(&[(&x).into(), Scalar::Int(1).into()])?.one()?.to_vec::<f32>();
    assert_eq!(scalar()?, [2.0, -1.0]);
    let other = register_kernel("add.Tensor", toy.key, constant(5.0))?;
    assert_eq!(scalar()?, [5.0, 5.0]);
    assert_eq!(Tensor::from_slice(&[1.0f32])?.add(1)?.to_vec::<f32>()?, [2.0]);
    drop(other);
    assert_eq!(scalar()?, [2.0, -1.0]);
    Ok(())
}

#[test]
fn a_missing_kernel_is_named() -> Result<()> {
    let toy = bare()?;
    let x = Tensor::empty(&[2], (DType::F32, toy.device))?;
    let e = x.abs().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::NotImplemented);
    assert!(e.message().contains("'aten::abs'") && e.message().contains("'toy' backend"), "{e}");
    assert!(e.message().contains("cpu, meta"), "{e}");
    assert!(register_kernel("no_such_operator", toy.key, copy).is_err());
    Ok(())
}

/// An operator that leaves out a result nobody asks for still calls what was registered for the one it is made of.
#[test]
fn a_pooling_without_indices_calls_the_registered_one() -> Result<()> {
    let x = Tensor::arange(16, DType::F32)?.view(&[1, 1, 4, 4])?;
    let pooled = |x: &Tensor| x.max_pool2d(&[2, 2], &[], &[0, 0], &[1, 1], false);
    assert_eq!(pooled(&x)?.to_vec::<f32>()?, [5.0, 7.0, 13.0, 15.0]);
    let mine = register_kernel("max_pool2d_with_indices", Key::CPU, |_op, _keys, _args| {
        let values = Tensor::full(&[1, 1, 2, 2], 3.0, DType::F32)?;
        Ok(Outputs::from((values, Tensor::zeros(&[1, 1, 2, 2], DType::I64)?)))
    })?;
    assert_eq!(pooled(&x)?.to_vec::<f32>()?, [3.0; 4]);
    drop(mine);
    assert_eq!(pooled(&x)?.to_vec::<f32>()?, [5.0, 7.0, 13.0, 15.0]);
    Ok(())
}

// ---- a layer ------------------------------------------------------------------------------------

/// A kernel of a layer: it counts its calls and passes them on.
fn counting(calls: &'static AtomicUsize, key: Key) -> impl Fn(&'static Op, KeySet, &[Value<'_>]) -> Result<Outputs> {
    move |op, keys, args| {
        assert_eq!(keys.highest(), Some(key), "a kernel is given its own key too");
        calls.fetch_add(1, SeqCst);
        op.redispatch(keys.below(key), args)
    }
}

#[test]
fn a_layer_sees_the_calls_of_threads_that_include_it() -> Result<()> {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let layer = KeySet::of(Key::USER_0);
    let add = registry::find("add.Tensor").unwrap();
    let x = Tensor::from_slice(&[1.0f32, -2.0])?.requires_grad_(true)?;
    // How many calls the layer sees of one addition and one product, whose values and gradient it leaves alone.
    let seen = || -> Result<usize> {
        let before = SEEN.load(SeqCst);
        let y = x.add(&x)?.mul(&x)?;
        assert_eq!(y.to_vec::<f32>()?, [2.0, 8.0]);
        let g = autograd::grad(&[y.sum()?], std::slice::from_ref(&x), &[None], false, false, false)?;
        assert_eq!(g[0].as_ref().unwrap().to_vec::<f32>()?, [4.0, -8.0]);
        Ok(SEEN.load(SeqCst) - before)
    };

    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let included = KeyGuard::include(layer);
    assert_eq!((seen()?, add.kernel_origin(Key::USER_0)), (0, None), "without a kernel it is passed through");
    drop(included);
    let handle = register_kernel("add.Tensor", Key::USER_0, counting(&SEEN, Key::USER_0))?;
    assert!(add.kernel_origin(Key::USER_0).is_some_and(|origin| origin.contains("third_party.rs")));
    assert!(registry::describe(add).lines().any(|l| l.contains("User0") && l.contains("third_party.rs")));
    assert_eq!(seen()?, 0, "a registration alone changes no call");

    let included = KeyGuard::include(layer);
    let with_layer = seen()?;
    assert!(with_layer >= 1);
    let (sum, lines) = dispatch::trace(|| x.add(&x));
    // It stands above all other layers, those that record included.
    assert_eq!(lines, ["add.Tensor(float32[2], float32[2]) [Autograd > cpu]"]);
    assert!(sum?.requires_grad());
    // The other of this thread's two lists is the stronger one, and a guard inside undoes it.
    let excluded = KeyGuard::exclude(layer);
    assert_eq!(seen()?, 0);
    let again = KeyGuard::include(layer);
    assert_eq!(seen()?, with_layer);
    drop(again);
    assert_eq!(seen()?, 0);
    drop(excluded);
    assert_eq!(seen()?, with_layer);
    // Another thread has included nothing.
    let elsewhere = std::thread::scope(|s| s.spawn(|| seen().unwrap()).join().unwrap());
    assert_eq!(elsewhere, 0);

    drop(handle);
    assert_eq!((seen()?, add.kernel_origin(Key::USER_0)), (0, None));
    drop(included);
    assert_eq!(seen()?, 0);
    Ok(())
}

/// A fall-back for all operators of a layer, but those that it has nothing to do for.
#[test]
fn a_layer_may_let_operators_fall_through() -> Result<()> {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let x = Tensor::from_slice(&[1.0f32, -2.0])?;
    let seen = || -> Result<usize> {
        let before = SEEN.load(SeqCst);
        assert_eq!(x.add(&x)?.mul(&x)?.to_vec::<f32>()?, [2.0, 8.0]);
        Ok(SEEN.load(SeqCst) - before)
    };

    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let _included = KeyGuard::include(KeySet::of(Key::USER_1));
    let all = register_fallback(Key::USER_1, counting(&SEEN, Key::USER_1));
    let of_both = seen()?;
    assert!(of_both >= 2);
    let none_for_add = register_kernel("add.Tensor", Key::USER_1, dispatch::fall_through)?;
    assert_eq!(seen()?, of_both - 1);
    let none_for_mul = register_kernel("mul.Tensor", Key::USER_1, dispatch::fall_through)?;
    assert_eq!(seen()?, of_both - 2);
    drop(none_for_add);
    assert_eq!(seen()?, of_both - 1);
    drop(none_for_mul);
    assert_eq!(seen()?, of_both);
    drop(all);
    assert_eq!(seen()?, 0);
    Ok(())
}
