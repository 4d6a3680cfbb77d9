"""Cases for the layers: a constructor, inputs, keyword arguments. Recorded results: data/nn_layers.json."""
# ruff: noqa: E501, E701, E702, E731, E741
import flambeau as fl
import flambeau.nn as nn
from flambeau.nn.utils.rnn import PackedSequence
from flambeau.nn.utils.rnn import pack_padded_sequence as pack

r=lambda *s: fl.rand(*s)
def li(*s,hi=3): return fl.randint(0,hi,s)
cases=[]
def C(expr,*ins,**kw): cases.append((expr,ins,kw))
for a in 'ReLU() Threshold(.5,2.) Hardtanh() ReLU6() Sigmoid() Hardsigmoid() Tanh() SiLU() Mish() Hardswish() ELU(.7) CELU(.7) SELU() GELU() GELU("tanh") Hardshrink() LeakyReLU(.2) LogSigmoid() Softplus(2) Softshrink() Softsign() Tanhshrink() Softmin(1) Softmax(1) LogSoftmax(1) PReLU(3) RReLU() Softmax() Identity(3,a=2) Dropout(.4) AlphaDropout() FeatureAlphaDropout() Flatten() ReLU(True) RReLU(.1,.3) LayerNorm(3) LayerNorm((2,3)) LayerNorm(3,bias=False) RMSNorm(3) BatchNorm1d(3) BatchNorm1d(3,momentum=None) BatchNorm1d(3,affine=False) BatchNorm1d(3,track_running_stats=False) GroupNorm(1,3) Linear(3,4) Linear(3,4,bias=False) LazyLinear(4) LazyBatchNorm1d() Unflatten(1,(3,1))'.split(): C(a,lambda: fl.randn(2,3))
C('GLU()',lambda: r(2,4)); C('Softmax2d()',lambda: r(2,3,4,4)); C('Bilinear(3,4,5)',lambda: r(2,3),lambda: r(2,4))
for n in (1,2,3):
    sh=[2,4]+[7]*n
    for a in ['Conv%dd(4,6,3)','Conv%dd(4,6,3,2,1,2,2,False)','Conv%dd(4,4,3,padding="same",padding_mode="reflect")' if n<3 else 'Conv%dd(4,4,3,padding="same",padding_mode="circular")','Conv%dd(4,4,3,padding="same")','Conv%dd(4,4,3,padding=1,padding_mode="replicate")','Conv%dd(4,4,3,padding="valid")','ConvTranspose%dd(4,6,3,2,1,1)','ConvTranspose%dd(4,6,3,groups=2,dilation=2)','LazyConv%dd(4,3)','LazyConvTranspose%dd(4,3)','MaxPool%dd(2)','MaxPool%dd(3,2,1)','MaxPool%dd(2,return_indices=True)','AvgPool%dd(2)','AvgPool%dd(3,2,1,True,False)','LPPool%dd(2,3,2)','AdaptiveAvgPool%dd(3)','AdaptiveMaxPool%dd(3)','AdaptiveMaxPool%dd(3,True)','CircularPad%dd(2)','ConstantPad%dd(2,1.5)','ReflectionPad%dd(2)','ReplicationPad%dd(2)','ZeroPad%dd(2)','BatchNorm%dd(4)','InstanceNorm%dd(4)','InstanceNorm%dd(4,affine=True,track_running_stats=True)','LazyBatchNorm%dd()','LazyInstanceNorm%dd()','Dropout%dd()','GroupNorm(2,4)','LocalResponseNorm(3)','ChannelShuffle(2)','SyncBatchNorm(4)','Upsample(scale_factor=2)','Upsample(5,mode="nearest-exact")','Upsample(5,mode="area")','RMSNorm(7)']:
        C(a%n if '%d' in a else a, lambda sh=sh: r(*sh))
    for m in {1:['linear'],2:['bilinear','bicubic'],3:['trilinear']}[n]:
        C(f'Upsample(5,mode="{m}")',lambda sh=sh: r(*sh)); C(f'Upsample(scale_factor=1.5,mode="{m}",align_corners=True)',lambda sh=sh: r(*sh)); C(f'Upsample(scale_factor=1.5,mode="{m}",recompute_scale_factor=True)',lambda sh=sh: r(*sh))
