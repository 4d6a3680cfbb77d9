"""Numbers of nn.utils and nn.init against those recorded from PyTorch 2.13 (data/nn_utils.json)."""
# ruff: noqa: E501, E701, E702, E731, E741
import json
import pathlib
import warnings
def results(fl, nn):
    warnings.simplefilter('ignore')
    P=nn.utils.parametrizations; R=nn.utils.prune; Z=nn.utils.parametrize; I=nn.init
    out={}
    def sk(t): 
        d=t.detach().double(); return [list(t.shape), d.sum().item(), (d*fl.linspace(1,2,d.numel(),dtype=fl.float64).reshape(d.shape)).sum().item()]
    def layer(name, make, x):
        fl.manual_seed(1); m=make(); fl.manual_seed(2); xs=fl.rand(*x); y=m(xs); y=m(xs); (y*y).sum().backward()
        out[name]=[list(m.state_dict()),[sk(v) for v in m.state_dict().values()],sk(y),[sk(p.grad) for p in m.parameters()]]
        m.eval(); out[name+' eval']=sk(m(xs)); return m
    layer('spectral',lambda: P.spectral_norm(nn.Linear(3,4)),(2,3)); layer('spectral t',lambda: P.spectral_norm(nn.ConvTranspose2d(3,4,2),n_power_iterations=2),(2,3,4,4))
    layer('weight',lambda: P.weight_norm(nn.Linear(3,4)),(2,3)); layer('weight none',lambda: P.weight_norm(nn.Conv1d(3,4,2),dim=None),(2,3,4))
    for om in ('matrix_exp','cayley','householder'):
        for tv in (True,False):
            for s in ((3,4),(4,3),(4,4)): layer(f'orth {om} {tv} {s}',lambda: P.orthogonal(nn.Linear(*s),orthogonal_map=om,use_trivialization=tv),(2,s[0]))
    m=layer('old spectral',lambda: nn.utils.spectral_norm(nn.Linear(3,4)),(2,3)); out['old spectral rm']=sk(nn.utils.remove_spectral_norm(m).weight)
    m=layer('old weight',lambda: nn.utils.weight_norm(nn.Linear(3,4)),(2,3)); out['old weight rm']=sk(nn.utils.remove_weight_norm(m).weight)
    for n,f in dict(l1=lambda m: R.l1_unstructured(m,'weight',.3),ru=lambda m: R.random_unstructured(m,'weight',5),rs=lambda m: R.random_structured(m,'weight',1,0),ln=lambda m: R.ln_structured(m,'weight',2,2,1),two=lambda m: R.ln_structured(R.l1_unstructured(m,'weight',.3),'weight',.5,1,0),three=lambda m: R.random_unstructured(R.l1_unstructured(R.l1_unstructured(m,'weight',.3),'weight',2),'weight',.2)).items():
        layer('prune '+n,lambda: f(nn.Linear(4,4)),(2,4))
    fl.manual_seed(0); m=nn.Sequential(nn.Linear(3,4),nn.Linear(4,2)); R.global_unstructured([(m[0],'weight'),(m[1],'weight')],R.L1Unstructured,amount=7); out['global']=[sk(m[0].weight),sk(m[1].weight)]
    for n,f in dict(uniform=lambda w: I.uniform_(w,-1,2),normal=lambda w: I.normal_(w,1,2),trunc=lambda w: I.trunc_normal_(w,.1,.5,-1,1),trunc2=lambda w: I.trunc_normal_(w,3.,1.,-2.,2.),trunc3=lambda w: I.trunc_normal_(w,0,.02),const=lambda w: I.constant_(w,3),ones=I.ones_,zeros=I.zeros_,eye=I.eye_,xu=I.xavier_uniform_,xn=lambda w: I.xavier_normal_(w,2.),ku=lambda w: I.kaiming_uniform_(w,mode='fan_out'),kn=lambda w: I.kaiming_normal_(w,.1,nonlinearity='relu'),orth=lambda w: I.orthogonal_(w,2.),sparse=lambda w: I.sparse_(w,.4)).items():
        for s in ((5,3),(3,5)): fl.manual_seed(4); out[f'init {n} {s}']=sk(f(fl.empty(*s)))
    for g in (1,2): out[f'dirac {g}']=sk(I.dirac_(fl.empty(4,3,3,3),g))
    fl.manual_seed(4); out['orth4d']=sk(I.orthogonal_(fl.empty(4,3,2,2))); g=fl.Generator(); g.manual_seed(9); out['gen']=sk(I.kaiming_normal_(fl.empty(3,3),generator=g))
    fl.manual_seed(0)
    for nt in (2.,1.,float('inf'),0.5):
        for fe in (None,False):
            m=nn.Linear(3,4); m(fl.rand(2,3)).pow(2).sum().backward(); t=nn.utils.clip_grad_norm_(m.parameters(),.5,nt,foreach=fe); out[f'clip {nt} {fe}']=[sk(t)]+[sk(p.grad) for p in m.parameters()]
    nn.utils.clip_grad_value_(m.parameters(),.01); out['clipv']=[sk(p.grad) for p in m.parameters()]
    v=nn.utils.parameters_to_vector(m.parameters()); nn.utils.vector_to_parameters(v*2,m.parameters()); out['vec']=[sk(v),sk(m.weight)]
    c=nn.Conv2d(3,4,3); b=nn.BatchNorm2d(4); b(c(fl.rand(2,3,6,6))); c.eval(),b.eval(); f=nn.utils.fuse_conv_bn_eval(c,b); out['fuse']=[sk(f.weight),sk(f.bias),sk(f(fl.rand(2,3,6,6)))]
    l=nn.Linear(3,4,bias=False); b=nn.BatchNorm1d(4); b(l(fl.rand(2,3))); l.eval(),b.eval(); f=nn.utils.fuse_linear_bn_eval(l,b); out['fusel']=[sk(f.weight),sk(f.bias)]
    out['skip']=list(nn.utils.skip_init(nn.Linear,2,3).weight.shape)
    x,w=fl.rand(1,2,6,6),fl.rand(4,2,3,3); go=fl.rand(1,4,4,4); out['grad']=[sk(nn.grad.conv2d_input(x.shape,w,go)),sk(nn.grad.conv2d_weight(x,w.shape,go))]
    m=nn.BatchNorm1d(3); s={k: v.clone()*0+2 for k,v in m.state_dict().items()}; o=nn.utils.stateless.functional_call(m,s,fl.rand(4,3)); out['fc']=[sk(o),sk(s['running_mean']),sk(m.running_mean),s['num_batches_tracked'].item()]
    fl.manual_seed(3); m=P.spectral_norm(nn.Linear(3,3)); m.weight=fl.eye(3); out['assign']=sk(m.weight)
    with Z.cached(): out['cached']=m.weight is m.weight
    return out


