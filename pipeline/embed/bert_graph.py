"""The graph of a BERT encoder written anew over its own weights: whole attention layers in place of their many small steps.

An exported BERT spells attention out in some twenty operations a layer, each of which writes a matrix of tokens by
tokens and reads it again. ONNX Runtime has the whole as one operation (`com.microsoft.Attention`, and beside it
`SkipLayerNormalization` and `BiasGelu`), but doesn't recognise it in graphs like this one. Arithmetic stays float32, so
vectors stay what they were to about 1e-7.

Pure: bytes to bytes. A model file is protobuf; the little of its wire format that is needed stands at the end, because
the `onnx` package would cost every installation 100 MB to move some names about.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

LENGTHS_INPUT: Final = "lengths"
"""int32 (rows,): tokens of each row; what stands behind them is padding. Takes the place of `attention_mask`."""
IDS_INPUT: Final = "input_ids"
KINDS_INPUT: Final = "token_type_ids"
OUTPUT: Final = "last_hidden_state"

_FUSED_DOMAIN: Final = "com.microsoft"
_WORDS: Final = "inner.embeddings.word_embeddings.weight"
_EMBEDDED: Final = "layer_norm"
"""Output of the embedding layer in the exported graph; up to here it is kept as it is."""
_MATRICES_PER_LAYER: Final = 6
_EPSILON: Final = 1e-12
"""Of BERT's layer normalisations."""

# Field numbers of onnx.proto.
_MODEL_GRAPH: Final = 7
_MODEL_OPSET: Final = 8
_OPSET_DOMAIN: Final = 1
_OPSET_VERSION: Final = 2
_GRAPH_NODE: Final = 1
_GRAPH_NAME: Final = 2
_GRAPH_INITIALIZER: Final = 5
_GRAPH_INPUT: Final = 11
_GRAPH_OUTPUT: Final = 12
_TENSOR_NAME: Final = 8
_VALUE_NAME: Final = 1
_NODE_INPUT: Final = 1
_NODE_OUTPUT: Final = 2
_NODE_OP: Final = 4
_NODE_ATTRIBUTE: Final = 5
_NODE_DOMAIN: Final = 7
_TYPE_INT32: Final = 6
_FIXED_BYTES: Final = {1: 8, 5: 4}
"""Size of a value by wire type; 0 is an integer of varying size, 2 has its size before it."""
_MORE: Final = 0x80
"""Set in each byte of an integer but the last; seven bits a byte, the lowest first."""


@dataclass(frozen=True, slots=True)
class _Node:
    inputs: tuple[str, ...]
    output: str
    raw: bytes | memoryview


@dataclass(slots=True)
class _Graph:
    """The parts of a graph that matter here, by the name of what they give."""

    nodes: dict[str, _Node] = field(default_factory=dict)
    initializers: dict[str, memoryview] = field(default_factory=dict)
    inputs: dict[str, memoryview] = field(default_factory=dict)
    outputs: dict[str, memoryview] = field(default_factory=dict)


def fused(model: bytes, *, heads: int) -> bytes:
    """The same encoder with inputs `input_ids`, `token_type_ids` and `lengths`, and output `last_hidden_state`.

    Weights stay in the form they are stored in, with the operations that unfold them; the word table is no longer
    unfolded as a whole, only the rows that a text asks for.

    Args:
        model: an exported BERT whose layout the caller has made sure of by its hash.
        heads: attention heads of a layer.
    """
    source = _read(model)
    matrices = [name[:-2] for name in source.initializers if name.startswith("val_") and name.endswith("_q")]
    nodes = [*_word_rows(source.nodes), *_layers(matrices, heads)]
    known = source.nodes | {node.output: node for node in nodes}
    needed = _needed(known, OUTPUT)
    rows = _bytes(_VALUE_NAME, LENGTHS_INPUT.encode()) + _bytes(
        2, _bytes(1, _int(1, _TYPE_INT32) + _bytes(2, _bytes(1, _bytes(2, b"batch"))))
    )
    graph = chain(
        (_bytes(_GRAPH_NODE, known[name].raw) for name in needed if name in known),
        (_bytes(_GRAPH_NAME, b"fused"),),
        (_bytes(_GRAPH_INITIALIZER, raw) for name, raw in source.initializers.items() if name in needed),
        (_bytes(_GRAPH_INPUT, source.inputs[name]) for name in (IDS_INPUT, KINDS_INPUT)),
        (_bytes(_GRAPH_INPUT, rows), _bytes(_GRAPH_OUTPUT, source.outputs[OUTPUT])),
    )
    opset = _bytes(_OPSET_DOMAIN, _FUSED_DOMAIN.encode()) + _int(_OPSET_VERSION, 1)
    kept = (_field(number, value) for number, value in _fields(memoryview(model)) if number != _MODEL_GRAPH)
    return b"".join((*kept, _bytes(_MODEL_OPSET, opset), _bytes(_MODEL_GRAPH, b"".join(graph))))


def _word_rows(nodes: Mapping[str, _Node]) -> Iterator[_Node]:
    """Rows are gathered first and unfolded then: the whole table as float32 is half of the model's memory."""
    gathered = next(node.output for node in nodes.values() if node.inputs == (_WORDS, IDS_INPUT))
    yield _node("Gather", (f"{_WORDS}_q", IDS_INPUT), "word_rows_q")
    yield _node("Cast", ("word_rows_q",), "word_rows_f", {"to": 1})
    yield _node("Gather", (f"{_WORDS}_scale", IDS_INPUT), "word_rows_scale")
    yield _node("Mul", ("word_rows_f", "word_rows_scale"), gathered)