C('AvgPool2d(2,divisor_override=3)',lambda: r(2,3,6,6)); C('AdaptiveAvgPool2d((None,2))',lambda: r(2,3,6,6)); C('FractionalMaxPool2d(2,3)',lambda: r(2,3,7,7)); C('FractionalMaxPool2d(2,output_ratio=.5,return_indices=True)',lambda: r(2,3,7,7)); C('FractionalMaxPool3d(2,3)',lambda: r(2,3,7,7,7)); C('CrossMapLRN2d(3)',lambda: r(2,5,4,4)); C('CrossMapLRN2d(4)',lambda: r(2,5,4,4))
C('PixelShuffle(2)',lambda: r(1,8,3,3)); C('PixelUnshuffle(2)',lambda: r(1,2,4,4)); C('UpsamplingNearest2d(scale_factor=2)',lambda: r(1,2,4,4)); C('UpsamplingBilinear2d(7)',lambda: r(1,2,4,4)); C('Fold((4,4),2)',lambda: r(1,8,9)); C('Unfold(2,padding=1)',lambda: r(1,2,4,4))
for n in (1,2,3): C(f'MaxUnpool{n}d(2)',lambda n=n: r(*[1,1]+[2]*n),lambda n=n: fl.arange(2**n).reshape([1,1]+[2]*n)*2); C(f'MaxUnpool{n}d(3,2,1)',lambda n=n: r(*[1,1]+[2]*n),lambda n=n: fl.arange(2**n).reshape([1,1]+[2]*n))
C('Embedding(5,3)',lambda: li(2,3)); C('Embedding(5,3,padding_idx=1,max_norm=1.)',lambda: li(2,3)); C('Embedding(5,3,scale_grad_by_freq=True)',lambda: li(2,3))
for m in ('sum','mean','max'):
    C(f'EmbeddingBag(5,3,mode="{m}")',lambda: li(2,3)); C(f'EmbeddingBag(5,3,mode="{m}",padding_idx=1)',lambda: li(6),lambda: fl.tensor([0,2,3])); C(f'EmbeddingBag(5,3,mode="{m}",include_last_offset=True)',lambda: li(6),lambda: fl.tensor([0,2,6]));C(f'EmbeddingBag(5,3,mode="{m}",include_last_offset=True)',lambda: li(2,3))
C('EmbeddingBag(5,3,mode="sum",max_norm=.5)',lambda: li(2,3),lambda: None,lambda: r(2,3))
C('PairwiseDistance(1.,keepdim=True)',lambda: r(2,3),lambda: r(2,3)); C('CosineSimilarity()',lambda: r(2,3),lambda: r(2,3))
for red in ('none','mean','sum'):
    q=f'reduction="{red}"'
    C(f'L1Loss({q})',lambda: r(2,3),lambda: r(2,3)); C(f'MSELoss({q})',lambda: r(2,3),lambda: r(2,3)); C(f'NLLLoss({q})',lambda: r(2,3),lambda: li(2)); C(f'NLLLoss(fl.rand(3),ignore_index=1,{q})',lambda: r(2,3,4),lambda: li(2,4)); C(f'CrossEntropyLoss({q},label_smoothing=.1)',lambda: r(2,3),lambda: li(2)); C(f'CrossEntropyLoss(fl.rand(3),{q})',lambda: r(2,3),lambda: r(2,3)); C(f'PoissonNLLLoss({q},full=True)',lambda: r(2,3),lambda: r(2,3)*4); C(f'PoissonNLLLoss(False,{q})',lambda: r(2,3),lambda: r(2,3)*4); C(f'GaussianNLLLoss({q},full=True)',lambda: r(2,3),lambda: r(2,3),lambda: r(2,1)); C(f'GaussianNLLLoss({q})',lambda: r(2,3),lambda: r(2,3),lambda: r(2)); C(f'KLDivLoss({q})',lambda: r(2,3),lambda: r(2,3)); C(f'KLDivLoss({q},log_target=True)',lambda: r(2,3),lambda: r(2,3)); C(f'BCELoss({q})',lambda: r(2,3),lambda: r(2,3)); C(f'BCELoss(fl.rand(3),{q})',lambda: r(2,3),lambda: r(2,3)); C(f'BCEWithLogitsLoss({q},pos_weight=fl.rand(3))',lambda: r(2,3),lambda: r(2,3)); C(f'HingeEmbeddingLoss({q})',lambda: r(2,3),lambda: fl.tensor([[1,-1,1],[-1,1,1]])); C(f'MultiLabelMarginLoss({q})',lambda: r(2,3),lambda: fl.tensor([[1,-1,1],[2,0,-1]])); C(f'SmoothL1Loss({q},beta=.3)',lambda: r(2,3),lambda: r(2,3)); C(f'SmoothL1Loss({q},beta=0)',lambda: r(2,3),lambda: r(2,3));C(f'HuberLoss({q},delta=.3)',lambda: r(2,3),lambda: r(2,3)); C(f'SoftMarginLoss({q})',lambda: r(2,3),lambda: fl.tensor([[1,-1,1],[-1,1,1]])); C(f'MultiLabelSoftMarginLoss(fl.rand(3),{q})',lambda: r(2,3),lambda: r(2,3)); C(f'CosineEmbeddingLoss(.1,{q})',lambda: r(2,3),lambda: r(2,3),lambda: fl.tensor([1,-1])); C(f'MarginRankingLoss(.1,{q})',lambda: r(3),lambda: r(3),lambda: fl.tensor([1,-1,1])); C(f'MultiMarginLoss(2,.5,fl.rand(3),{q})',lambda: r(2,3),lambda: li(2)); C(f'TripletMarginLoss({q},swap=True)',lambda: r(2,3),lambda: r(2,3),lambda: r(2,3)); C(f'TripletMarginWithDistanceLoss({q},swap=True)',lambda: r(2,3),lambda: r(2,3),lambda: r(2,3)); C(f'CTCLoss({q})',lambda: r(6,2,4).log_softmax(2),lambda: fl.tensor([[1,2],[3,1]]),lambda: fl.tensor([6,5]),lambda: fl.tensor([2,1])); C(f'LinearCrossEntropyLoss(3,4,bias=True,{q})',lambda: r(2,3),lambda: li(2)); C(f'LinearCrossEntropyLoss(3,4,out_features=(2,),bias=True,{q})',lambda: r(2,3),lambda: li(2,2))
