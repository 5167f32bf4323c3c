"""StableHLO modules made to do harm, and mutations of honest ones: name -> text.

Modules of `crafted()` are functions of one float32 tensor of two elements to another, as far as they are functions at all.
"""

from __future__ import annotations

import random
import re

T = "tensor<2xf32>"
RETURN = f"return %0 : {T}"


def module(body, inputs=f"%arg0: {T}", outputs=T, functions="", attributes=""):
    return f"module @m {attributes}{{\n  func.func public @main({inputs}) -> ({outputs}) {{\n{body}\n  }}\n{functions}}}"


def function(name, body):
    return f"  func.func private @{name}(%arg0: {T}) -> {T} {{\n{body}\n  }}\n"


def call(name, result="%0", operand="%arg0"):
    return f"{result} = func.call @{name}({operand}) : ({T}) -> {T}\n"


def composite(decomposition, name="a.b"):
    return f'%0 = stablehlo.composite "{name}" %arg0 {{decomposition = @{decomposition}, version = 1 : i32}} : ({T}) -> {T}\n{RETURN}'


def chain(length, times=1):
    """Functions that call the next one so often; the last one computes."""
    calls = "".join(call("f{next}", f"%{i}", f"%{i - 1}" if i else "%arg0") for i in range(times))
    names = [function(f"f{i}", calls.format(next=i + 1) + f"return %{times - 1} : {T}") for i in range(length)]
    return module(call("f0") + RETURN, functions="".join(names) + function(f"f{length}", f"%0 = stablehlo.sine %arg0 : {T}\n{RETURN}"))


def long(count):
    lines = "".join(f"%{i} = stablehlo.sine %{i - 1 if i else 'arg0'} : {T}\n" for i in range(count))
    return module(f"{lines}return %{count - 1} : {T}")


def _call_graphs():
    declared = f"  func.func private @f({T}) -> {T}\n"
    mutual = function("f", call("g") + RETURN) + function("g", call("f") + RETURN)
    three = function("f", call("g") + RETURN) + function("g", call("h") + RETURN) + function("h", call("f") + RETURN)
    negated = function("f", f"%0 = stablehlo.negate %arg0 : {T}\n{RETURN}")
    loop = (
        f"%c = stablehlo.constant dense<false> : tensor<i1>\n%0 = stablehlo.while(%a = %arg0) : {T} cond {{ stablehlo.return"
        f" %c : tensor<i1> }} do {{ %1 = func.call @main(%a) : ({T}) -> {T}\n stablehlo.return %1 : {T} }}\n{RETURN}"
    )
    indirect = f"%f = func.constant @f : ({T}) -> {T}\n%0 = func.call_indirect %f(%arg0) : ({T}) -> {T}\n{RETURN}"
    doubled = f'%0 = "func.call"(%arg0, %arg0) <{{callee = @f}}> : ({T}, {T}) -> {T}\n{RETURN}'
    inner = f"module @n {{ func.func public @main(%arg0: {T}) -> {T} {{ return %arg0 : {T} }} }} }}"
    return {
        "main calls itself": module(call("main") + RETURN),
        "a function calls itself": module(call("f") + RETURN, functions=function("f", call("f") + RETURN)),
        "an unused function calls itself": module(f"return %arg0 : {T}", functions=function("f", call("f") + RETURN)),
        "two functions call each other": module(call("f") + RETURN, functions=mutual),
        "three functions call each other": module(call("f") + RETURN, functions=three),
        "a loop calls main": module(loop),
        "a callee without a body": module(call("f") + RETURN, functions=declared),
        "main without a body": f"module @m {{ func.func private @main({T}) -> {T} }}",
        "an unknown callee": module(call("nothing") + RETURN),
        "a composite of itself": module(composite("main")),
        "a recursive composite": module(call("f") + RETURN, functions=function("f", composite("f"))),
        "a composite without a body": module(composite("f"), functions=declared),
        "a composite": module(composite("f"), functions=negated),
        "a composite that XLA knows": module(composite("f", "chlo.erf"), functions=negated),
        "a composite with too few results": module(composite("f", "chlo.top_k"), functions=negated),
        "a call with two operands": module(doubled, functions=negated),
        "a call without operands": module(f'%0 = "func.call"() <{{callee = @f}}> : () -> {T}\n{RETURN}', functions=negated),
        "an indirect call": module(indirect, functions=negated),
        **{f"{n} doublings": chain(n, 2) for n in (4, 20, 30, 60)},
        **{f"{n} calls inside each other": chain(n) for n in (8, 33, 200, 5000)},
        "30 thousand dependent operations": long(30_000),
        "two modules": module(f"return %arg0 : {T}")[:-1] + inner,
        "a function in a function": module(f"func.func private @g(%a: {T}) -> {T} {{ return %a : {T} }}\n return %arg0 : {T}"),
        "two blocks": module(f"return %arg0 : {T}\n^bb1:\nreturn %arg0 : {T}"),
        "no return": module(f"%0 = stablehlo.sine %arg0 : {T}"),
    }  # fmt: skip