def close(a, b):
    if isinstance(b, float):
        return a == b or abs(a - b) <= 1e-4 * max(1.0, abs(b)) or (a != a and b != b)
    if isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    return a == b


def test_numbers():
    import flambeau as fl
    import flambeau.nn as nn
    import flambeau.nn.grad
    import flambeau.nn.utils.prune

    expected = json.loads((pathlib.Path(__file__).parent / "data" / "nn_utils.json").read_text())
    got = results(fl, nn)
    assert list(got) == list(expected)
    assert [k for k in expected if not close(got[k], expected[k])] == []


def test_parametrize_rules():
    import pickle
    import copy

    import pytest

    import flambeau.nn as nn
    from flambeau.nn.utils import parametrize

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

    m = nn.Linear(3, 3)
    weight = m.weight
    parametrize.register_parametrization(m, "weight", Symmetric())
    assert list(m.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert m.parametrizations.weight.original is weight and type(m).__name__ == "ParametrizedLinear"
    with pytest.raises(RuntimeError, match="parametrization Symmetric does not implement right_inverse."):
        m.weight = weight.detach()
    with pytest.raises(RuntimeError, match="Serialization of parametrized modules is only supported through state_dict"):
        pickle.dumps(m)
    assert type(copy.deepcopy(m)) is type(m)
    parametrize.remove_parametrizations(m, "weight")
    assert type(m) is nn.Linear and m.weight is weight and bool((weight == weight.T).all())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(m, "weight")


def test_functional_call_ties_and_strictness():
    import pytest

    import flambeau as fl
    import flambeau.nn as nn
    from flambeau.nn.utils.stateless import _functional_call as call

    m = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    m[1].weight = m[0].weight
    x = fl.ones(2)
    assert fl.equal(call(m, {"0.weight": fl.eye(2)}, x), x)
    assert not fl.equal(call(m, {"0.weight": fl.eye(2)}, x, tie_weights=False), x)
    with pytest.raises(ValueError, match="which are tied. Consider using tie_weights=False"):
        call(m, {"0.weight": fl.eye(2), "1.weight": fl.eye(2)}, x)
    linear = nn.Linear(2, 2)
    with pytest.raises(RuntimeError) as caught:
        call(linear, {"weight": fl.eye(2), "x.y": x}, x, strict=True)
    assert str(caught.value) == (
        "Error(s) in reparametrizing for Linear:\n\tUnexpected key(s): 'x.y'.\n\tMissing key(s): 'bias'."
    )
