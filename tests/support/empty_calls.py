"""Calls of functions and layers with an empty batch: what they give, or how they refuse, in PyTorch and in symgrad."""

from __future__ import annotations

import warnings

# x2 to x5: (0, 4), (0, 4, 4), ...; i: indices (0,); F: nn.functional. Left out are pixel_shuffle and pixel_unshuffle, whose gradients
# PyTorch refuses, multi_margin_loss and multilabel_margin_loss, which give what is in memory, and unique, which has no derivative.

CALLS = """
F.relu(x2) ; F.softmax(x2,1) ; F.softmax(x2,0) ; F.log_softmax(x2,1) ; F.glu(x2) ; F.prelu(x2,torch.ones(1)) ; F.gelu(x2) ;
F.linear(x2,torch.ones(5,4),torch.ones(5)) ; F.bilinear(x2,x2,torch.ones(3,4,4)) ; F.conv1d(x3,torch.ones(5,4,2)) ;
F.conv2d(x4,torch.ones(5,4,2,2),torch.ones(5)) ; F.conv2d(x4,torch.ones(4,1,2,2),groups=4) ; F.conv3d(x5,torch.ones(5,4,2,2,2)) ;
F.conv_transpose1d(x3,torch.ones(4,5,2)) ; F.conv_transpose2d(x4,torch.ones(4,5,2,2),stride=2) ; F.max_pool1d(x3,2) ;
F.max_pool2d(x4,2) ; F.max_pool3d(x5,2) ; F.avg_pool1d(x3,2) ; F.avg_pool2d(x4,2) ; F.avg_pool3d(x5,2) ; F.adaptive_avg_pool1d(x3,2) ;
F.adaptive_avg_pool2d(x4,2) ; F.adaptive_max_pool2d(x4,2) ; F.adaptive_max_pool1d(x3,2) ; F.lp_pool2d(x4,2,2) ; F.layer_norm(x2,(4,)) ;
F.layer_norm(x2,(4,),torch.ones(4),torch.ones(4)) ; F.batch_norm(x2,None,None,training=True) ;
F.batch_norm(x4,torch.zeros(4),torch.ones(4),torch.ones(4),torch.ones(4),training=True) ;
F.batch_norm(x4,torch.zeros(4),torch.ones(4)) ; F.group_norm(x4,2) ; F.instance_norm(x4) ; F.instance_norm(x3) ; F.rms_norm(x2,(4,)) ;
F.local_response_norm(x4,2) ; F.normalize(x2) ; F.pad(x4,(1,1)) ; F.pad(x4,(1,1),'reflect') ; F.pad(x4,(1,1,1,1),'replicate') ;
F.pad(x4,(1,1),'circular') ; F.unfold(x4,2) ; F.fold(torch.zeros(0,16,9),(4,4),2) ; F.interpolate(x4,scale_factor=2) ;
F.interpolate(x4,scale_factor=2,mode='bilinear') ; F.interpolate(x4,size=3,mode='area') ; F.channel_shuffle(x4,2) ;
F.embedding(i,torch.ones(5,3)) ; F.embedding_bag(i,torch.ones(5,3),torch.zeros(0,dtype=torch.int64)) ;
F.embedding_bag(torch.zeros(0,2,dtype=torch.int64),torch.ones(5,3)) ; F.one_hot(i,5) ; F.scaled_dot_product_attention(x4,x4,x4) ;
F.scaled_dot_product_attention(x3,x3,x3,is_causal=True) ; F.cosine_similarity(x2,x2) ; F.pairwise_distance(x2,x2) ; F.mse_loss(x2,x2) ;
F.mse_loss(x2,x2,reduction='sum') ; F.mse_loss(x2,x2,reduction='none') ; F.l1_loss(x2,x2) ; F.smooth_l1_loss(x2,x2) ;
F.huber_loss(x2,x2) ; F.cross_entropy(x2,i) ; F.cross_entropy(x2,i,reduction='sum') ; F.cross_entropy(x2,i,reduction='none') ;
F.cross_entropy(x2,x2) ; F.cross_entropy(x2,i,weight=torch.ones(4)) ; F.nll_loss(x2,i) ;
F.nll_loss(x4,torch.zeros(0,4,4,dtype=torch.int64)) ; F.binary_cross_entropy(x2,x2.detach()) ;
F.binary_cross_entropy_with_logits(x2,x2.detach()) ; F.kl_div(x2,x2) ; F.kl_div(x2,x2,reduction='batchmean') ;
F.poisson_nll_loss(x2,x2) ; F.gaussian_nll_loss(x2,x2,x2) ; F.hinge_embedding_loss(x2,x2.detach()) ;
F.soft_margin_loss(x2,x2.detach()) ; F.margin_ranking_loss(x2,x2,x2.detach()) ; F.multilabel_soft_margin_loss(x2,x2.detach()) ;
F.cosine_embedding_loss(x2,x2,torch.ones(0)) ; F.triplet_margin_loss(x2,x2,x2) ;
torch.cdist(x3,x3) ; torch.bmm(x3,x3) ; x2@torch.ones(4,3) ; x3@torch.ones(4,3) ; torch.einsum('bi,ij->bj',x2,torch.ones(4,3)) ;
torch.linalg.inv(x3) ; torch.linalg.det(x3) ; torch.linalg.cholesky(x3) ; torch.linalg.solve(x3,x3) ; torch.linalg.eigh(x3)[0] ;
torch.linalg.svd(x3)[1] ; torch.linalg.qr(x3)[0] ; torch.linalg.pinv(x3) ; torch.linalg.norm(x2) ; torch.linalg.matrix_norm(x3) ;
torch.logdet(x3) ; x2.sum() ; x2.sum(0) ; x2.mean() ; x2.mean(0) ; x2.mean(1) ; x2.prod() ; x2.max() ; x2.max(1) ; x2.max(0) ;
x2.amax(1) ; x2.amax(0) ; x2.min() ; x2.std() ; x2.std(1) ; x2.var(0) ; x2.median() ; x2.median(1) ; x2.argmax() ; x2.argmax(1) ;
x2.logsumexp(0) ; x2.logsumexp(1) ; x2.cumsum(0) ; x2.cumprod(1) ; x2.cummax(0) ; x2.sort(0) ; x2.sort(1) ; x2.topk(2,1) ;
x2.kthvalue(1,1) ; x2.norm() ; x2.norm(dim=0) ; x2.all() ; x2.any() ; x2.nonzero() ; torch.cat([x2,x2]) ; torch.stack([x2,x2]) ;
x2.reshape(0,2,2) ; x2.view(-1,2) ; x2.view(0,-1) ; x2.flatten() ; x4.flatten(1) ; x2.split(2) ; x2.split(2,1) ; x2.chunk(2) ;
x2.unbind(1) ; x2.t() ; x2.expand(0,4) ; x2.repeat(2,1) ; x2.roll(1,0) ; x2.flip(0) ; x2[i] ;
x2.gather(0,torch.zeros(0,4,dtype=torch.int64)) ; x2.index_select(0,i) ; x2.index_add(0,i,x2) ;
x2.scatter(0,torch.zeros(0,4,dtype=torch.int64),x2) ; x2.masked_select(x2>0) ; x2.masked_fill(x2>0,1.) ; torch.where(x2>0,x2,1.) ;
x2.diff(dim=0) ; x2.quantile(.5) ; x2.quantile(.5,1) ; x2.bincount() ; i.bincount() ; x2.tril() ; x3.diagonal(dim1=1,dim2=2) ;
x2.diag() ; torch.trace(torch.zeros(0,0)) ; torch.meshgrid(x2[:,0],x2[:,1],indexing='ij') ; torch.outer(x2[:,0],torch.ones(2)) ;
torch.tensordot(x2,x2,dims=([0],[0])) ; torch.kron(x2,x2) ; torch.cov(x2) ; torch.corrcoef(x2) ; torch.searchsorted(torch.ones(3),x2) ;
torch.clamp(x2,0,1) ; torch.addmm(torch.ones(3),x2,torch.ones(4,3)) ; torch.multinomial(torch.ones(2,3),0) ; nn.Linear(4,2)(x2) ;
nn.LSTM(4,3)(torch.zeros(5,0,4))[0] ; nn.GRU(4,3,batch_first=True)(torch.zeros(0,5,4))[0] ; nn.RNN(4,3)(torch.zeros(5,0,4))[0] ;
nn.LSTM(4,3,2,bidirectional=True)(torch.zeros(5,0,4))[0] ; nn.LSTMCell(4,3)(x2)[0] ;
nn.MultiheadAttention(4,2,batch_first=True)(x3,x3,x3)[0] ; nn.TransformerEncoderLayer(4,2,8,batch_first=True)(x3) ;
nn.BatchNorm1d(4)(x2) ; nn.BatchNorm2d(4)(x4) ; nn.Conv2d(4,2,3)(x4) ; nn.ConvTranspose2d(4,2,3)(x4) ; nn.Embedding(5,3)(i) ;
nn.EmbeddingBag(5,3)(torch.zeros(0,2,dtype=torch.int64)) ; nn.Flatten()(x4) ; nn.Unflatten(1,(2,2))(x2) ; nn.PReLU()(x2) ;
nn.Softmax2d()(x4) ; nn.Upsample(scale_factor=2)(x4) ; nn.AdaptiveAvgPool2d(1)(x4) ; nn.Bilinear(4,4,2)(x2,x2) ; nn.GroupNorm(2,4)(x4) ;
nn.LayerNorm(4)(x2) ; nn.InstanceNorm2d(4)(x4) ; nn.Dropout()(x2) ; nn.ZeroPad2d(1)(x4) ;
nn.MaxUnpool2d(2)(*nn.MaxPool2d(2,return_indices=True)(x4))
""".replace("\n", " ").strip().split(" ; ")


def shown(torch, text):
    """Shapes, types and numbers of the results, and shapes of the gradients; or the type of the error."""
    names = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "i": torch.zeros(0, dtype=torch.int64)}
    leaves = {f"x{n}": torch.zeros((0, *(4,) * (n - 1)), requires_grad=True) for n in (2, 3, 4, 5)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = eval(text, {**names, **leaves})  # texts of this file
        except Exception as error:
            return type(error).__name__
        results = found if isinstance(found, tuple) else (found,)
        seen = [[list(t.shape), str(t.dtype), t.requires_grad, repr(t.tolist()) if t.ndim == 0 else None] for t in results]
        moving = [t.sum() for t in results if t.requires_grad]
        if moving:
            sum(moving).backward()
        return [seen, [None if t.grad is None else list(t.grad.shape) for t in leaves.values()]]