_MODULE_ATTRIBUTES = (
    "mhlo.num_partitions = 2 : i32", "mhlo.num_replicas = 0 : i32", 'mhlo.num_partitions = "a"', 'mhlo.spmd_parameters_shardings = ["x"]',
    "mhlo.use_auto_spmd_partitioning = true", "mhlo.is_dynamic = true", "sdy.meshes = 1",
)  # fmt: skip
_VALUE_ATTRIBUTES = (
    "tf.aliasing_output = 7 : i32", 'tf.aliasing_output = "x"', "jax.buffer_donor = true", 'mhlo.sharding = "garbage{"',
    'mhlo.sharding = "{devices=[2]0,1}"', 'mhlo.memory_kind = "pinned_host"', 'mhlo.layout_mode = "xx"',
)  # fmt: skip


def _attributes():
    plain = f"return %arg0 : {T}"
    found = {f"module {a}": module(plain, attributes=f"attributes {{{a}}} ") for a in _MODULE_ATTRIBUTES}
    found |= {f"argument {a}": module(plain, inputs=f"%arg0: {T} {{{a}}}") for a in _VALUE_ATTRIBUTES}
    return found | {f"result {a}": module(plain, outputs=f"{T} {{{a}}}") for a in _VALUE_ATTRIBUTES}


_TOKEN = "%t = stablehlo.create_token : !stablehlo.token\n"
_UNUSED = f"\n%0 = stablehlo.negate %arg0 : {T}"
_BIG = "tensor<1099511627776xf32>"
_SORT = (
    "({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n %r = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    " stablehlo.return %r : tensor<i1> })"
)
_LINES = {
    "infeed": f'{_TOKEN}%0, %u = "stablehlo.infeed"(%t) : (!stablehlo.token) -> ({T}, !stablehlo.token)',
    "outfeed": f'{_TOKEN}%u = "stablehlo.outfeed"(%arg0, %t) <{{outfeed_config = ""}}> : ({T},'
    f" !stablehlo.token) -> !stablehlo.token{_UNUSED}",
    "all_to_all": f'%0 = "stablehlo.all_to_all"(%arg0) {{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,'
    f" replica_groups = dense<[[0,1]]> : tensor<1x2xi64>}} : ({T}) -> {T}",
    "collective_permute": f'%0 = "stablehlo.collective_permute"(%arg0) {{source_target_pairs = dense<[[0,5]]> :'
    f" tensor<1x2xi64>}} : ({T}) -> {T}",
    "partition_id": f"%p = stablehlo.partition_id : tensor<ui32>{_UNUSED}",
    "tuple": f"%t = stablehlo.tuple %arg0, %arg0 : tuple<{T}, {T}>\n%0 = stablehlo.get_tuple_element %t[1] : (tuple<{T}, {T}>) -> {T}",
    "set_dimension_size": f"%s = stablehlo.constant dense<100> : tensor<i32>\n"
    f"%0 = stablehlo.set_dimension_size %arg0, %s, dim = 0 : ({T}, tensor<i32>) -> {T}",
    "a bounded size": "%s = stablehlo.constant dense<1> : tensor<i32>\n%1 = stablehlo.set_dimension_size %arg0, %s, dim = 0 : "
    f"({T}, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<2>>{_UNUSED}",
    "quantized": f"%q = stablehlo.uniform_quantize %arg0 : ({T}) -> tensor<2x!quant.uniform<i8:f32, 0.5>>{_UNUSED}",
    "six bits": f"%q = stablehlo.convert %arg0 : ({T}) -> tensor<2xf6E2M3FN>\n%0 = stablehlo.convert %q : (tensor<2xf6E2M3FN>) -> {T}",
    "four bits": f"%q = stablehlo.convert %arg0 : ({T}) -> tensor<2xi4>\n%0 = stablehlo.convert %q : (tensor<2xi4>) -> {T}",
    "no branch": f'%i = stablehlo.constant dense<0> : tensor<i32>\n%0 = "stablehlo.case"(%i) : (tensor<i32>) -> {T}',
    "a branch": f'%i = stablehlo.constant dense<9> : tensor<i32>\n%0 = "stablehlo.case"(%i) ({{ stablehlo.return %arg0 : {T} }}, {{'
    f" stablehlo.return %arg0 : {T} }}) : (tensor<i32>) -> {T}",
    "einsum": f'%0 = "stablehlo.einsum"(%arg0, %arg0) {{einsum_config = "a,a->a"}} : ({T}, {T}) -> {T}',
    "a cast to a scalar": f"%q = builtin.unrealized_conversion_cast %arg0 : {T} to i32{_UNUSED}",
    "precision": f"%0 = stablehlo.reduce_precision %arg0, format = e99m99 : {T}",
    "a tebibyte": f"%a = stablehlo.constant dense<1.0> : {_BIG}\n%0 = stablehlo.slice %a [0:2] : ({_BIG}) -> {T}",
    "a sorted tebibyte": f'%a = stablehlo.iota dim = 0 : {_BIG}\n%b = "stablehlo.sort"(%a) {_SORT} : ({_BIG}) -> {_BIG}\n'
    f"%0 = stablehlo.slice %b [0:2] : ({_BIG}) -> {T}",
    "sizes that overflow": f"%a = stablehlo.constant dense<1.0> : tensor<4294967296x4294967296x4294967296xf32>{_UNUSED}",
    "top_k of too many": f"%a:2 = chlo.top_k(%arg0, k = 100) : {T} -> (tensor<100xf32>, tensor<100xi32>){_UNUSED}",
    "an annotation": f'%0 = stablehlo.negate %arg0 {{mhlo.frontend_attributes = {{a = "b"}}}} : {T}',
}  # fmt: skip
_TARGETS = (
    "Sharding", "mhlo.erf", "mhlo.topk", "Eigh", "Qr", "LuDecomposition", "ProductOfElementaryHouseholderReflectors", "cusparse_gtsv2_ffi",
)  # fmt: skip
_ROUTINES = ("potrf", "getrf", "geqrf", "orgqr", "gesdd", "syevd", "trsm", "geev", "gehrd", "gtsv")