C('KLDivLoss(reduction="batchmean")',lambda: r(2,3),lambda: r(2,3)); C('AdaptiveLogSoftmaxWithLoss(8,20,[4,10],div_value=2.)',lambda: r(5,8),lambda: fl.tensor([1,5,19,10,3])); C('AdaptiveLogSoftmaxWithLoss(8,20,[4,10],div_value=2.,head_bias=True)',lambda: r(5,8),lambda: fl.tensor([15,5,19,10,13]))
for cl in ('RNN','LSTM','GRU'):
    for a in ['(3,4)','(3,4,2,batch_first=True,dropout=.3)','(3,4,2,bias=False,bidirectional=True)']+(['(3,4,2,proj_size=2,bidirectional=True)'] if cl=='LSTM' else [])+(['(3,4,nonlinearity="relu")'] if cl=='RNN' else []):
        C(cl+a,lambda: r(5,2,3)); C(cl+a,lambda: r(5,3)); C(cl+a,lambda: pack(r(5,3,3),[2,5,3],enforce_sorted=False))
    C(cl+'(3,4)',lambda: r(5,2,3),(lambda: (r(1,2,4),r(1,2,4))) if cl=='LSTM' else lambda: r(1,2,4)); C(cl+'(3,4)',lambda: r(5,3),(lambda: (r(1,4),r(1,4))) if cl=='LSTM' else lambda: r(1,4))
    C(cl+'Cell(3,4)',lambda: r(2,3)); C(cl+'Cell(3,4,False)',lambda: r(3)); 
C('RNNCell(3,4,nonlinearity="relu")',lambda: r(2,3),lambda: r(2,4)); C('LSTMCell(3,4)',lambda: r(2,3),lambda: (r(2,4),r(2,4))); C('LSTMCell(3,4)',lambda: r(3),lambda: (r(4),r(4)))
msk=lambda: fl.triu(fl.ones(3,3,dtype=fl.bool),1)
kp=lambda: fl.tensor([[False,False,True],[False,True,True]])
for a in ['(8,2)','(8,2,bias=False)','(8,2,batch_first=True)','(8,2,add_bias_kv=True,add_zero_attn=True)','(8,2,dropout=.3)']:
    sh=(2,3,8) if 'first' in a else (3,2,8)
    C('MultiheadAttention'+a,*[lambda sh=sh: r(*sh)]*3); C('MultiheadAttention'+a,*[lambda sh=sh: r(*sh)]*3,kw=dict(need_weights=False)); C('MultiheadAttention'+a,*[lambda sh=sh: r(*sh)]*3,kw=dict(attn_mask=msk(),key_padding_mask=kp())); C('MultiheadAttention'+a,*[lambda sh=sh: r(*sh)]*3,kw=dict(attn_mask=msk(),need_weights=False,key_padding_mask=kp())); C('MultiheadAttention'+a,*[lambda sh=sh: r(*sh)]*3,kw=dict(attn_mask=msk(),need_weights=False,is_causal=True)); C('MultiheadAttention'+a,*[lambda: r(3,8)]*3,kw=dict(average_attn_weights=False))
    C('MultiheadAttention'+a,'self',lambda sh=sh: r(*sh)); C('MultiheadAttention'+a,'kv',lambda sh=sh: r(*sh),lambda sh=sh: r(*sh))