def _layers(matrices: list[str], heads: int) -> Iterator[_Node]:
    """The layers over the unfolded `matrices`: query, key, value, attention output, and the two of the feed-forward."""
    hidden, count = _EMBEDDED, len(matrices) // _MATRICES_PER_LAYER
    for layer in range(count):
        query, key, value, attended, wide, narrow = matrices[layer * _MATRICES_PER_LAYER :][:_MATRICES_PER_LAYER]
        at, path = f"fused.{layer}.", f"inner.encoder.layer.{layer}."
        biases = tuple(f"{path}attention.self.{name}.bias" for name in ("query", "key", "value"))
        yield _node("Concat", (query, key, value), at + "qkv", {"axis": 1})
        yield _node("Concat", biases, at + "qkv_bias", {"axis": 0})
        inputs = (hidden, at + "qkv", at + "qkv_bias", LENGTHS_INPUT)
        yield _node("Attention", inputs, at + "attention", {"num_heads": heads}, fused=True)
        yield _node("MatMul", (at + "attention", attended), at + "attended")
        yield _normalised(at + "attended", hidden, path + "attention.output.", at + "middle")
        yield _node("MatMul", (at + "middle", wide), at + "wide")
        yield _node("BiasGelu", (at + "wide", path + "intermediate.dense.bias"), at + "gelu", fused=True)
        yield _node("MatMul", (at + "gelu", narrow), at + "narrow")
        out = OUTPUT if layer == count - 1 else at + "out"
        yield _normalised(at + "narrow", at + "middle", path + "output.", out)
        hidden = out


def _normalised(added: str, skipped: str, path: str, output: str) -> _Node:
    weights = (path + "LayerNorm.weight", path + "LayerNorm.bias", path + "dense.bias")
    return _node("SkipLayerNormalization", (added, skipped, *weights), output, {"epsilon": _EPSILON}, fused=True)


def _needed(nodes: Mapping[str, _Node], output: str) -> dict[str, None]:
    """Everything that `output` is made from, what comes first first: a graph lists its nodes in working order."""
    found: dict[str, None] = {}
    open_: list[tuple[str, bool]] = [(output, False)]
    while open_:
        name, ready = open_.pop()
        if ready:
            found[name] = None
        elif name not in found:
            open_.append((name, True))
            open_.extend((source, False) for source in (nodes[name].inputs if name in nodes else ()))
    return found


def _read(model: bytes) -> _Graph:
    [raw] = [value for number, value in _fields(memoryview(model)) if number == _MODEL_GRAPH]
    assert isinstance(raw, memoryview)
    graph = _Graph()
    for number, value in _fields(raw):
        if not isinstance(value, memoryview):
            continue
        if number == _GRAPH_NODE:
            [output] = _texts(value, _NODE_OUTPUT)
            graph.nodes[output] = _Node(_texts(value, _NODE_INPUT), output, value)
        elif number == _GRAPH_INITIALIZER:
            graph.initializers[_texts(value, _TENSOR_NAME)[0]] = value
        elif number == _GRAPH_INPUT:
            graph.inputs[_texts(value, _VALUE_NAME)[0]] = value
        elif number == _GRAPH_OUTPUT:
            graph.outputs[_texts(value, _VALUE_NAME)[0]] = value
    return graph


def _node(
    op: str,
    inputs: tuple[str, ...],
    output: str,
    attributes: Mapping[str, int | float] | None = None,
    *,
    fused: bool = False,
) -> _Node:
    parts = [_bytes(_NODE_INPUT, name.encode()) for name in inputs]
    parts += [_bytes(_NODE_OUTPUT, output.encode()), _bytes(_NODE_OP, op.encode())]
    parts += [_bytes(_NODE_ATTRIBUTE, _attribute(name, value)) for name, value in (attributes or {}).items()]
    parts += [_bytes(_NODE_DOMAIN, _FUSED_DOMAIN.encode())] if fused else []
    return _Node(inputs, output, b"".join(parts))


def _attribute(name: str, value: float) -> bytes:
    head = _bytes(1, name.encode())
    if isinstance(value, int):
        return head + _int(3, value) + _int(20, 2)
    return head + _varint(2 << 3 | 5) + struct.pack("<f", value) + _int(20, 1)


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field: an integer, or bytes of a text, a message or a fixed number."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if kind in _FIXED_BYTES:
            size = _FIXED_BYTES[kind]
        else:
            size, at = _read_varint(message, at)
        yield number, message[at : at + size]
        at += size


def _texts(message: memoryview, wanted: int) -> tuple[str, ...]:
    return tuple(
        str(value, "utf-8") for number, value in _fields(message) if number == wanted and isinstance(value, memoryview)
    )


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while message[at] & _MORE:
        value |= (message[at] & (_MORE - 1)) << shift
        shift += 7
        at += 1
    return value | message[at] << shift, at + 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= _MORE:
        out.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def _int(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, value: bytes | memoryview) -> bytes:
    return b"".join((_varint(number << 3 | 2), _varint(len(value)), value))


def _field(number: int, value: int | memoryview) -> bytes:
    return _int(number, value) if isinstance(value, int) else _bytes(number, value)