def _custom(target, operands, version):
    config = ", backend_config = {}" if version == 4 else ""
    return (
        f'%0 = "stablehlo.custom_call"({", ".join(["%arg0"] * operands)}) <{{call_target_name = "{target}", api_version = {version} : i32'
        f"{config}}}> : ({', '.join([T] * operands)}) -> {T}"
    )


def _operations():
    lines = dict(_LINES)
    lines |= {f"{target} of {n}": _custom(target, n, 1) for target in _TARGETS for n in (0, 1, 2)}
    lines |= {f"{r} of {n}, version {v}": _custom(f"lapack_s{r}_ffi", n, v) for r in _ROUTINES for n in (0, 1, 2, 5) for v in (1, 4)}
    return {name: module(f"{line}\n{RETURN}") for name, line in lines.items()}


def crafted():
    """Modules written to do harm, each with one thing that is not as XLA expects it."""
    return _call_graphs() | _attributes() | _operations()


def mutated(text, choice):
    """One line of an honest module changed, or one size everywhere."""
    lines = text.split("\n")
    at = choice.choice([i for i, line in enumerate(lines) if " = " in line and "func.func" not in line])
    change = choice.choice((_number, _dtype, _operation, _operand, _callee, _attribute, _nothing, None))
    if change is None:
        size = choice.choice(re.findall(r"(?<=[<x])\d+(?=x)", text) or ["1"])
        return re.sub(rf"(?<=[<x]){size}(?=x)", choice.choice(["0", "1", "2", "5", "1048576", "9223372036854775807"]), text)
    lines[at] = change(lines[at], text, choice)
    return "\n".join(lines)


def _replaced(pattern, line, word, choice):
    found = list(re.finditer(pattern, line))
    if not found:
        return line
    m = choice.choice(found)
    return line[: m.start()] + word + line[m.end() :]


def _number(line, text, choice):
    return _replaced(r"\d+", line, choice.choice(["0", "1", "2", "3", "7", "100000", "4294967296", "-1", "9223372036854775807"]), choice)


def _dtype(line, text, choice):
    other = choice.choice(["f64", "f16", "bf16", "i8", "i64", "ui8", "i1", "complex<f32>", "f8E4M3FN", "i4", "index"])
    return line.replace(choice.choice(["f32", "i32", "i1"]), other)


def _operation(line, text, choice):
    return _replaced(r"stablehlo\.\w+", line, choice.choice(re.findall(r"stablehlo\.\w+", text)), choice)


def _operand(line, text, choice):
    return _replaced(r"%\w+(#\d+)?", line, choice.choice(re.findall(r"%\w+", text)), choice)


def _callee(line, text, choice):
    return _replaced(r"@[\w.]+", line, choice.choice(re.findall(r"func\.func \w+ (@[\w.]+)", text)), choice)


def _attribute(line, text, choice):
    return re.sub(choice.choice([r", \w+ = [^,{}]*", r"\{[^{}]*\}", r"<\{.*\}>", r"dims = \[[^\]]*\],?"]), "", line, count=1)


def _nothing(line, text, choice):
    return ""


def mutations(texts, count, seed):
    """Mutations of modules, some of them twice."""
    choice = random.Random(seed)
    for i in range(count):
        text = mutated(choice.choice(texts), choice)
        yield f"mutation {i}", mutated(text, choice) if choice.random() < 0.3 else text