C('MultiheadAttention(8,2,kdim=5,vdim=6,add_bias_kv=True)',lambda: r(3,2,8),lambda: r(4,2,5),lambda: r(4,2,6))
for a in ['(8,2,16)','(8,2,16,batch_first=True)','(8,2,16,norm_first=True,activation="gelu",batch_first=True)','(8,2,16,.1,fl.tanh,bias=False)']:
    C('TransformerEncoderLayer'+a,lambda: r(2,3,8)); C('TransformerDecoderLayer'+a,lambda: r(2,3,8),lambda: r(2,3,8)); C('TransformerEncoderLayer'+a,lambda: r(3,8))
    if 'batch_first' in a: C('TransformerEncoderLayer'+a,lambda: r(2,3,8),kw=dict(src_mask=msk(),src_key_padding_mask=kp())); C('TransformerEncoder(nn.TransformerEncoderLayer%s,2)'%a,lambda: r(2,3,8),kw=dict(mask=msk())); C('TransformerEncoder(nn.TransformerEncoderLayer%s,2,nn.LayerNorm(8))'%a,lambda: r(2,3,8),kw=dict(src_key_padding_mask=kp())); C('TransformerDecoder(nn.TransformerDecoderLayer%s,2,nn.LayerNorm(8))'%a,lambda: r(2,3,8),lambda: r(2,3,8),kw=dict(tgt_mask=msk(),memory_key_padding_mask=kp(),tgt_is_causal=True))
C('Transformer(8,2,2,2,16)',lambda: r(3,2,8),lambda: r(4,2,8)); C('Transformer(8,2,2,2,16,batch_first=True,activation="gelu",norm_first=True)',lambda: r(2,3,8),lambda: r(2,3,8),kw=dict(src_key_padding_mask=kp(),tgt_mask=nn.Transformer.generate_square_subsequent_mask(3)))


def flat(out):
    if isinstance(out, fl.Tensor):
        return [out]
    if isinstance(out, dict):
        out = list(out.values())
    return [t for part in out for t in flat(part)] if isinstance(out, (tuple, list)) else []


def sketch(t):
    """Shape and two projections."""
    if t is None:
        return None
    d = t.detach().double()
    ramp = fl.linspace(1, 2, d.numel(), dtype=fl.float64).reshape(d.shape)
    return [list(t.shape), d.sum().item(), (d * ramp).sum().item()]


def run(expr, ins, kw, evaluate):
    """Everything that one case gives, as plain values."""
    fl.manual_seed(3)
    m = eval("nn." + expr, {"nn": nn, "fl": fl})
    text = repr(m)
    fl.manual_seed(5)
    mode = None
    if ins and isinstance(ins[0], str):
        mode, ins = ins[0], ins[1:]
    args = [f() for f in ins]
    if mode == "self":
        args = [args[0]] * 3
    elif mode == "kv":
        args = [args[0], args[1], args[1]]
    plain = [a for a in args if type(a) is fl.Tensor]
    for a in plain:
        if a.is_floating_point() and not evaluate and "ReLU(True)" not in expr:
            a.requires_grad_()
    m.train(not evaluate)
    fl.manual_seed(7)
    with fl.set_grad_enabled(not evaluate):
        outs = flat(m(*args, **kw.get("kw", {})))
    grads = []
    if not evaluate:
        total = sum(
            (t.double() * fl.linspace(1, 2, t.numel()).reshape(t.shape)).sum()
            for t in outs
            if t.is_floating_point() and t.requires_grad
        )
        if isinstance(total, fl.Tensor):
            total.backward()
            grads = [sketch(a.grad) for a in plain] + [sketch(p.grad) for p in m.parameters()]
    return {
        "repr": [text, repr(m)],
        "state": {k: sketch(v) for k, v in m.state_dict().items()},
        "out": [sketch(t) for t in outs],
        "grad": grads,
        "random": fl.rand(1).item(),
    }
